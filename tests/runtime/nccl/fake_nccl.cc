#include "tests/runtime/nccl/fake_nccl.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/bf16.h"

using sluice::cuda::NcclId;

namespace {

enum class Kind { kAllGather, kReduceScatter, kAllReduce, kReduce, kBroadcast, kSend, kReceive };

struct Part {
    Kind kind = Kind::kSend;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
    sluice::cuda::ElementType type{};
    int peer = 0;
};
using Call = std::vector<Part>;

struct World {  // a communicator
    std::size_t members = 0, begun = 0;
    std::deque<std::vector<Call>> calls;  // by number: of every member, empty: not yet
    std::size_t done = 0;
};

}  // namespace

struct ncclComm {
    World* world = nullptr;
    const void* gpu = nullptr;
    std::size_t member = 0, calls = 0;
    int looks = 0;
    bool aborted = false;
    bool under_way() const { return !aborted && world->done < calls; }
};

namespace sluice::cuda {
namespace {

constexpr std::chrono::seconds kForEver{5};  // of an abort

struct State {
    std::mutex mutex;
    std::condition_variable aborted;
    std::map<NcclId, World> worlds;
    std::deque<ncclComm> comms;
    std::uint8_t ids = 0;
    FakeNcclCounts counts;
    int broken = kNcclSuccess;
};
State& state() {
    static State* const made = new State;  // outlives every thread of a test
    return *made;
}
thread_local const void* current_gpu = nullptr;
thread_local bool in_group = false;
thread_local std::pair<ncclComm*, Call> group;

template <class T>
void add(void* to, const void* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) static_cast<T*>(to)[i] += static_cast<const T*>(from)[i];
}

std::vector<std::byte> sum_of(const std::vector<Call>& of_all, std::size_t part, std::size_t bytes) {
    std::vector<std::byte> sum(bytes);
    for (const Call& call : of_all)
        if (call[part].type == ElementType::kFp64)
            add<double>(sum.data(), call[part].from, bytes);
        else
            add<float>(sum.data(), call[part].from, bytes);
    return sum;
}

void run_part(const std::vector<Call>& of_all, std::size_t member, std::size_t part) {
    const Part& mine = of_all[member][part];
    switch (mine.kind) {
        case Kind::kAllGather:
            for (std::size_t m = 0; m < of_all.size(); ++m)
                std::memmove(static_cast<std::byte*>(mine.to) + m * mine.bytes, of_all[m][part].from, mine.bytes);
            return;
        case Kind::kBroadcast: {
            const Part& root = of_all[static_cast<std::size_t>(mine.peer)][part];
            if (mine.to != root.to) std::memcpy(mine.to, root.from, mine.bytes);
            return;
        }
        case Kind::kReceive: {
            const auto peer = static_cast<std::size_t>(mine.peer);
            std::size_t before = 0;  // the k-th receive from a peer meets its k-th send to this member
            for (std::size_t k = 0; k < part; ++k)
                before += of_all[member][k].kind == Kind::kReceive && of_all[member][k].peer == mine.peer ? 1 : 0;
            for (const Part& sent : of_all[peer])
                if (sent.kind == Kind::kSend && sent.peer == static_cast<int>(member) && before-- == 0)
                    std::memcpy(mine.to, sent.from, mine.bytes);
            return;
        }
        default:
            return;
    }
}

// Sums first: they may be formed in place.
void run_call(const std::vector<Call>& of_all) {
    for (std::size_t part = 0; part < of_all[0].size(); ++part) {
        const Part& first = of_all[0][part];
        if (first.kind == Kind::kReduce) {
            const std::vector<std::byte> sum = sum_of(of_all, part, first.bytes);
            std::memcpy(of_all[static_cast<std::size_t>(first.peer)][part].to, sum.data(), first.bytes);
            continue;
        }
        if (first.kind != Kind::kAllReduce && first.kind != Kind::kReduceScatter) continue;
        const std::size_t members = first.kind == Kind::kAllReduce ? 1 : of_all.size();
        const std::vector<std::byte> sum = sum_of(of_all, part, first.bytes * members);
        for (std::size_t m = 0; m < of_all.size(); ++m)
            std::memcpy(of_all[m][part].to, sum.data() + (members == 1 ? 0 : m * first.bytes), first.bytes);
    }
    for (std::size_t m = 0; m < of_all.size(); ++m)
        for (std::size_t part = 0; part < of_all[m].size(); ++part) run_part(of_all, m, part);
}

int post(ncclComm* comm, Call call) {
    const std::lock_guard lock(state().mutex);
    World& world = *comm->world;
    while (world.calls.size() <= comm->calls) world.calls.emplace_back(world.members);
    std::vector<Call>& of_all = world.calls[comm->calls++];
    of_all[comm->member] = std::move(call);
    comm->looks = 3;
    for (const Call& c : of_all)
        if (c.empty()) return kNcclInProgress;
    run_call(of_all);
    ++world.done;
    return kNcclInProgress;
}

int add_part(ncclComm* comm, const Part& part) {
    if (!in_group) return post(comm, {part});
    group.first = comm;
    group.second.push_back(part);
    return kNcclSuccess;
}

int begin(ncclComm** comm, int members, const NcclId* id, int member) {
    const std::lock_guard lock(state().mutex);
    World& world = state().worlds[*id];
    world.members = static_cast<std::size_t>(members);
    ++world.begun;
    ++state().counts.begun;
    state().comms.push_back({&world, current_gpu, static_cast<std::size_t>(member), 0, 3, false});
    *comm = &state().comms.back();
    return kNcclInProgress;
}

int state_of(ncclComm* comm, int* now) {
    const std::lock_guard lock(state().mutex);
    const bool all = comm->world->begun >= comm->world->members && comm->world->done >= comm->calls;
    *now = all && --comm->looks <= 0 ? kNcclSuccess : kNcclInProgress;
    if (state().broken != kNcclSuccess) *now = state().broken;
    return kNcclSuccess;
}

int abort(ncclComm* comm) {
    std::unique_lock lock(state().mutex);
    comm->aborted = true;
    ++state().counts.aborted;
    state().aborted.notify_all();
    const auto quiet = [&] {
        return std::none_of(state().comms.begin(), state().comms.end(),
                            [&](const ncclComm& other) { return other.gpu == comm->gpu && other.under_way(); });
    };
    if (!state().aborted.wait_for(lock, kForEver, quiet)) ++state().counts.stuck;
    return kNcclSuccess;
}

NcclFunctions functions() {
    NcclFunctions f;
    f.version = [](int* version) { return *version = 22809, kNcclSuccess; };
    f.make_id = [](NcclId* id) {
        const std::lock_guard lock(state().mutex);
        id->fill(std::byte{++state().ids});
        return kNcclSuccess;
    };
    f.begin = begin;
    f.state = state_of;
    f.abort = abort;
    f.group_start = [] { return in_group = true, kNcclSuccess; };
    f.group_end = [] {
        in_group = false;
        auto [comm, call] = std::exchange(group, {});
        return comm == nullptr ? kNcclSuccess : post(comm, std::move(call));
    };
    f.all_gather = [](const void* mine, void* all, std::size_t bytes, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kAllGather, mine, all, bytes, {}, 0});
    };
    f.reduce_scatter = [](const void* all, void* mine, std::size_t count, ElementType type, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kReduceScatter, all, mine, count * size_of(type), type, 0});
    };
    f.all_reduce = [](void* values, std::size_t count, ElementType type, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kAllReduce, values, values, count * size_of(type), type, 0});
    };
    f.reduce = [](void* values, std::size_t count, ElementType type, int root, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kReduce, values, values, count * size_of(type), type, root});
    };
    f.broadcast = [](void* bytes, std::size_t count, int root, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kBroadcast, bytes, bytes, count, {}, root});
    };
    f.send = [](const void* bytes, std::size_t count, int to, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kSend, bytes, nullptr, count, {}, to});
    };
    f.receive = [](void* bytes, std::size_t count, int from, ncclComm* comm, Stream) {
        return add_part(comm, {Kind::kReceive, nullptr, bytes, count, {}, from});
    };
    f.describe = [](int) { return "remote process exited"; };
    f.last_error = [] { return "the other one\nhung up"; };
    return f;
}

}  // namespace

const NcclFunctions& fake_nccl() {
    static const NcclFunctions made = functions();
    return made;
}

void FakeDevice::make_current() const { current_gpu = this; }

bool fake_nccl_group_is_open() { return in_group; }

void reset_fake_nccl() {
    const std::lock_guard lock(state().mutex);
    state().worlds.clear();
    state().comms.clear();
    state().counts = {};
    state().broken = kNcclSuccess;
}

FakeNcclCounts fake_nccl_counts() {
    const std::lock_guard lock(state().mutex);
    return state().counts;
}

std::size_t fake_nccl_calls_under_way() {
    const std::lock_guard lock(state().mutex);
    return static_cast<std::size_t>(std::count_if(state().comms.begin(), state().comms.end(),
                                                  [](const ncclComm& comm) { return comm.under_way(); }));
}

void break_fake_nccl(int code) {
    const std::lock_guard lock(state().mutex);
    state().broken = code;
}

}  // namespace sluice::cuda
