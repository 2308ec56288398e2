#include "runtime/cuda/in_process_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"
#include "runtime/communicators.h"
#include "runtime/cuda/stream_communicator.h"

namespace sluice::cuda {
namespace {

// What the ranks share: where they meet for each group and channel.
struct MeetingPlaces {
    std::shared_ptr<StreamWork> work;
    std::deque<StreamCommunicator> groups;     // by id
    std::vector<std::pair<Rank, Rank>> pairs;  // that send, sorted: from, to
    std::deque<StreamCommunicator> channels;   // by position in `pairs`
};

bool is_local(std::span<const Rank> local, Rank rank) {
    return std::find(local.begin(), local.end(), rank) != local.end();
}

void expect_all_local(const TransportParts& parts, const std::vector<Rank>& members, const std::string& name) {
    for (const Rank rank : members)
        if (!is_local(parts.local, rank))
            throw InputError(fmt::format("{} has rank {}, which another process runs, expected all ranks in this one",
                                         name, index(rank)));
}

std::shared_ptr<MeetingPlaces> meeting_places(const TransportParts& parts, std::shared_ptr<StreamWork> work) {
    auto places = std::make_shared<MeetingPlaces>();
    places->work = std::move(work);
    const auto add = [&](std::deque<StreamCommunicator>& to, const std::string& name,
                         const std::vector<Rank>& members) {
        expect_all_local(parts, members, name);
        to.emplace_back(name, members, parts.monitor, *places->work);
    };
    for (const Group& group : parts.groups)
        add(places->groups, fmt::format("group {}", index(group.id)), group.members);
    places->pairs = transfer_pairs(parts.schedule);
    for (const auto& [from, to] : places->pairs) add(places->channels, transfer_name(from, to), {from, to});
    return places;
}

class InProcessTransport : public Transport {
public:
    // Requires: the rank's GPU is current.
    InProcessTransport(std::shared_ptr<MeetingPlaces> places, std::span<const Group> groups, Rank rank)
        : places_(std::move(places)), rank_(rank), members_(groups.size()) {
        for (const Group& group : groups)
            if (is_local(group.members, rank)) join(places_->groups[index(group.id)], members_[index(group.id)]);
        for (std::size_t k = 0; k < places_->pairs.size(); ++k) {
            if (places_->pairs[k].first == rank) places_->channels[k].join(0);
            if (places_->pairs[k].second == rank) places_->channels[k].join(1);
        }
    }

    void all_gather(const TransportCall& call, GroupId group, std::span<const std::byte> mine,
                    std::span<std::byte> all) override {
        at(group).all_gather(by(call, group), mine, all);
    }
    void reduce_scatter(const TransportCall& call, GroupId group, ElementType type, std::span<const std::byte> all,
                        std::span<std::byte> mine) override {
        at(group).reduce_scatter(by(call, group), type, all, mine);
    }
    void all_gather_shares(const TransportCall& call, GroupId group, ElementType type,
                           std::span<const std::span<std::byte>> pieces) override {
        at(group).all_gather_shares(by(call, group), type, pieces);
    }
    void reduce_scatter_shares(const TransportCall& call, GroupId group, ElementType type,
                               std::span<const std::span<std::byte>> pieces) override {
        at(group).reduce_scatter_shares(by(call, group), type, pieces);
    }
    void all_reduce(const TransportCall& call, GroupId group, ElementType type,
                    std::span<const std::span<std::byte>> pieces) override {
        at(group).all_reduce(by(call, group), type, pieces);
    }
    void all_to_all(const TransportCall& call, GroupId group, std::span<const std::span<const std::byte>> out,
                    std::span<const std::span<std::byte>> in) override {
        at(group).all_to_all(by(call, group), out, in);
    }
    void send(const TransportCall& call, Rank to, std::span<const std::byte> bytes) override {
        channel(rank_, to).send({0, call.what, call.stream}, bytes);
    }
    void receive(const TransportCall& call, Rank from, std::span<std::byte> bytes) override {
        channel(from, rank_).receive({1, call.what, call.stream}, bytes);
    }

private:
    void join(StreamCommunicator& communicator, std::uint32_t& member) {
        member = communicator.member_of(rank_);
        communicator.join(member);
    }
    StreamCommunicator& at(GroupId group) { return places_->groups[index(group)]; }
    StreamCall by(const TransportCall& call, GroupId group) const {
        return {members_[index(group)], call.what, call.stream};
    }
    StreamCommunicator& channel(Rank from, Rank to) {
        const std::pair ends(from, to);
        const auto found = std::lower_bound(places_->pairs.begin(), places_->pairs.end(), ends);
        SLUICE_CHECK(found != places_->pairs.end() && *found == ends, "a transfer that is scheduled");
        return places_->channels[static_cast<std::size_t>(found - places_->pairs.begin())];
    }

    const std::shared_ptr<MeetingPlaces> places_;
    const Rank rank_;
    std::vector<std::uint32_t> members_;  // this rank's position, by group
};

}  // namespace

std::vector<std::unique_ptr<Transport>> in_process_transports(const TransportParts& parts,
                                                              std::shared_ptr<StreamWork> work) {
    const std::shared_ptr<MeetingPlaces> places = meeting_places(parts, std::move(work));
    std::vector<std::unique_ptr<Transport>> made;
    for (std::size_t k = 0; k < parts.local.size(); ++k) {
        parts.devices[k]->make_current();
        made.push_back(std::make_unique<InProcessTransport>(places, parts.groups, parts.local[k]));
    }
    return made;
}

TransportMaker in_process_transport() {
    return [](const TransportParts& parts) {
        std::vector<int> devices;
        for (const DevicePart* const part : parts.devices) devices.push_back(part->device());
        return in_process_transports(parts, gpu_stream_work(devices));
    };
}

}  // namespace sluice::cuda
