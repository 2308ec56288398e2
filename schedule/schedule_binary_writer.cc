#include <cstdint>
#include <string>
#include <variant>

#include "base/error.h"
#include "schedule/schedule.pb.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_format.h"

namespace sluice {
namespace {

namespace pb = schedule_proto;

// Enums of the file are ours plus one (schedule.proto): the first and last of each agree.
template <class ProtoEnum, class Enum>
constexpr ProtoEnum stored(Enum value) {
    return static_cast<ProtoEnum>(static_cast<int>(value) + 1);
}
static_assert(stored<pb::Space>(Space::kHost) == pb::SPACE_HOST);
static_assert(stored<pb::BufferKind>(BufferKind::kWeights) == pb::BUFFER_WEIGHTS);
static_assert(stored<pb::BufferKind>(BufferKind::kComm) == pb::BUFFER_COMM);
static_assert(stored<pb::Pass>(Pass::kBackward) == pb::PASS_BACKWARD);
static_assert(stored<pb::PointwiseKind>(PointwiseKind::kNorm) == pb::POINTWISE_NORM);
static_assert(stored<pb::PointwiseKind>(PointwiseKind::kOther) == pb::POINTWISE_OTHER);
static_assert(stored<pb::CollectiveKind>(CollectiveKind::kAllGather) == pb::COLLECTIVE_ALL_GATHER);
static_assert(stored<pb::CollectiveKind>(CollectiveKind::kReduce) == pb::COLLECTIVE_REDUCE);
static_assert(stored<pb::LaneKind>(LaneKind::kCompute) == pb::LANE_COMPUTE);
static_assert(stored<pb::LaneKind>(LaneKind::kReceive) == pb::LANE_RECEIVE);
static_assert(stored<pb::AccessMode>(AccessMode::kRead) == pb::ACCESS_READ);
static_assert(stored<pb::AccessMode>(AccessMode::kAccumulate) == pb::ACCESS_ACCUMULATE);
static_assert(stored<pb::Phase>(Phase::kForward) == pb::PHASE_FORWARD);
static_assert(stored<pb::Phase>(Phase::kOptimizer) == pb::PHASE_OPTIMIZER);
static_assert(stored<pb::Function>(Function::kNone) == pb::FUNCTION_NONE);
static_assert(stored<pb::Function>(Function::kActivation) == pb::FUNCTION_ACTIVATION);

template <class Id>
std::uint32_t stored_id(Id id) {
    return static_cast<std::uint32_t>(id);
}

// ---- Work
// ------------------------------------------------------------------------------------------------------------

void fill(pb::Kernel& to, const Gemm& g) {
    pb::Gemm& shape = *to.mutable_gemm();
    shape.set_m(g.m);
    shape.set_n(g.n);
    shape.set_k(g.k);
}

void fill(pb::Kernel& to, const Attention& a) {
    pb::Attention& shape = *to.mutable_attention();
    shape.set_pass(stored<pb::Pass>(a.pass));
    shape.set_causal(a.causal);
    shape.set_queries(a.queries);
    shape.set_keys(a.keys);
    shape.set_heads(a.heads);
    shape.set_kv_heads(a.kv_heads);
    shape.set_head_dim(a.head_dim);
}

void fill(pb::Kernel& to, const Pointwise& p) {
    pb::Pointwise& shape = *to.mutable_pointwise();
    shape.set_kind(stored<pb::PointwiseKind>(p.kind));
    shape.set_traffic_bytes(p.traffic.value);
}

void fill(pb::Op& to, const Compute& c) {
    pb::Compute& compute = *to.mutable_compute();
    for (const Kernel& kernel : c.kernels) {
        pb::Kernel& stored_kernel = *compute.add_kernels();
        std::visit([&](const auto& shape) { fill(stored_kernel, shape); }, kernel.shape);
        if (kernel.count != 1) stored_kernel.set_count(kernel.count);
    }
}

void fill(pb::Op& to, const Copy& c) { to.mutable_copy()->set_bytes(c.bytes.value); }
void fill(pb::Op& to, const Send& s) { to.mutable_send()->set_bytes(s.bytes.value); }
void fill(pb::Op& to, const Receive& r) { to.mutable_receive()->set_bytes(r.bytes.value); }

void fill(pb::Op& to, const Collective& c) {
    pb::Collective& collective = *to.mutable_collective();
    collective.set_kind(stored<pb::CollectiveKind>(c.kind));
    collective.set_group(stored_id(c.group));
    collective.set_bytes(c.bytes.value);
    if (c.calls != 1) collective.set_calls(c.calls);
    collective.set_root(c.root);
}

// ---- Records
// ---------------------------------------------------------------------------------------------------------

void fill(pb::Tag& to, const Tag& t) {
    to.set_phase(stored<pb::Phase>(t.phase));
    to.set_sequence(t.sequence);
    if (t.stage != -1) to.set_stage(t.stage);
    if (t.virtual_stage != -1) to.set_virtual_stage(t.virtual_stage);
    if (t.layer != -1) to.set_layer(t.layer);
    if (t.subsequence != -1) to.set_subsequence(t.subsequence);
    if (t.part != -1) to.set_part(t.part);
    if (t.function != Function::kNone) to.set_function(stored<pb::Function>(t.function));
}

void fill(pb::Op& to, const Op& op) {
    to.set_rank(stored_id(op.rank));
    to.set_lane(stored<pb::LaneKind>(op.lane.kind));
    if (op.lane.peer != kNoRank) to.set_peer(stored_id(op.lane.peer));
    std::visit([&](const auto& work) { fill(to, work); }, op.work);
    for (const OpId before : op.after) to.add_after(stored_id(before));
    for (const Access& access : op.accesses) {
        pb::Access& stored_access = *to.add_accesses();
        stored_access.set_buffer(stored_id(access.buffer));
        stored_access.set_first_block(access.first_block);
        stored_access.set_last_block(access.last_block);
        stored_access.set_mode(stored<pb::AccessMode>(access.mode));
    }
    if (op.tag != Tag{}) fill(*to.mutable_tag(), op.tag);
}

void fill(pb::Buffer& to, const Buffer& b) {
    to.set_rank(stored_id(b.rank));
    to.set_space(stored<pb::Space>(b.space));
    to.set_kind(stored<pb::BufferKind>(b.kind));
    to.set_persistent(b.persistent);
    to.set_bytes(b.bytes.value);
    for (const Bytes block : b.blocks) to.add_block_bytes(block.value);
    if (b.offset) to.set_offset_bytes(b.offset->value);
    for (const SavedTensor& saved : b.tensors) {
        pb::SavedTensor& tensor = *to.add_tensors();
        tensor.set_tensor(stored<pb::Tensor>(saved.tensor));
        tensor.set_bytes(saved.bytes.value);
    }
}

class RecordWriter {
public:
    pb::Record& next() {
        record_.Clear();
        return record_;
    }
    void write() {
        const std::size_t size = record_.ByteSizeLong();
        SLUICE_CHECK(size <= static_cast<std::size_t>(kMaxScheduleRecord.value), "a schedule record is at most 64 MiB");
        append_varint(size);
        record_.AppendToString(&out_);
    }
    std::string take() { return std::move(out_); }

private:
    void append_varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7) out_ += static_cast<char>((value & 0x7f) | 0x80);
        out_ += static_cast<char>(value);
    }

    std::string out_{kScheduleMagic};
    pb::Record record_;
};

void write_places(RecordWriter& out, const Schedule& schedule) {
    for (const Host& host : schedule.hosts) {
        out.next().mutable_host()->set_capacity_bytes(host.capacity.value);
        out.write();
    }
    for (const RankPlace& place : schedule.ranks) {
        pb::RankPlace& rank = *out.next().mutable_rank();
        rank.set_host(stored_id(place.host));
        rank.set_device_capacity_bytes(place.device_capacity.value);
        out.write();
    }
    for (const Group& group : schedule.groups) {
        pb::Group& stored_group = *out.next().mutable_group();
        for (const Rank member : group.members) stored_group.add_members(stored_id(member));
        out.write();
    }
}

}  // namespace

std::string to_binary(const Schedule& schedule) {
    RecordWriter out;
    write_places(out, schedule);
    for (const Buffer& buffer : schedule.buffers) {
        fill(*out.next().mutable_buffer(), buffer);
        out.write();
    }
    for (const Op& op : schedule.ops) {
        fill(*out.next().mutable_op(), op);
        out.write();
    }
    pb::End& end = *out.next().mutable_end();
    end.set_hosts(schedule.hosts.size());
    end.set_ranks(schedule.ranks.size());
    end.set_groups(schedule.groups.size());
    end.set_buffers(schedule.buffers.size());
    end.set_ops(schedule.ops.size());
    out.write();
    return out.take();
}

}  // namespace sluice
