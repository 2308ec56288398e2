#include "traces/trace_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

// Not a number and infinities fail every comparison with finite bounds.
bool in_step(Seconds t, const Trace& trace) { return t >= Seconds{0} && t <= trace.step; }

// False when `bytes` are negative or the sum would pass kMaxTraceBytes.
bool add_bytes(Bytes& sum, Bytes bytes) {
    if (bytes < Bytes{0} || bytes > kMaxTraceBytes - sum) return false;
    sum += bytes;
    return true;
}

bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t length = lead < 0x80   ? 1
                                   : lead < 0xC2 ? 0
                                   : lead < 0xE0 ? 2
                                   : lead < 0xF0 ? 3
                                   : lead < 0xF5 ? 4
                                                 : 0;
        if (length == 0 || i + length > text.size()) return false;
        std::uint32_t code = lead & (length == 1 ? 0x7FU : 0xFFU >> (length + 1));
        for (std::size_t k = 1; k < length; ++k) {
            const auto next = static_cast<unsigned char>(text[i + k]);
            if ((next & 0xC0U) != 0x80U) return false;
            code = code << 6 | (next & 0x3FU);
        }
        const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
        if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
        i += length;
    }
    return true;
}

std::string provenance_problem(const Provenance& p) {
    bool good = is_utf8(p.producer) && is_utf8(p.scenario) && is_utf8(p.scenario_fingerprint) &&
                is_utf8(p.schedule_fingerprint) && is_utf8(p.calibration) && is_utf8(p.hardware);
    for (const auto& [name, version] : p.versions) good = good && is_utf8(name) && is_utf8(version);
    for (const std::string& omission : p.omissions) good = good && is_utf8(omission);
    return good ? "" : "provenance: text is not UTF-8";
}

std::string labels_problem(const Trace& trace) {
    std::set<std::string_view> seen;
    for (const std::string& label : trace.labels) {
        if (!is_utf8(label)) return fmt::format("label {}: is not UTF-8", seen.size());
        if (!seen.insert(label).second) return fmt::format("label {}: '{}' is there twice", seen.size(), label);
    }
    return "";
}

std::string lanes_problem(const Trace& trace) {
    const auto key = [](const TraceLane& l) { return std::tuple(l.rank, l.role, l.peer); };
    for (std::size_t i = 0; i < trace.lanes.size(); ++i) {
        const TraceLane& lane = trace.lanes[i];
        if (lane.role > LaneRole::kReceive)
            return fmt::format("lane {}: unknown role {}", i, static_cast<int>(lane.role));
        if (lane.rank == kNoRank) return fmt::format("lane {}: has no rank", i);
        const bool wants_peer = lane.role == LaneRole::kSend || lane.role == LaneRole::kReceive;
        if (wants_peer && lane.peer == kNoRank) return fmt::format("lane {}: a send or receive lane without a peer", i);
        if (!wants_peer && lane.peer != kNoRank) return fmt::format("lane {}: a peer on a lane that has none", i);
        if (i > 0 && key(trace.lanes[i - 1]) >= key(lane))
            return fmt::format("lane {}: not sorted by rank, role and peer, or there twice", i);
    }
    return "";
}

std::string pool_problem(const MemoryPool& pool, const Trace& trace) {
    if (pool.capacity < Bytes{0} || pool.arena < Bytes{0}) return "negative bytes";
    if (!in_step(pool.peak_time, trace))
        return fmt::format("peak at {} s, expected 0 to {} s", pool.peak_time.value, trace.step.value);
    Bytes live{};
    for (std::size_t k = 0; k < pool.peak_kinds.size(); ++k) {
        const auto& [label, bytes] = pool.peak_kinds[k];
        if (label >= trace.labels.size()) return fmt::format("kind label {}, there are {}", label, trace.labels.size());
        if (k > 0 && pool.peak_kinds[k - 1].first >= label) return "kinds not sorted by label, or one there twice";
        if (!add_bytes(live, bytes))
            return fmt::format("{} bytes of kind {}, after {} of others", bytes.value, label, live.value);
    }
    return "";
}

std::string pools_problem(const Trace& trace) {
    std::set<std::pair<bool, std::uint32_t>> seen;
    for (std::size_t i = 0; i < trace.pools.size(); ++i) {
        const MemoryPool& pool = trace.pools[i];
        if (!seen.emplace(pool.host, pool.owner).second)
            return fmt::format("pool {}: a second pool of {} {}", i, pool.host ? "node" : "rank", pool.owner);
        if (const std::string problem = pool_problem(pool, trace); !problem.empty())
            return fmt::format("pool {}: {}", i, problem);
    }
    return "";
}

std::string span_problem(Seconds begin, Seconds end, const Trace& trace) {
    if (in_step(begin, trace) && in_step(end, trace) && begin <= end) return "";
    if (end < begin) return fmt::format("ends at {} s, before it begins at {} s", end.value, begin.value);
    return fmt::format("runs from {} s to {} s, expected 0 to {} s, the step", begin.value, end.value,
                       trace.step.value);
}

}  // namespace

std::string TraceCheck::header() const {
    if (!(trace_.step >= Seconds{0} && trace_.step <= kMaxTraceTime))
        return fmt::format("step of {} s, expected 0 to {} s", trace_.step.value, kMaxTraceTime.value);
    for (const auto check : {labels_problem, lanes_problem, pools_problem})
        if (std::string problem = check(trace_); !problem.empty()) return problem;
    return provenance_problem(trace_.provenance);
}

std::string TraceCheck::event(const TraceEvent& e) {
    if (e.op == kNoOp) return "has no op";
    if (last_op_ != kNoOp && e.op <= last_op_)
        return fmt::format("op {} after op {}: not ordered by op, or there twice", index(e.op), index(last_op_));
    if (e.lane >= trace_.lanes.size()) return fmt::format("lane {}, there are {}", e.lane, trace_.lanes.size());
    if (e.label >= trace_.labels.size()) return fmt::format("label {}, there are {}", e.label, trace_.labels.size());
    if (std::string problem = span_problem(e.begin, e.end, trace_); !problem.empty()) return problem;
    if (e.begin + kTraceTimeTolerance < lane_free_[e.lane])
        return fmt::format("begins at {} s while its lane {} is busy until {} s", e.begin.value, e.lane,
                           lane_free_[e.lane].value);
    if (e.wait > Wait::kMatch) return fmt::format("unknown wait {}", static_cast<int>(e.wait));
    if ((e.wait == Wait::kNone) != (e.blocker == kNoOp)) return "a wait needs a blocker and a blocker a wait";
    if (e.blocker == e.op) return "waits for itself";
    if (e.stage < -1 || e.layer < -1 || e.subsequence < -1 || e.part < -1)
        return "a negative stage, layer, subsequence or part";
    if (!add_bytes(moved_, e.bytes))
        return fmt::format("{} bytes, after {} in the events before", e.bytes.value, moved_.value);
    last_op_ = e.op;
    lane_free_[e.lane] = std::max(lane_free_[e.lane], e.end);
    return "";
}

std::string TraceCheck::kernel(const KernelSpan& k) {
    if (k.event >= trace_.events.size()) return fmt::format("event {}, there are {}", k.event, trace_.events.size());
    if (k.label >= trace_.labels.size()) return fmt::format("label {}, there are {}", k.label, trace_.labels.size());
    if (k.count == 0) return "count 0, expected at least 1";
    const TraceEvent& e = trace_.events[k.event];
    const bool inside = k.begin + kTraceTimeTolerance >= e.begin && k.end <= e.end + kTraceTimeTolerance;
    if (!inside || !(k.begin <= k.end))
        return fmt::format("runs from {} s to {} s, expected a span inside its event {}, {} to {} s", k.begin.value,
                           k.end.value, k.event, e.begin.value, e.end.value);
    if (any_kernel_ && k.event < last_kernel_.event) return "not ordered by event";
    if (any_kernel_ && k.event == last_kernel_.event && k.begin + kTraceTimeTolerance < last_kernel_.end)
        return fmt::format("begins at {} s, before the kernel before it ends at {} s", k.begin.value,
                           last_kernel_.end.value);
    last_kernel_ = k;
    any_kernel_ = true;
    return "";
}

std::string TraceCheck::sample(const MemorySample& s) {
    if (s.pool >= trace_.pools.size()) return fmt::format("pool {}, there are {}", s.pool, trace_.pools.size());
    if (!in_step(s.time, trace_))
        return fmt::format("at {} s, expected 0 to {} s, the step", s.time.value, trace_.step.value);
    if (s.live < Bytes{0}) return "negative bytes";
    if (any_sample_ && std::pair(s.pool, s.time) < std::pair(last_sample_.pool, last_sample_.time))
        return "not ordered by pool and time";
    last_sample_ = s;
    any_sample_ = true;
    return "";
}

std::string check_trace(const Trace& trace) {
    TraceCheck check(trace);
    if (std::string problem = check.header(); !problem.empty()) return problem;
    for (std::size_t i = 0; i < trace.events.size(); ++i)
        if (const std::string problem = check.event(trace.events[i]); !problem.empty())
            return fmt::format("event {}: {}", i, problem);
    for (std::size_t i = 0; i < trace.kernels.size(); ++i)
        if (const std::string problem = check.kernel(trace.kernels[i]); !problem.empty())
            return fmt::format("kernel {}: {}", i, problem);
    for (std::size_t i = 0; i < trace.memory.size(); ++i)
        if (const std::string problem = check.sample(trace.memory[i]); !problem.empty())
            return fmt::format("memory sample {}: {}", i, problem);
    return "";
}

}  // namespace sluice
