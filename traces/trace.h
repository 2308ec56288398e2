// A trace: when every op of one step ran, what it waited for, and how memory went. Predicted (sim/) and measured
// (runtime/) traces have this one format and are joined op by op through op ids. docs/traces.md is the manual.
//
// What a trace must obey, and trace_check.h checks when one is written or read: every time lies in [0, step], ends do
// not precede begins, the events of a lane do not overlap and kernels lie in their event (both up to a nanosecond),
// indices are in range, vectors are ordered as said below, labels, lanes and pools are distinct, text is UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace sluice {

// What a lane of a rank does. The numbers are part of the file format.
enum class LaneRole : std::uint8_t { kCompute, kCopyOut, kCopyIn, kCollective, kSend, kReceive };

struct TraceLane {
    Rank rank{};
    LaneRole role = LaneRole::kCompute;
    Rank peer = kNoRank;  // send and receive only
    friend bool operator==(const TraceLane&, const TraceLane&) = default;
};

// Why an op did not start earlier: what its `blocker` is to it.
enum class Wait : std::uint8_t {
    kNone,   // it started when the step began
    kLane,   // the previous op of its own lane
    kData,   // an op of its rank that produced or consumed what it uses
    kReuse,  // an op of its rank that had to leave the bytes it takes over
    kMatch,  // the partner that was ready last; blocker is that partner's op. That op itself says what it waited for
};

struct TraceEvent {
    OpId op{};
    std::uint32_t lane = 0;  // index into Trace::lanes
    Seconds begin{}, end{};  // from the start of the step
    OpId blocker = kNoOp;
    Wait wait = Wait::kNone;
    std::uint32_t label = 0;  // index into Trace::labels: the phase, "forward", "optimizer" ...
    std::int32_t stage = -1, layer = -1, subsequence = -1, part = -1;  // -1: does not apply
    Bytes bytes{};           // moved by a copy, a transfer or a collective (per rank); 0 for compute
    std::uint32_t flow = 0;  // same number on an offload and on its reload; 0: none
    friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

// One kernel inside a compute event, or `count` equal ones back to back.
struct KernelSpan {
    std::uint32_t event = 0;  // index into Trace::events
    std::uint32_t label = 0;  // index into Trace::labels: the op class, "gemm", "attention_forward", "norm" ...
    std::uint32_t count = 1;
    Seconds begin{}, end{};
    friend bool operator==(const KernelSpan&, const KernelSpan&) = default;
};

// A device arena of one rank, or the pinned memory of one node.
struct MemoryPool {
    bool host = false;
    std::uint32_t owner = 0;  // rank, or node when host
    Bytes capacity{};
    Bytes arena{};  // what is allocated, whatever lives in it
    Seconds peak_time{};
    OpId peak_op = kNoOp;                                     // the op that was running when most bytes lived
    std::vector<std::pair<std::uint32_t, Bytes>> peak_kinds;  // label of the buffer kind, live bytes; by label index
    friend bool operator==(const MemoryPool&, const MemoryPool&) = default;
};

// Live bytes of a pool from `time` on.
struct MemorySample {
    std::uint32_t pool = 0;  // index into Trace::pools
    Seconds time{};
    Bytes live{};
    friend bool operator==(const MemorySample&, const MemorySample&) = default;
};

// Where the numbers come from. Never environment variables, user or machine names.
struct Provenance {
    std::string producer;              // "simgrid replay", "cpu runtime" ...
    std::string scenario;              // name
    std::string scenario_fingerprint;  // of the scenario with everything it includes
    std::string schedule_fingerprint;
    std::string calibration;                                    // name and fingerprint
    std::string hardware;                                       // what was simulated or used
    std::vector<std::pair<std::string, std::string>> versions;  // "sluice" -> "0.1.0", "simgrid" -> "3.32" ...
    std::vector<std::string> omissions;                         // what the producer does not model, one sentence each
    friend bool operator==(const Provenance&, const Provenance&) = default;
};

struct Trace {
    Provenance provenance;
    Seconds step{};  // the step's duration: at least the last event's end
    std::vector<std::string> labels;
    std::vector<TraceLane> lanes;     // sorted
    std::vector<TraceEvent> events;   // ordered by op id; at most one per op
    std::vector<KernelSpan> kernels;  // ordered by event, then begin
    std::vector<MemoryPool> pools;
    std::vector<MemorySample> memory;  // ordered by pool, then time
    friend bool operator==(const Trace&, const Trace&) = default;
};

}  // namespace sluice
