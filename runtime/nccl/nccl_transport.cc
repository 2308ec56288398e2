#include "runtime/nccl/nccl_transport.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "runtime/communicators.h"
#include "runtime/cuda/check.h"
#include "runtime/member_share.h"
#include "runtime/nccl/local_communicators.h"
#include "runtime/nccl/message_ends.h"
#include "runtime/nccl/nccl_communicator.h"
#include "runtime/rendezvous/call_list.h"

namespace sluice::cuda {
namespace {

void copy_in_place(const TransportCall& call, std::span<const std::byte> from, std::span<std::byte> to) {
    if (from.data() == to.data()) return;
    check(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice, call.stream), "copy");
}

class NcclTransport : public Transport {
public:
    NcclTransport(Rank rank, std::size_t groups, const NcclFunctions& nccl, std::shared_ptr<LocalCommunicators> all)
        : rank_(rank), nccl_(nccl), all_(std::move(all)), groups_(groups, nullptr) {}

    void add(const MessageEnds& ends, NcclCommunicator& comm, ReceiveGate* gate) {
        if (ends.group)
            groups_[index(*ends.group)] = &comm;
        else
            channels_[{ends.members[0], ends.members[1]}] = {&comm, gate};
    }

    void begin_step() override { ++steps_; }

    void all_gather(const TransportCall& call, GroupId group, std::span<const std::byte> mine,
                    std::span<std::byte> all) override {
        NcclCommunicator* const comm = groups_[index(group)];
        if (comm == nullptr) return copy_in_place(call, mine, all);
        comm->call(call.what,
                   [&](ncclComm* c) { return nccl_.all_gather(mine.data(), all.data(), mine.size(), c, call.stream); });
    }

    void reduce_scatter(const TransportCall& call, GroupId group, ElementType type, std::span<const std::byte> all,
                        std::span<std::byte> mine) override {
        NcclCommunicator* const comm = groups_[index(group)];
        if (comm == nullptr) return copy_in_place(call, all, mine);
        comm->call(call.what, [&](ncclComm* c) {
            return nccl_.reduce_scatter(all.data(), mine.data(), mine.size() / size_of(type), type, c, call.stream);
        });
    }

    void all_gather_shares(const TransportCall& call, GroupId group, ElementType type,
                           std::span<const std::span<std::byte>> pieces) override {
        for_each_share(call, group, type, pieces, [&](const Shares& s, ncclComm* c, const auto& issue) {
            if (s.even) return issue(nccl_.all_gather(s.own(), s.piece.data(), s.bytes(s.member), c, call.stream));
            for (std::size_t m = 0; m < s.members; ++m)
                if (s.bytes(m) > 0) issue(nccl_.broadcast(s.at(m), s.bytes(m), static_cast<int>(m), c, call.stream));
        });
    }

    void reduce_scatter_shares(const TransportCall& call, GroupId group, ElementType type,
                               std::span<const std::span<std::byte>> pieces) override {
        for_each_share(call, group, type, pieces, [&](const Shares& s, ncclComm* c, const auto& issue) {
            if (s.even)
                return issue(nccl_.reduce_scatter(s.piece.data(), s.own(), s.of(s.member).count, type, c, call.stream));
            for (std::size_t m = 0; m < s.members; ++m)
                if (s.bytes(m) > 0)
                    issue(nccl_.reduce(s.at(m), s.of(m).count, type, static_cast<int>(m), c, call.stream));
        });
    }

    void all_reduce(const TransportCall& call, GroupId group, ElementType type,
                    std::span<const std::span<std::byte>> pieces) override {
        NcclCommunicator* const comm = groups_[index(group)];
        if (comm == nullptr) return;
        comm->call(call.what, [&](ncclComm* c) {
            return grouped([&](const auto& issue) {
                for (const std::span<std::byte> piece : pieces)
                    if (!piece.empty())
                        issue(nccl_.all_reduce(piece.data(), piece.size() / size_of(type), type, c, call.stream));
            });
        });
    }

    void all_to_all(const TransportCall& call, GroupId group, std::span<const std::span<const std::byte>> out,
                    std::span<const std::span<std::byte>> in) override {
        NcclCommunicator* const comm = groups_[index(group)];
        if (comm == nullptr) {
            for (std::size_t k = 0; k < out.size(); ++k) copy_in_place(call, out[k], in[k]);
            return;
        }
        const std::size_t members = members_of(group);
        comm->call(call.what, [&](ncclComm* c) {
            return grouped([&](const auto& issue) {
                for (std::size_t k = 0; k < out.size(); ++k) {
                    const int member = static_cast<int>(k % members);
                    if (!out[k].empty()) issue(nccl_.send(out[k].data(), out[k].size(), member, c, call.stream));
                    if (!in[k].empty()) issue(nccl_.receive(in[k].data(), in[k].size(), member, c, call.stream));
                }
            });
        });
    }

    void send(const TransportCall& call, Rank to, std::span<const std::byte> bytes) override {
        const Channel& to_it = channel(rank_, to);
        if (to_it.gate != nullptr) to_it.gate->before_send(call.stream);
        to_it.comm->call(call.what,
                         [&](ncclComm* c) { return nccl_.send(bytes.data(), bytes.size(), 1, c, call.stream); });
    }
    void receive(const TransportCall& call, Rank from, std::span<std::byte> bytes) override {
        const Channel& from_it = channel(from, rank_);
        if (from_it.gate != nullptr)
            steps_ > 1 ? from_it.gate->before_receive(call.stream) : from_it.gate->let_receive_pass();
        from_it.comm->call(call.what,
                           [&](ncclComm* c) { return nccl_.receive(bytes.data(), bytes.size(), 0, c, call.stream); });
    }

    void set_members(GroupId group, std::size_t members) { members_[group] = members; }

private:
    // A piece and where the members' shares of it lie. Where they are even the library has one call for all of them.
    struct Shares {
        std::span<std::byte> piece;
        std::size_t element = 0, member = 0, members = 0;
        bool even = false;
        MemberShare of(std::size_t m) const { return member_share(piece.size() / element, m, members); }
        std::byte* at(std::size_t m) const { return piece.data() + of(m).first * element; }
        std::byte* own() const { return at(member); }
        std::size_t bytes(std::size_t m) const { return of(m).count * element; }
    };

    template <class Issue>
    void for_each_share(const TransportCall& call, GroupId group, ElementType type,
                        std::span<const std::span<std::byte>> pieces, const Issue& issue_shares) {
        NcclCommunicator* const comm = groups_[index(group)];
        if (comm == nullptr) return;
        const std::size_t members = members_of(group), element = size_of(type);
        comm->call(call.what, [&](ncclComm* c) {
            return grouped([&](const auto& issue) {
                for (const std::span<std::byte> piece : pieces)
                    if (!piece.empty())
                        issue_shares(
                            Shares{piece, element, comm->member(), members, piece.size() / element % members == 0}, c,
                            issue);
            });
        });
    }

    // One launch for several calls. The group is closed whatever came between.
    template <class Calls>
    int grouped(const Calls& calls) const {
        int first = nccl_.group_start();
        if (first != kNcclSuccess) return first;
        calls([&](int code) {
            if (first == kNcclSuccess && code != kNcclInProgress) first = code;
        });
        const int ended = nccl_.group_end();
        return first != kNcclSuccess ? first : ended;
    }

    std::size_t members_of(GroupId group) const { return members_.at(group); }

    struct Channel {
        NcclCommunicator* comm = nullptr;
        ReceiveGate* gate = nullptr;  // null: none
    };
    const Channel& channel(Rank from, Rank to) const {
        const auto found = channels_.find({from, to});
        if (found != channels_.end()) return found->second;
        throw InternalError(fmt::format("no {} is scheduled", transfer_name(from, to)));
    }

    const Rank rank_;
    const NcclFunctions& nccl_;
    const std::shared_ptr<LocalCommunicators> all_;
    std::vector<NcclCommunicator*> groups_;  // by id; null: this rank alone, or not a member
    std::map<GroupId, std::size_t> members_;
    std::map<std::pair<Rank, Rank>, Channel> channels_;
    std::uint64_t steps_ = 0;  // begun
};

// ---- Making
// ----------------------------------------------------------------------------------------------------------

void expect_own_gpus(const TransportParts& parts) {
    std::set<int> taken;
    for (std::size_t k = 0; k < parts.local.size(); ++k)
        if (!taken.insert(parts.devices[k]->device()).second)
            throw InputError(
                fmt::format("NCCL needs a GPU for every rank: got rank {} on GPU {}, which another one has",
                            index(parts.local[k]), parts.devices[k]->device()));
}

// Before any communicator: a call that a partner does not make would hang in NCCL.
void expect_same_calls(Rendezvous& job, const TransportParts& parts) {
    const std::vector<RankProgram> programs = rank_programs(parts.schedule, parts.local);
    const auto of_all = job.gather("lists of calls", encode(call_lists(parts.schedule, programs)));
    std::string difference;
    if (job.process() == 0) {
        std::vector<CallList> lists;
        for (const std::vector<std::byte>& bytes : of_all)
            for (CallList& list : decode_call_lists(bytes)) lists.push_back(std::move(list));
        difference = call_difference(std::move(lists)).value_or("");
    }
    const auto told = job.broadcast("comparison of calls", std::as_bytes(std::span(difference)));
    if (!told.empty()) throw InternalError(std::string(reinterpret_cast<const char*>(told.data()), told.size()));
}

void expect_success(const NcclFunctions& nccl, int code, const char* what) {
    if (code == kNcclSuccess || code == kNcclInProgress) return;
    throw EnvironmentError(fmt::format("{}: NCCL says: {}", what, nccl.describe(code)));
}

// An id per communicator, made by the process that runs its first member.
std::vector<NcclId> share_ids(Rendezvous& job, const NcclFunctions& nccl, const std::vector<MessageEnds>& ends,
                              std::span<const Rank> local) {
    std::vector<std::byte> mine(ends.size() * sizeof(NcclId));
    for (std::size_t k = 0; k < ends.size(); ++k) {
        if (!std::binary_search(local.begin(), local.end(), ends[k].members.front())) continue;
        NcclId id{};
        expect_success(nccl, nccl.make_id(&id), "an id for a communicator");
        std::copy(id.begin(), id.end(), mine.begin() + static_cast<std::ptrdiff_t>(k * sizeof id));
    }
    std::vector<std::byte> merged(mine.size());
    for (const std::vector<std::byte>& of_process : job.gather("ids of communicators", mine))
        for (std::size_t i = 0; i < std::min(merged.size(), of_process.size()); ++i) merged[i] |= of_process[i];
    merged = job.broadcast("all ids of communicators", merged);
    std::vector<NcclId> ids(ends.size());
    for (std::size_t k = 0; k < ends.size(); ++k)
        std::copy_n(merged.begin() + static_cast<std::ptrdiff_t>(k * sizeof(NcclId)), sizeof(NcclId), ids[k].begin());
    return ids;
}

class TransportsOfProcess {
public:
    TransportsOfProcess(Rendezvous& job, const NcclFunctions& nccl, const StreamFlags* flags,
                        const TransportParts& parts)
        : job_(job), nccl_(nccl), flags_(flags), parts_(parts), comms_(std::make_shared<LocalCommunicators>()) {
        for (const Rank rank : parts.local)
            transports_.push_back(std::make_unique<NcclTransport>(rank, parts.groups.size(), nccl, comms_));
    }

    std::vector<std::unique_ptr<Transport>> make() {
        const std::vector<MessageEnds> ends = message_ends(parts_.schedule, parts_.groups);
        const std::vector<NcclId> ids = share_ids(job_, nccl_, ends, parts_.local);
        ReceiveGates& gates = comms_->add_gates(job_, flags_, ends, parts_);
        for (std::size_t k = 0; k < ends.size(); ++k) make(ends[k], ids[k], gates.at(k));
        comms_->watch(parts_.monitor);
        return {std::make_move_iterator(transports_.begin()), std::make_move_iterator(transports_.end())};
    }

private:
    void make(const MessageEnds& ends, const NcclId& id, ReceiveGate* gate) {
        std::vector<NcclCommunicator*> begun;
        expect_success(nccl_, nccl_.group_start(), ends.name.c_str());
        try {
            begun = begin(ends, id, gate);
        } catch (...) {  // the group is closed whatever came between: an open one swallows all later calls
            nccl_.group_end();
            throw;
        }
        expect_success(nccl_, nccl_.group_end(), ends.name.c_str());
        for (NcclCommunicator* const comm : begun)
            comm->finish([this] {
                if (const auto verdict = job_.verdict()) throw_verdict(*verdict);
            });
    }

    // Of the local members. Requires: a group of calls is open.
    std::vector<NcclCommunicator*> begin(const MessageEnds& ends, const NcclId& id, ReceiveGate* gate) {
        std::vector<NcclCommunicator*> begun;
        for (std::size_t k = 0; k < parts_.local.size(); ++k) {
            const auto member = ends.member_of(parts_.local[k]);
            if (!member) continue;
            NcclCommunicator& comm = comms_->add(nccl_, ends.name, *member, parts_.monitor);
            parts_.devices[k]->make_current();
            comm.begin(id, static_cast<std::uint32_t>(ends.members.size()));
            transports_[k]->add(ends, comm, gate);
            if (ends.group) transports_[k]->set_members(*ends.group, ends.members.size());
            begun.push_back(&comm);
        }
        return begun;
    }

    Rendezvous& job_;
    const NcclFunctions& nccl_;
    const StreamFlags* const flags_;
    const TransportParts& parts_;
    std::shared_ptr<LocalCommunicators> comms_;
    std::vector<std::unique_ptr<NcclTransport>> transports_;
};

}  // namespace

TransportMaker nccl_transport(Rendezvous& job, const NcclFunctions& nccl, const StreamFlags* flags) {
    return [&job, &nccl, flags](const TransportParts& parts) {
        expect_own_gpus(parts);
        expect_same_calls(job, parts);
        return TransportsOfProcess(job, nccl, flags, parts).make();
    };
}

}  // namespace sluice::cuda
