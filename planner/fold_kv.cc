// K and V on the host: the last resort where they do not fit beside everything else. The lowest layers of a stage then
// hold them on the GPU only around their own attention.
//
//   subsequence-major  attention of subsequence i reads blocks 0..i: those before i come in while the layer visited
//   just
//                      before computes, block i goes out. Backward brings K and V in, and dK and dV in and out.
//   layer-major        K and V of a layer go out block by block during its forward and come in before its backward;
//                      dK and dV live for that backward only and stay.
//
// Every layer needs another one to hide behind: a stage of one layer keeps its own.
#include "base/error.h"
#include "planner/stage_emitter.h"

namespace sluice {

namespace {

std::vector<Bytes> first_blocks(const std::vector<Bytes>& blocks, std::size_t count) {
    return {blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count)};
}

Bytes sum(const std::vector<Bytes>& blocks) {
    Bytes total{};
    for (const Bytes block : blocks) total += block;
    return total;
}

Access blocks(BufferId buffer, std::size_t count, AccessMode mode) {
    return {buffer, 0, static_cast<std::uint32_t>(count - 1), mode};
}

}  // namespace

BufferId StageEmitter::add_blocks(BufferKind kind, std::vector<Bytes> sizes, Space space) {
    const Bytes bytes = sum(sizes);
    const BufferId id = add_buffer(kind, bytes, false, std::move(sizes));
    out_.schedule.buffers[index(id)].space = space;
    return id;
}

// Lists the copies that bring what the row needs for subsequence i.
void StageEmitter::fetch_kv(Row& row, std::size_t i) {
    const bool forward = tag_.phase == Phase::kForward;
    const std::size_t n = subsequences_.size(), count = layer_major() ? n : i + 1;
    const auto bring = [&](BufferId host, BufferId device, std::size_t blocks_in, const std::vector<Bytes>& sizes,
                           OpId after) {
        SLUICE_CHECK(after != kNoOp, "what comes in has gone out");
        row.fetched.ready.push_back(
            emit(Function::kNone, {LaneKind::kCopyIn, kNoRank}, Copy{sum(first_blocks(sizes, blocks_in))}, {after},
                 {blocks(host, blocks_in, AccessMode::kRead), blocks(device, blocks_in, AccessMode::kWrite)}));
    };
    row.fetched.kv = add_blocks(BufferKind::kKv, first_blocks(row.kv_blocks, count), Space::kDevice);
    const std::size_t there = forward ? (layer_major() ? 0 : i) : count;  // what forward already made
    if (there > 0) bring(row.kv_host, row.fetched.kv, there, row.kv_blocks, row.kv_out);
    if (forward) return;
    row.fetched.dkv = add_blocks(BufferKind::kDkv, first_blocks(row.dkv_blocks, count), Space::kDevice);
    if (!layer_major() && i + 1 < n) bring(row.dkv_host, row.fetched.dkv, count, row.dkv_blocks, row.dkv_out);
}

void StageEmitter::open_kv(Row& row, std::size_t i) {
    row.kv_ready.clear();
    if (!row.streams_kv) return;
    const bool goes_on = layer_major() && (tag_.phase == Phase::kForward ? i > 0 : i + 1 < subsequences_.size());
    if (goes_on) return;  // the buffers of the layer at hand
    if (row.fetched.kv == kNoBuffer) fetch_kv(row, i);
    row.kv = row.fetched.kv, row.dkv = row.fetched.dkv;
    row.kv_ready = std::move(row.fetched.ready);
    row.fetched = {};
}

void StageEmitter::close_kv(Row& row, std::size_t i) {
    if (!row.streams_kv) return;
    const auto block = static_cast<std::uint32_t>(i);
    const Lane out{LaneKind::kCopyOut, kNoRank};
    if (tag_.phase == Phase::kForward) {
        row.kv_out = emit(Function::kNone, out, Copy{row.kv_blocks[i]}, {row.attention},
                          {read(row.kv, block, block), write(row.kv_host, block, block)});
    } else if (!layer_major() && i > 0) {
        row.dkv_out = emit(Function::kNone, out, Copy{sum(first_blocks(row.dkv_blocks, i))}, {row.attention},
                           {blocks(row.dkv, i, AccessMode::kRead), blocks(row.dkv_host, i, AccessMode::kWrite)});
    }
}

// Before a row's ops: what the row visited next will need comes in behind them.
void StageEmitter::fetch_next_kv(const Row& row, std::size_t i) {
    const std::size_t n = subsequences_.size(), r = row.part, rows = rows_.size();
    const bool forward = tag_.phase == Phase::kForward;
    std::size_t next_row = r, next = i;
    if (layer_major()) {
        if (forward || i > 0 || r == 0) return;  // nothing to bring, or the same layer goes on
        next_row = r - 1, next = n - 1;
    } else if (forward) {
        next_row = (r + 1) % rows, next = i + (r + 1 == rows ? 1 : 0);
        if (next == n) return;
    } else {
        if (r == 0 && i == 0) return;
        next_row = r == 0 ? rows - 1 : r - 1, next = r == 0 ? i - 1 : i;
    }
    Row& other = rows_[next_row];
    if (other.streams_kv && other.fetched.kv == kNoBuffer) fetch_kv(other, next);
}

}  // namespace sluice
