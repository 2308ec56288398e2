#include "tools/sluice/slice_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/fingerprint.h"
#include "schedule/schedule_file.h"
#include "schedule/slice_rank.h"
#include "schedule/verify.h"
#include "tools/sluice/predicted_trace.h"
#include "traces/slice_trace.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

std::string fingerprint_of(const Schedule& schedule) { return fingerprint_hex(fingerprint(to_binary(schedule))); }

}  // namespace

Rank read_rank(const std::string& text, std::size_t ranks, const char* what) {
    std::size_t rank = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, rank);
    if (error == std::errc{} && at == end && rank < ranks) return id_at<Rank>(rank);
    throw InputError(
        fmt::format("{}: got '{}', expected 0 to {}: the plan has {} ranks", what, text, ranks - 1, ranks));
}

SlicedRun slice_run(PlannedRun whole, Rank rank) {
    const Trace predicted = predicted_trace(whole);
    RankSlice slice = slice_rank(whole.schedule, rank);
    SlicedRun run{std::move(whole), slice_trace(predicted, slice)};
    run.planned.schedule = std::move(slice.schedule);
    run.planned.alone = rank;
    run.planned.floor = busiest_compute(run.planned.schedule, run.planned.scenario.calibration);
    run.predicted.provenance.schedule_fingerprint = fingerprint_of(run.planned.schedule);
    return run;
}

PlannedRun read_slice(const Scenario& scenario, const std::string& path, Rank rank) {
    PlannedRun planned;
    planned.scenario = scenario;
    planned.scenario.policy.granularity = Granularity::kLayer;
    planned.schedule = read_schedule(path);
    planned.alone = rank;
    const Diagnostics problems = verify(planned.schedule);
    if (!problems.empty()) throw InputError(fmt::format("{}: {}", path, problems.front().message));
    const auto computes = [&](const Op& op) { return std::holds_alternative<Compute>(op.work) && op.rank == rank; };
    const auto others = [&](const Op& op) { return std::holds_alternative<Compute>(op.work) && op.rank != rank; };
    const auto& ops = planned.schedule.ops;
    if (std::none_of(ops.begin(), ops.end(), computes) || std::any_of(ops.begin(), ops.end(), others))
        throw InputError(fmt::format("{}: is not the slice of rank {}, expected what sluice slice --rank {} writes",
                                     path, index(rank), index(rank)));
    planned.floor = busiest_compute(planned.schedule, scenario.calibration);
    return planned;
}

StandIns read_stand_ins(const std::string& path, const PlannedRun& slice) {
    const Trace trace = read_trace(path);
    const std::string expected = fingerprint_of(slice.schedule);
    if (trace.provenance.schedule_fingerprint != expected)
        throw InputError(fmt::format("{}: is of schedule {}, expected a trace of the slice that is run, {}", path,
                                     trace.provenance.schedule_fingerprint, expected));
    return stand_ins_from(slice.schedule, trace);
}

}  // namespace sluice
