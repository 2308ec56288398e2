#include "tools/sluice/run_job_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "runtime/rendezvous/wire.h"

namespace sluice {
namespace {

constexpr std::size_t kLongestName = 1000;
constexpr std::size_t kMostShape = 8;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

// Floats as they lie in memory: all machines of a job are alike.
void add_floats(WireReader& reader, std::vector<float>& values, bool is_new) {
    const std::span<const std::byte> bytes = reader.bytes(SIZE_MAX);
    if (is_new) values.assign(bytes.size() / sizeof(float), 0.0F);
    if (bytes.size() != values.size() * sizeof(float))
        throw InputError("a parameter has another size in another process");
    for (std::size_t i = 0; i < values.size(); ++i) {
        float value = 0;
        std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
        if (std::bit_cast<std::uint32_t>(value) != 0) values[i] = value;  // -0 is a value, too
    }
}

}  // namespace

std::vector<std::byte> encode_findings(std::span<const StepFindings> findings) {
    WireWriter writer;
    writer.u64(findings.size());
    for (const StepFindings& f : findings) {
        writer.u64(f.loss_sum.size());
        for (const double sum : f.loss_sum) writer.u64(std::bit_cast<std::uint64_t>(sum));
        writer.u64(std::bit_cast<std::uint64_t>(f.gradient_norm));
        writer.u8(f.stepped ? 1 : 0);
    }
    return writer.take();
}

std::vector<StepFindings> decode_findings(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    std::vector<StepFindings> findings;
    for (std::uint64_t left = reader.u64(); left > 0; --left) {
        StepFindings& f = findings.emplace_back();
        for (std::uint64_t sums = reader.u64(); sums > 0; --sums)
            f.loss_sum.push_back(std::bit_cast<double>(reader.u64()));
        f.gradient_norm = std::bit_cast<double>(reader.u64());
        f.stepped = reader.u8() != 0;
    }
    reader.expect_end();
    return findings;
}

std::vector<std::byte> encode_times(const Schedule& schedule, const StepTimes& times, std::span<const Rank> ranks) {
    WireWriter writer;
    writer.u64(static_cast<std::uint64_t>(times.begin));
    for (const Op& op : schedule.ops) {
        if (!std::binary_search(ranks.begin(), ranks.end(), op.rank)) continue;
        writer.u32(static_cast<std::uint32_t>(op.id));
        writer.u64(static_cast<std::uint64_t>(times.ops[index(op.id)].begin));
        writer.u64(static_cast<std::uint64_t>(times.ops[index(op.id)].end));
        for (const std::int64_t lap : times.laps_of(op.id)) writer.u64(static_cast<std::uint64_t>(lap));
    }
    writer.u32(static_cast<std::uint32_t>(kNoOp));
    return writer.take();
}

void read_times(std::span<const std::byte> bytes, const Schedule& schedule, std::int64_t offset, StepTimes& times) {
    WireReader reader(bytes);
    const auto next = [&] { return static_cast<std::int64_t>(reader.u64()) + offset; };
    times.begin = std::min(times.begin, next());
    for (;;) {
        const OpId op{reader.u32()};
        if (op == kNoOp) break;
        if (index(op) >= schedule.ops.size())
            throw InputError(
                fmt::format("times of op {}, but the schedule has {} ops", index(op), schedule.ops.size()));
        times.ops[index(op)].begin = next();
        times.ops[index(op)].end = next();
        for (std::int64_t& lap : times.laps_of(op)) lap = next();
    }
    reader.expect_end();
}

std::vector<std::byte> encode_parameter(const WholeParameter& p) {
    WireWriter writer;
    writer.u64(p.shape.size());
    for (const std::int64_t extent : p.shape) writer.u64(static_cast<std::uint64_t>(extent));
    for (const auto* values : {&p.weights, &p.first_moment, &p.second_moment}) writer.bytes(bytes_of(*values));
    return writer.take();
}

void merge_parameter(std::span<const std::byte> bytes, WholeParameter& whole) {
    WireReader reader(bytes);
    std::vector<std::int64_t> shape(std::min<std::uint64_t>(reader.u64(), kMostShape));
    for (std::int64_t& extent : shape) extent = static_cast<std::int64_t>(reader.u64());
    const bool is_new = whole.shape.empty();
    if (is_new) whole.shape = shape;
    if (whole.shape != shape) throw InputError("parameter " + whole.name + " has another shape in another process");
    for (auto* values : {&whole.weights, &whole.first_moment, &whole.second_moment})
        add_floats(reader, *values, is_new);
    reader.expect_end();
}

std::vector<std::byte> encode_names(std::span<const std::string> names) {
    WireWriter writer;
    writer.u64(names.size());
    for (const std::string& name : names) writer.text(name);
    return writer.take();
}

std::vector<std::string> decode_names(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    std::vector<std::string> names;
    for (std::uint64_t left = reader.u64(); left > 0; --left) names.push_back(reader.text(kLongestName));
    reader.expect_end();
    return names;
}

}  // namespace sluice
