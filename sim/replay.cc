#include "sim/replay.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "models/collective_cost.h"
#include "models/kernel_cost.h"
#include "models/rails.h"
#include "sim/busy_share.h"
#include "sim/collectives.h"
#include "sim/compute_speeds.h"
#include "sim/copy_parts.h"
#include "sim/platform.h"
#include "sim/topology.h"

namespace sluice {
namespace {

constexpr std::uint64_t kProgressStep = 512;  // ops between two updates of the shared counter

class Replay {
public:
    Replay(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches, const Cluster& cluster,
           const Calibration& calibration, const PinnedMemory& pinned, std::span<OpRun> runs, ReplayCounters& counters);
    void run();

private:
    // A rank's engines as far as its compute speed depends on them, and its copies in several parts.
    struct Engines {
        std::size_t slowed_by = 0;  // set of Slowing
        bool computing = false;
        double memory_bound = 0;  // share of the running op's time
        bool changed = false;  // listed in changed_
        std::size_t parts_out = 0, parts_in = 0;  // flows of the running copy that have not ended
    };

    Routes routes() const;
    // Of the flows of a collective inside nodes, or of one rail between nodes.
    BytesPerSecond cap(const Collective& collective, bool across_nodes) const {
        return bus_bandwidth(collective.bytes, across_nodes, calibration_);
    }
    BytesPerSecond cap(const Collective& collective, const MemberFlow& f) const;
    Endpoint source(const MemberFlow& f, BytesPerSecond cap) const {
        return std::isfinite(cap.value) ? topology_.channel(f.from) : topology_.gpu(f.from);
    }
    void expand_all(const Collective& collective, std::vector<MemberFlow>& flows) const;

    void ready(OpId id);
    void begin(OpId id);
    void price(const Compute& work);
    Seconds price_now(Rank rank) const;
    void start_compute(const Op& op);
    void start_copy(const Op& op);
    void start_match(std::uint32_t match);
    void start_transfer(std::uint32_t match);
    void start_collective(std::uint32_t match);
    template <class Then>
    void after(Seconds latency, Then then);
    void flow(Endpoint from, Endpoint to, Bytes bytes, OpId token);

    void work_ended(std::uint32_t token);
    void settle();
    void end(OpId id);
    void engine_runs(const Op& op, bool running);
    void change(Rank rank);
    std::size_t idle_parts(Rank rank) const;
    void set_speeds();

    const Op& op(OpId id) const { return schedule_.ops[index(id)]; }
    bool last_of(OpId token);
    std::size_t& parts_left(const Op& copy) {
        Engines& engines = engines_[index(copy.rank)];
        return copy.lane.kind == LaneKind::kCopyOut ? engines.parts_out : engines.parts_in;
    }

    const Schedule& schedule_;
    const OpGraph& graph_;
    const OpMatches& matches_;
    const Calibration& calibration_;
    std::span<OpRun> runs_;
    ReplayCounters& counters_;
    Topology topology_;
    std::vector<std::vector<CopyPart>> copy_parts_;  // by rank
    ComputeSpeeds speeds_;
    const std::size_t parts_;   // of a device
    std::vector<BusyShare> busy_;  // by device; none where no limit of power shows
    std::vector<Rails> rails_;  // by group
    Platform platform_;

    std::vector<std::uint32_t> waiting_for_;  // by op: predecessors that have not ended
    std::vector<std::uint32_t> not_ready_;    // by match: members that are not ready, missing ones included
    std::vector<std::uint32_t> flows_left_;   // by match
    std::vector<Engines> engines_;            // by rank
    std::vector<Rank> changed_;
    std::vector<OpId> ended_;        // ended now, their successors not told yet
    std::vector<MemberFlow> flows_;  // scratch
    const Compute* priced_ = nullptr;  // the work that was priced last
    Seconds price_{};
    double memory_bound_ = 0;  // share of price_
    Seconds full_clock_price_{};
    std::uint64_t ops_ended_ = 0;
};

std::vector<Rails> rails_of_groups(const Schedule& schedule, const Cluster& cluster) {
    std::vector<Rails> result;
    for (const Group& group : schedule.groups) result.push_back(rails_of(group.members, cluster));
    return result;
}

std::vector<BusyShare> busy_shares(const PowerLimit& limit, std::size_t ranks, std::size_t parts) {
    if (limit.window.value <= 0) return {};
    return std::vector<BusyShare>((ranks + parts - 1) / parts, BusyShare(limit, parts));
}

Replay::Replay(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches, const Cluster& cluster,
               const Calibration& calibration, const PinnedMemory& pinned, std::span<OpRun> runs,
               ReplayCounters& counters)
    : schedule_(schedule),
      graph_(graph),
      matches_(matches),
      calibration_(calibration),
      runs_(runs),
      counters_(counters),
      topology_(cluster, schedule.ranks.size()),
      copy_parts_(copy_parts(pinned, topology_)),
      speeds_(calibration.interference, cluster.gpu.parts),
      parts_(static_cast<std::size_t>(cluster.gpu.parts)),
      busy_(busy_shares(calibration.power_limit, schedule.ranks.size(), parts_)),
      rails_(rails_of_groups(schedule, cluster)),
      platform_(topology_, routes(), speeds_.all(), [this](std::uint32_t token) { work_ended(token); }),
      waiting_for_(graph.predecessor_counts()),
      not_ready_(matches.size()),
      flows_left_(matches.size(), 0),
      engines_(schedule.ranks.size()) {
    for (std::uint32_t m = 0; m < matches.size(); ++m) {
        not_ready_[m] = static_cast<std::uint32_t>(matches.members(m).size());
    }
}

void Replay::run() {
    std::vector<OpId> first;  // found before any is started: starting may end others
    for (const Op& o : schedule_.ops) {
        if (waiting_for_[index(o.id)] == 0) first.push_back(o.id);
    }
    for (const OpId id : first) ready(id);
    settle();
    platform_.run();
    counters_.ops_ended.store(ops_ended_, std::memory_order_relaxed);
    counters_.activities = platform_.activities();
}

// ---- Routes
// ----------------------------------------------------------------------------------------------------------

BytesPerSecond Replay::cap(const Collective& c, const MemberFlow& f) const {
    return cap(c, !topology_.same_node(f.from, f.to)) / static_cast<double>(f.sharers);
}

void Replay::expand_all(const Collective& c, std::vector<MemberFlow>& flows) const {
    flows.clear();
    expand(c, schedule_.groups[index(c.group)].members, rails_[index(c.group)], flows);
}

// Only what the schedule uses: a full table between all GPUs of a large cluster would be mostly empty.
Routes Replay::routes() const {
    Routes found;
    std::set<std::tuple<GroupId, CollectiveKind, std::uint32_t, bool, bool>> expanded;
    std::vector<MemberFlow> flows;
    for (const Op& o : schedule_.ops) {
        if (o.lane.kind == LaneKind::kCopyOut) {
            for (const CopyPart& part : copy_parts_[index(o.rank)])
                found.insert({topology_.gpu(o.rank), part.memory});
        } else if (o.lane.kind == LaneKind::kCopyIn) {
            for (const CopyPart& part : copy_parts_[index(o.rank)])
                found.insert({part.memory, topology_.gpu(o.rank)});
        } else if (o.lane.kind == LaneKind::kSend) {
            found.insert({topology_.gpu(o.rank), topology_.gpu(o.lane.peer)});
        } else if (const auto* c = std::get_if<Collective>(&o.work)) {
            const bool inside = std::isfinite(cap(*c, false).value), between = std::isfinite(cap(*c, true).value);
            if (!expanded.insert({c->group, c->kind, c->root, inside, between}).second) continue;
            expand_all(*c, flows);
            for (const MemberFlow& f : flows) found.insert({source(f, cap(*c, f)), topology_.gpu(f.to)});
        }
    }
    return found;
}

// ---- Starting
// --------------------------------------------------------------------------------------------------------

// All predecessors of `id` have ended.
void Replay::ready(OpId id) {
    const std::uint32_t match = matches_.of(id);
    if (match == kNoMatch) {
        begin(id);
        const Op& o = op(id);
        std::holds_alternative<Compute>(o.work) ? start_compute(o) : start_copy(o);
    } else if (--not_ready_[match] == 0) {
        start_match(match);
    }
}

void Replay::begin(OpId id) {
    runs_[index(id)].begin = platform_.now().value;
    if (!busy_.empty() && op(id).lane.kind == LaneKind::kCompute)
        busy_[index(op(id).rank) / parts_].begin(platform_.now());
    if (speeds_.vary()) engine_runs(op(id), true);
}

// The shards of a stage start the same work one after another.
void Replay::price(const Compute& work) {
    if (priced_ != nullptr && *priced_ == work) return;
    priced_ = &work, price_ = compute_time(work, calibration_);
    if (!busy_.empty()) full_clock_price_ = full_clock_time(work, calibration_);
    if (speeds_.vary_with_parts() && price_.value > 0) memory_bound_ = memory_bound_time(work, calibration_) / price_;
}

// Of the work that was priced last, by how busy its device has been.
Seconds Replay::price_now(Rank rank) const {
    if (busy_.empty()) return price_;
    return price_ - (price_ - full_clock_price_) * busy_[index(rank) / parts_].gain(price_);
}

void Replay::start_compute(const Op& o) {
    price(std::get<Compute>(o.work));
    engines_[index(o.rank)].memory_bound = memory_bound_;
    if (price_.value > 0) {
        platform_.start_compute(o.rank, price_now(o.rank), static_cast<std::uint32_t>(o.id));
    } else {
        ended_.push_back(o.id);
    }
}

void Replay::start_copy(const Op& o) {
    after(topology_.copy_latency(), [this, id = o.id] {
        const Op& copy = op(id);
        const Endpoint gpu = topology_.gpu(copy.rank);
        const bool out = copy.lane.kind == LaneKind::kCopyOut;
        const std::vector<CopyPart>& parts = copy_parts_[index(copy.rank)];
        parts_left(copy) = parts.size();
        const std::vector<Bytes> bytes = divide(std::get<Copy>(copy.work).bytes, parts);
        for (std::size_t p = 0; p < parts.size(); ++p)
            flow(out ? gpu : parts[p].memory, out ? parts[p].memory : gpu, bytes[p], id);
    });
}

void Replay::start_match(std::uint32_t match) {
    const std::span<const OpId> members = matches_.members(match);
    for (const OpId id : members) begin(id);
    if (std::holds_alternative<Collective>(op(members.front()).work)) {
        start_collective(match);
    } else {
        start_transfer(match);
    }
}

void Replay::start_transfer(std::uint32_t match) {
    const Op& send = op(matches_.members(match).front());
    flows_left_[match] = 1;
    after(topology_.transfer_latency(send.rank, send.lane.peer), [this, id = send.id] {
        const Op& o = op(id);
        flow(topology_.gpu(o.rank), topology_.gpu(o.lane.peer), std::get<Send>(o.work).bytes, id);
    });
}

void Replay::start_collective(std::uint32_t match) {
    const OpId leader = matches_.members(match).front();
    const auto& collective = std::get<Collective>(op(leader).work);
    const std::size_t members = schedule_.groups[index(collective.group)].members.size();
    if (members <= 1) {
        ended_.push_back(leader);
        return;
    }
    after(collective_latency(collective, members, calibration_), [this, leader, match] {
        const auto& c = std::get<Collective>(op(leader).work);
        expand_all(c, flows_);
        flows_left_[match] = static_cast<std::uint32_t>(flows_.size());
        for (const MemberFlow& f : flows_) {
            const BytesPerSecond rate = cap(c, f);
            if (std::isfinite(rate.value)) platform_.set_rate(topology_.cap_link(f.from, f.to), rate);
            flow(source(f, rate), topology_.gpu(f.to), f.bytes, leader);
        }
    });
}

// Runs `then` once the latency is paid. What ends in `then` without any work is settled there: inside a timer nobody
// else does.
template <class Then>
void Replay::after(Seconds latency, Then then) {
    if (latency.value > 0) {
        platform_.after(latency, [this, then] {
            then();
            settle();
        });
    } else {
        then();
    }
}

void Replay::flow(Endpoint from, Endpoint to, Bytes bytes, OpId token) {
    if (bytes.value > 0) {
        platform_.start_flow(from, to, bytes, static_cast<std::uint32_t>(token));
        return;
    }
    if (last_of(token)) ended_.push_back(token);
}

// ---- Ending
// ----------------------------------------------------------------------------------------------------------

// Counts a flow or an execution as ended; was it the last of its op or match?
bool Replay::last_of(OpId token) {
    const std::uint32_t match = matches_.of(token);
    if (match != kNoMatch) return --flows_left_[match] == 0;
    const Op& o = op(token);
    return o.lane.kind == LaneKind::kCompute || --parts_left(o) == 0;
}

// The token of work is its op, or the first member of its match.
void Replay::work_ended(std::uint32_t token) {
    const auto id = OpId{token};
    if (!last_of(id)) return;
    ended_.push_back(id);
    settle();
}

// Tells successors until nothing more ends now. A queue, not recursion: chains of ops without duration may be long.
void Replay::settle() {
    for (std::size_t next = 0; next < ended_.size(); ++next) {
        const OpId id = ended_[next];
        const std::uint32_t match = matches_.of(id);
        if (match == kNoMatch) {
            end(id);
        } else {
            for (const OpId member : matches_.members(match)) end(member);
        }
    }
    ended_.clear();
    set_speeds();
}

void Replay::end(OpId id) {
    runs_[index(id)].end = platform_.now().value;
    if (!busy_.empty() && op(id).lane.kind == LaneKind::kCompute)
        busy_[index(op(id).rank) / parts_].end(platform_.now());
    if (speeds_.vary()) engine_runs(op(id), false);
    if (++ops_ended_ % kProgressStep == 0) counters_.ops_ended.store(ops_ended_, std::memory_order_relaxed);
    for (const OpId successor : graph_.successors(id)) {
        if (--waiting_for_[index(successor)] == 0) ready(successor);
    }
}

// ---- Interference
// ----------------------------------------------------------------------------------------------------

void Replay::engine_runs(const Op& o, bool running) {
    Engines& engines = engines_[index(o.rank)];
    if (o.lane.kind == LaneKind::kCompute) {
        engines.computing = running;
    } else if (const std::size_t bit = slowing(o.lane.kind); bit != 0) {
        engines.slowed_by = running ? engines.slowed_by | bit : engines.slowed_by & ~bit;
    } else {
        return;
    }
    if (o.lane.kind != LaneKind::kCompute || !speeds_.vary_with_parts()) return change(o.rank);
    const std::size_t first = index(o.rank) / parts_ * parts_;
    for (std::size_t part = first; part < std::min(first + parts_, engines_.size()); ++part) change(id_at<Rank>(part));
}

void Replay::change(Rank rank) {
    Engines& engines = engines_[index(rank)];
    if (!engines.changed) changed_.push_back(rank);
    engines.changed = true;
}

// Other parts of its device that do not compute; those that no rank runs on never do.
std::size_t Replay::idle_parts(Rank rank) const {
    if (!speeds_.vary_with_parts()) return 0;
    const std::size_t first = index(rank) / parts_ * parts_;
    std::size_t computing = 0;
    for (std::size_t part = first; part < std::min(first + parts_, engines_.size()); ++part)
        if (part != index(rank) && engines_[part].computing) ++computing;
    return parts_ - 1 - computing;
}

// Once per instant: a copy that follows another leaves the speed as it is.
void Replay::set_speeds() {
    for (const Rank r : changed_) {
        Engines& engines = engines_[index(r)];
        engines.changed = false;
        if (engines.computing)
            platform_.set_speed(r, speeds_.at(engines.slowed_by, engines.memory_bound, idle_parts(r)));
    }
    changed_.clear();
}

}  // namespace

void replay(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches, const Cluster& cluster,
            const Calibration& calibration, const PinnedMemory& pinned, std::span<OpRun> runs,
            ReplayCounters& counters) {
    Replay{schedule, graph, matches, cluster, calibration, pinned, runs, counters}.run();
}

}  // namespace sluice
