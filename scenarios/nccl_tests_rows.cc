#include "scenarios/nccl_tests_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/nearest_name.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr MessageKind kKinds[] = {MessageKind::kAllGather, MessageKind::kReduceScatter, MessageKind::kAllReduce,
                                  MessageKind::kAllToAll, MessageKind::kSendReceive};
constexpr double kLargest = 1e15, kLongest = 1e9;  // bytes, us

std::string_view file_name(std::string_view path) {
    const std::size_t slash = path.find_last_of("/\\");
    std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
    if (name.ends_with(".exe")) name.remove_suffix(4);
    return name;
}

// PERFORMANCE.md of nccl-tests.
double bus_factor(MessageKind kind, std::size_t members) {
    const auto n = static_cast<double>(members);
    if (kind == MessageKind::kSendReceive) return 1;
    return (kind == MessageKind::kAllReduce ? 2 : 1) * (n - 1) / n;
}

// Rates have two decimals, fewer where they would not fit.
bool about(double a, double b, double relative) {
    return std::abs(a - b) <= 0.021 + relative * std::max(std::abs(a), std::abs(b));
}
constexpr double kTimeRounding = 0.06;  // of times that are so long that they are printed with two digits
constexpr double kRateRounding = 0.01;

}  // namespace

std::size_t NcclTestsRun::hosts() const {
    std::size_t hosts = 0;
    for (const Member& member : members) hosts = std::max(hosts, member.host + 1);
    return hosts;
}

std::optional<MessageKind> find_nccl_test(std::string_view program) {
    for (const MessageKind kind : kKinds)
        if (file_name(program) == nccl_test_name(kind)) return kind;
    return std::nullopt;
}

std::string unknown_nccl_test(std::string_view program) {
    std::vector<std::string_view> known;
    for (const MessageKind kind : kKinds) known.push_back(nccl_test_name(kind));
    const std::string nearest = nearest_name(file_name(program), known);
    return fmt::format("got {}, expected one of {}{}", quote(file_name(program)), fmt::join(known, ", "),
                       nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

std::string nccl_version_text(std::int64_t code) {
    const std::int64_t thousand = code >= 10000 ? 10000 : 1000;
    return fmt::format("{}.{}.{}", code / thousand, code / 100 % (thousand / 100), code % 100);
}

std::string add_row(NcclTestsRun& run, const NcclTestsRow& row) {
    if (row.size == 0) return "";
    if (run.figures.size() == kMostRows) return fmt::format("got more than {} rows", kMostRows);
    if (row.size < 0 || row.size > kLargest || row.size != std::floor(row.size))
        return fmt::format("got a size of {} bytes, expected whole bytes up to {}", row.size, kLargest);
    if (!(row.time > 0) || row.time > kLongest)
        return fmt::format("got a time of {} us, expected more than 0, at most {}", row.time, kLongest);
    if (const double rate = row.size / row.time * 1e-3; !about(row.algbw, rate, kTimeRounding))
        return fmt::format("got algbw {} GB/s, expected {:.2f}: {} bytes in {} us", row.algbw, rate, row.size,
                           row.time);
    const double bus = row.algbw * bus_factor(run.kind, run.members.size());
    if (!about(row.busbw, bus, kRateRounding))
        return fmt::format("got busbw {} GB/s, expected {:.2f}: that is what {} makes of algbw {} among {} ranks",
                           row.busbw, bus, nccl_test_name(run.kind), row.algbw, run.members.size());
    run.figures.push_back(
        {run.kind, run.members.size(), 0, Bytes{static_cast<std::int64_t>(row.size)}, Seconds{row.time * 1e-6}});
    return "";
}

void add_device(NcclTestsRun& run, std::string model) {
    if (std::find(run.devices.begin(), run.devices.end(), model) == run.devices.end())
        run.devices.push_back(std::move(model));
}

std::string too_few_members(const NcclTestsRun& run) {
    if (run.members.size() >= 2) return "";
    return fmt::format("got a run of {} rank{}, expected 2 or more: one alone sends nothing", run.members.size(),
                       run.members.size() == 1 ? "" : "s");
}

std::string no_rows(const NcclTestsRun& run) {
    return run.figures.empty() ? "got no row with a size above 0, expected one" : "";
}

}  // namespace sluice
