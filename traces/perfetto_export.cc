#include "traces/perfetto_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>

#include "traces/event_name.h"
#include "traces/lane_name.h"

namespace sluice {
namespace {

using Nanoseconds = std::int64_t;  // of the file: rounded one by one, so that order and nesting survive rounding

Nanoseconds nanoseconds(Seconds t) { return std::llround(t.value * 1e9); }

// The format wants microseconds; three digits keep nanoseconds, without a double on the way.
std::string microseconds(Nanoseconds t) { return fmt::format("{}.{:03}", t / 1000, t % 1000); }

std::string quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A name without its quotes, to be put into a longer one.
std::string escaped(std::string_view text) {
    const std::string with_quotes = quoted(text);
    return with_quotes.substr(1, with_quotes.size() - 2);
}

std::string_view name_of(Wait wait) {
    switch (wait) {
        case Wait::kNone:
            return "nothing";
        case Wait::kLane:
            return "lane";
        case Wait::kData:
            return "data";
        case Wait::kReuse:
            return "reuse of memory";
        case Wait::kMatch:
            return "partner";
    }
    return "";
}

// Viewers give process and thread 0 to the idle task, and take the thread whose id is its process's for the main one.
// So: ranks are processes 1 + rank, nodes come after the last rank, and lanes are threads after the last process.
struct Numbering {
    explicit Numbering(const Trace& trace) {
        std::uint64_t ranks = 0, nodes = 0;
        for (const TraceLane& lane : trace.lanes) ranks = std::max<std::uint64_t>(ranks, index(lane.rank) + 1);
        for (const MemoryPool& pool : trace.pools) {
            std::uint64_t& last = pool.host ? nodes : ranks;
            last = std::max<std::uint64_t>(last, pool.owner + std::uint64_t{1});
        }
        first_node = ranks + 1;
        first_thread = ranks + nodes + 1;
    }
    static std::uint64_t process(Rank rank) { return index(rank) + 1; }
    std::uint64_t process(const MemoryPool& pool) const {
        return pool.host ? first_node + pool.owner : std::uint64_t{pool.owner} + 1;
    }
    std::uint64_t thread(std::size_t lane) const { return first_thread + lane; }

    std::uint64_t first_node = 0, first_thread = 0;
};

// An event of the file: what all of one phase ("X", "C" ...) share.
struct Record {
    std::string_view phase, category, name;  // escaped
    std::uint64_t process = 0;
    Nanoseconds at = 0;
};

class Exporter {
public:
    Exporter(std::ostream& out, const Trace& trace, const PerfettoOptions& options)
        : out_(out), trace_(trace), options_(options), number_(trace), lane_free_(trace.lanes.size()) {
        for (const std::string& label : trace.labels) labels_.push_back(escaped(label));
    }

    void write() {
        append("{{\"displayTimeUnit\":\"ms\",\"otherData\":");
        append("{}", provenance());
        append(",\"traceEvents\":[");
        write_names();
        write_events();
        write_flows();
        write_counters();
        append("\n]}}\n");
        flush();
    }

private:
    template <class... Args>
    void append(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
        if (buffer_.size() > 1U << 16) flush();
    }

    void flush() {
        out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
        buffer_.clear();
    }

    bool shown(Rank rank) const { return options_.max_ranks == 0 || index(rank) < options_.max_ranks; }
    bool shown(const MemoryPool& pool) const { return pool.host || shown(Rank{pool.owner}); }

    // Begins the next element of traceEvents.
    void next() { append("{}", std::exchange(first_, false) ? "\n" : ",\n"); }

    void write_record(const Record& r) {
        next();
        append("{{\"ph\":\"{}\",\"cat\":\"{}\",\"name\":\"{}\",\"pid\":{},\"ts\":{}", r.phase, r.category, r.name,
               r.process, microseconds(r.at));
    }

    std::string provenance() const {
        const Provenance& p = trace_.provenance;
        nlohmann::json other = {{"producer", p.producer},
                                {"scenario", p.scenario},
                                {"scenario fingerprint", p.scenario_fingerprint},
                                {"schedule fingerprint", p.schedule_fingerprint},
                                {"calibration", p.calibration},
                                {"hardware", p.hardware},
                                {"step seconds", fmt::format("{}", trace_.step.value)}};
        for (const auto& [name, version] : p.versions) other["version of " + name] = version;
        for (std::size_t i = 0; i < p.omissions.size(); ++i)
            other[fmt::format("not modelled {}", i + 1)] = p.omissions[i];
        if (options_.max_ranks != 0) other["shown"] = fmt::format("only ranks below {}", options_.max_ranks);
        return other.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }

    // ---- Names of processes and threads

    void name_process(std::uint64_t process, std::string_view name) {
        next();
        append("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"{}\"}}}}", process, name);
        next();
        append("{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{0},\"args\":{{\"sort_index\":{0}}}}}", process);
    }

    void write_names() {
        Rank last = kNoRank;
        for (std::size_t i = 0; i < trace_.lanes.size(); ++i) {
            const TraceLane& lane = trace_.lanes[i];
            if (!shown(lane.rank)) continue;
            const std::uint64_t process = Numbering::process(lane.rank), thread = number_.thread(i);
            if (std::exchange(last, lane.rank) != lane.rank)
                name_process(process, fmt::format("rank {}", index(lane.rank)));
            next();
            append("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}",
                   process, thread, lane_name(lane));
            next();
            append(
                "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}",
                process, thread, i);
        }
        for (const MemoryPool& pool : trace_.pools)
            if (pool.host) name_process(number_.process(pool), fmt::format("host memory of node {}", pool.owner));
    }

    // ---- Ops and their kernels

    void write_event_args(const TraceEvent& e) {
        append(",\"args\":{{\"op\":{},\"phase\":\"{}\"", index(e.op), labels_[e.label]);
        const std::pair<std::string_view, std::int32_t> tags[] = {
            {"stage", e.stage}, {"layer", e.layer}, {"subsequence", e.subsequence}, {"part", e.part}};
        for (const auto& [key, value] : tags)
            if (value >= 0) append(",\"{}\":{}", key, value);
        if (e.bytes != Bytes{0}) append(",\"bytes\":{}", e.bytes.value);
        if (e.flow != 0) append(",\"flow\":{}", e.flow);
        if (e.wait != Wait::kNone) append(",\"waited for\":\"op {} ({})\"", index(e.blocker), name_of(e.wait));
        append("}}}}");
    }

    // A slice from `begin` to `end`, left open before its args.
    void open_slice(const TraceEvent& e, std::string_view category, std::string_view name, Nanoseconds begin,
                    Nanoseconds end) {
        write_record({"X", category, name, Numbering::process(trace_.lanes[e.lane].rank), begin});
        append(",\"dur\":{},\"tid\":{}", microseconds(end - begin), number_.thread(e.lane));
    }

    void write_events() {
        std::size_t kernel = 0;
        for (std::size_t i = 0; i < trace_.events.size(); ++i) {
            const TraceEvent& e = trace_.events[i];
            const std::size_t first = kernel;
            while (kernel < trace_.kernels.size() && trace_.kernels[kernel].event == i) ++kernel;
            const TraceLane& lane = trace_.lanes[e.lane];
            if (!shown(lane.rank)) continue;
            // Slices of a track must not overlap, not even by what the trace's tolerance lets through.
            const Nanoseconds begin = std::max(nanoseconds(e.begin), lane_free_[e.lane]);
            const Nanoseconds end = std::max(begin, nanoseconds(e.end));
            lane_free_[e.lane] = end;
            open_slice(e, category_of(lane.role), event_name(e, lane.role, labels_[e.label]), begin, end);
            write_event_args(e);
            if (options_.kernels) write_kernels(e, first, kernel, begin, end);
        }
    }

    void write_kernels(const TraceEvent& e, std::size_t first, std::size_t last, Nanoseconds begin, Nanoseconds end) {
        for (std::size_t i = first; i < last; ++i) {
            const KernelSpan& k = trace_.kernels[i];
            const Nanoseconds from = std::clamp(nanoseconds(k.begin), begin, end);
            const Nanoseconds to = std::clamp(nanoseconds(k.end), from, end);
            open_slice(e, "kernel", labels_[k.label], from, to);
            append(",\"args\":{{\"count\":{}}}}}", k.count);
            begin = to;
        }
    }

    // ---- Arrows from an offload to its reloads

    // Both ends sit at the begin of their slices: within them even when rounded, and after them in the file. Arrows are
    // numbered anew, so that ids are distinct whatever the trace's flow numbers are.
    void write_flow(const TraceEvent& offload, const TraceEvent& reload, std::size_t id) {
        for (const TraceEvent* e : {&offload, &reload}) {
            write_record({e == &offload ? "s" : "f", "offload", "offload to reload",
                          Numbering::process(trace_.lanes[e->lane].rank), nanoseconds(e->begin)});
            append(",\"tid\":{},\"id\":{},\"bp\":\"e\"}}", number_.thread(e->lane), id);
        }
    }

    void write_flows() {
        std::vector<const TraceEvent*> copies;
        for (const TraceEvent& e : trace_.events) {
            const TraceLane& lane = trace_.lanes[e.lane];
            const bool copy = lane.role == LaneRole::kCopyOut || lane.role == LaneRole::kCopyIn;
            if (copy && e.flow != 0 && shown(lane.rank)) copies.push_back(&e);
        }
        // Offloads come before the reloads of the same rank and flow: kCopyOut < kCopyIn.
        const auto key = [&](const TraceEvent* e) {
            const TraceLane& lane = trace_.lanes[e->lane];
            return std::tuple(lane.rank, e->flow, lane.role, e->op);
        };
        std::sort(copies.begin(), copies.end(), [&](const auto* a, const auto* b) { return key(a) < key(b); });
        const TraceEvent* offload = nullptr;
        std::size_t id = 0;
        for (const TraceEvent* e : copies) {
            const TraceLane& lane = trace_.lanes[e->lane];
            if (lane.role == LaneRole::kCopyOut) {
                offload = e;
            } else if (offload != nullptr && offload->flow == e->flow &&
                       trace_.lanes[offload->lane].rank == lane.rank && offload->begin <= e->begin) {
                write_flow(*offload, *e, ++id);
            }
        }
    }

    // ---- Memory

    void write_counters() {
        for (const MemorySample& s : trace_.memory) {
            const MemoryPool& pool = trace_.pools[s.pool];
            if (!shown(pool)) continue;
            write_record({"C", "memory", pool.host ? "host memory" : "device memory", number_.process(pool),
                          nanoseconds(s.time)});
            append(",\"args\":{{\"live bytes\":{}}}}}", s.live.value);
        }
    }

    std::ostream& out_;
    const Trace& trace_;
    const PerfettoOptions& options_;
    Numbering number_;
    std::vector<std::string> labels_;     // escaped
    std::vector<Nanoseconds> lane_free_;  // per lane: end of its last slice
    fmt::memory_buffer buffer_;
    bool first_ = true;
};

}  // namespace

void export_perfetto(std::ostream& out, const Trace& trace, const PerfettoOptions& options) {
    Exporter(out, trace, options).write();
}

}  // namespace sluice
