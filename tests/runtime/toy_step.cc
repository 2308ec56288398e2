#include "tests/runtime/toy_step.h"

#include <cmath>
#include <span>

#include "runtime/local_ranks.h"
#include "schedule/schedule_text.h"

namespace sluice {
namespace {

constexpr float kModulus = 1021;

float fold(float sum, std::span<const float> values) {
    for (const float value : values) sum = std::fmod(sum * 3 + value, kModulus);
    return sum;
}

// `span_of(access)` finds the floats.
template <class SpanOf>
void toy_compute(const Op& op, const SpanOf& span_of) {
    float sum = static_cast<float>(index(op.id) % 1000);
    for (const Access& access : op.accesses)
        if (access.mode == AccessMode::kRead) sum = fold(sum, span_of(access));
    for (const Access& access : op.accesses) {
        if (access.mode == AccessMode::kRead) continue;
        float position = 0;
        for (float& value : span_of(access)) {
            const float old = access.mode == AccessMode::kAccumulate ? value : 0;
            value = std::fmod(old + sum + position, kModulus);
            position = std::fmod(position + 1, kModulus);
        }
    }
}

bool alone(const Schedule& schedule, const Op& op) {
    const auto* collective = std::get_if<Collective>(&op.work);
    return std::holds_alternative<Compute>(op.work) ||
           (collective != nullptr && schedule.groups[index(collective->group)].members.size() == 1);
}

}  // namespace

ToyRunner::ToyRunner(const Schedule& schedule, const std::vector<RankArenas>& arenas, Communicators& communicators)
    : schedule_(schedule), arenas_(arenas), communicators_(communicators) {
    for (const Op& op : schedule.ops) calls_.push_back(describe_call(op));
}

void ToyRunner::operator()(const Op& op, KernelClock& clock) const {
    if (alone(schedule_, op))
        compute(op);
    else
        exchange(op);
    if (const auto* chain = std::get_if<Compute>(&op.work))
        for (std::size_t k = 0; k < chain->kernels.size(); ++k) clock.lap();
}

void ToyRunner::compute(const Op& op) const {
    const RankArenas& arenas = arenas_[index(op.rank)];
    toy_compute(op, [&](const Access& access) { return as_floats(arenas.span_of(access)); });
}

void ToyRunner::exchange(const Op& op) const {
    const RankArenas& arenas = arenas_[index(op.rank)];
    const std::string& what = calls_[index(op.id)];
    const std::span<std::byte> bytes = arenas.span_of(op.accesses.at(0));
    if (op.lane.kind == LaneKind::kSend) {
        communicators_.channel(op.rank, op.lane.peer).send({0, what}, bytes);
    } else if (op.lane.kind == LaneKind::kReceive) {
        communicators_.channel(op.lane.peer, op.rank).receive({1, what}, bytes);
    } else {
        Communicator& group = communicators_.group(std::get<Collective>(op.work).group);
        group.all_reduce({group.member_of(op.rank), what}, as_floats(bytes));
    }
}

ToyRun::ToyRun(Schedule s, const CpuOptions& options, RunOp before_op)
    : schedule(std::move(s)),
      arenas(map_arenas(schedule, all_ranks(schedule))),
      communicators(schedule, monitor),
      runner(schedule, arenas, communicators),
      run(
          schedule, arenas, monitor,
          [this, before = std::move(before_op)](const Op& op, KernelClock& clock) {
              if (before) before(op, clock);
              runner(op, clock);
          },
          options) {}

std::vector<float> ToyRun::content(BufferId id) const {
    const Buffer& buffer = schedule.buffers[index(id)];
    const std::span<float> floats = as_floats(arenas[index(buffer.rank)].span_of(id));
    return {floats.begin(), floats.end()};
}

Schedule parse(std::string_view text) { return parse_schedule(text, "test"); }

ToyReference::ToyReference(const Schedule& schedule) : schedule_(schedule) {
    for (const Buffer& buffer : schedule.buffers) {
        contents_.emplace_back(static_cast<std::size_t>(buffer.bytes.value) / sizeof(float), 0.0F);
        std::vector<std::size_t>& begins = block_begins_.emplace_back(1, 0U);
        for (const Bytes block : buffer.blocks)
            begins.push_back(begins.back() + static_cast<std::size_t>(block.value) / sizeof(float));
        if (buffer.blocks.empty()) begins.push_back(contents_.back().size());
    }
}

std::span<float> ToyReference::span_of(const Access& access) {
    const std::vector<std::size_t>& begins = block_begins_[index(access.buffer)];
    return std::span(contents_[index(access.buffer)])
        .subspan(begins[access.first_block], begins[access.last_block + 1] - begins[access.first_block]);
}

void ToyReference::run_step() {
    for (const Op& op : schedule_.ops) {
        if (alone(schedule_, op)) {
            toy_compute(op, [&](const Access& access) { return span_of(access); });
        } else if (std::holds_alternative<Copy>(op.work)) {
            const std::span<float> from = span_of(op.accesses.at(0)), to = span_of(op.accesses.at(1));
            std::copy(from.begin(), from.end(), to.begin());
        } else if (op.lane.kind == LaneKind::kSend) {
            const std::span<float> from = span_of(op.accesses.at(0));
            sent_[{op.rank, op.lane.peer}].emplace_back(from.begin(), from.end());
        } else if (op.lane.kind == LaneKind::kReceive) {
            receive(op);
        } else {
            reduce(op);
        }
    }
}

void ToyReference::receive(const Op& op) {
    std::vector<std::vector<float>>& messages = sent_.at({op.lane.peer, op.rank});
    std::copy(messages.at(0).begin(), messages.at(0).end(), span_of(op.accesses.at(0)).begin());
    messages.erase(messages.begin());
}

void ToyReference::reduce(const Op& op) {
    const GroupId group = std::get<Collective>(op.work).group;
    std::vector<const Op*>& here = waiting_[group];
    here.push_back(&op);
    if (here.size() < schedule_.groups[index(group)].members.size()) return;
    std::vector<float> sum(span_of(op.accesses.at(0)).size(), 0.0F);
    for (const Op* member : here)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += span_of(member->accesses.at(0))[i];
    for (const Op* member : here) std::copy(sum.begin(), sum.end(), span_of(member->accesses.at(0)).begin());
    here.clear();
}

}  // namespace sluice
