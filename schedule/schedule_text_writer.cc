#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "schedule/schedule_text.h"

namespace sluice {
namespace {

template <class Int>
void number(std::string& out, Int value) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out.append(digits.data(), end);
}

template <class Id>
void id(std::string& out, std::string_view prefix, Id value) {
    out += prefix;
    number(out, static_cast<std::uint32_t>(value));
}

// Exact: the largest unit that divides.
void bytes(std::string& out, Bytes b) {
    static constexpr std::array<std::string_view, 5> kUnits{" B", " KiB", " MiB", " GiB", " TiB"};
    std::size_t unit = 0;
    while (b.value != 0 && unit + 1 < kUnits.size() && b.value % 1024 == 0) b.value /= 1024, ++unit;
    number(out, b.value);
    out += kUnits[unit];
}

template <class... F>
struct Overloaded : F... {
    using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

void labelled(std::string& out, std::string_view label, std::int64_t value) {
    out += label;
    number(out, value);
}

void shape(std::string& out, const KernelShape& kernel) {
    std::visit(Overloaded{
                   [&](const Gemm& g) {
                       labelled(out, "gemm(", g.m);
                       labelled(out, " ", g.n);
                       labelled(out, " ", g.k);
                   },
                   [&](const Attention& a) {
                       out += "attention(";
                       out += name(a.pass);
                       out += a.causal ? " causal" : " full";
                       labelled(out, " q ", a.queries);
                       labelled(out, " k ", a.keys);
                       labelled(out, " heads ", a.heads);
                       labelled(out, "/", a.kv_heads);
                       labelled(out, " d ", a.head_dim);
                   },
                   [&](const Pointwise& p) {
                       out += name(p.kind);
                       out += '(';
                       bytes(out, p.traffic);
                   },
               },
               kernel);
    out += ')';
}

void peer(std::string& out, Rank rank) {
    if (rank != kNoRank) id(out, " r", rank);
}

// Is the lane the one that the work's own words name? Otherwise the line gets a `lane` section.
bool on_own_lane(const Op& op) {
    const LaneKind kind = op.lane.kind;
    const bool no_peer = op.lane.peer == kNoRank;
    return std::visit(
        Overloaded{
            [&](const Compute&) { return kind == LaneKind::kCompute && no_peer; },
            [&](const Copy&) { return (kind == LaneKind::kCopyOut || kind == LaneKind::kCopyIn) && no_peer; },
            [&](const Send&) { return kind == LaneKind::kSend; },
            [&](const Receive&) { return kind == LaneKind::kReceive; },
            [&](const Collective&) { return kind == LaneKind::kCollective && no_peer; },
        },
        op.work);
}

void collective(std::string& out, const Collective& c) {
    out += "collective ";
    out += name(c.kind);
    id(out, " g", c.group);
    out += ' ';
    bytes(out, c.bytes);
    if (c.calls != 1) labelled(out, " *", c.calls);
    if (c.root != 0) labelled(out, " root ", c.root);
}

void compute(std::string& out, const Compute& c) {
    out += "compute";
    for (const Kernel& kernel : c.kernels) {
        out += ' ';
        shape(out, kernel.shape);
        if (kernel.count != 1) labelled(out, "*", kernel.count);
    }
}

void work(std::string& out, const Op& op, bool own_lane) {
    const Rank to = own_lane ? op.lane.peer : kNoRank;
    const auto transfer = [&](std::string_view verb, Bytes size) {
        out += verb;
        peer(out, to);
        out += ' ';
        bytes(out, size);
    };
    std::visit(Overloaded{
                   [&](const Compute& c) { compute(out, c); },
                   [&](const Copy& c) { transfer(own_lane ? name(op.lane.kind) : "copy", c.bytes); },
                   [&](const Send& s) { transfer("send", s.bytes); },
                   [&](const Receive& r) { transfer("receive", r.bytes); },
                   [&](const Collective& c) { collective(out, c); },
               },
               op.work);
}

// `buffers` may be null: then every access spells its blocks.
void accesses(std::string& out, const Op& op, const std::vector<Buffer>* buffers) {
    std::string_view separator = " | ";
    const Access* previous = nullptr;
    for (const Access& a : op.accesses) {
        out += separator;
        separator = " ";
        if (previous == nullptr || previous->mode != a.mode) {
            out += name(a.mode);
            out += ' ';
        }
        previous = &a;
        id(out, "b", a.buffer);
        const bool whole = buffers != nullptr && index(a.buffer) < buffers->size() && a.first_block == 0 &&
                           a.last_block == (*buffers)[index(a.buffer)].block_count() - 1;
        if (whole) continue;
        labelled(out, "[", a.first_block);
        if (a.last_block != a.first_block) labelled(out, "..", a.last_block);
        out += ']';
    }
}

void tag(std::string& out, const Tag& t) {
    if (t == Tag{}) return;
    out += " | ";
    out += name(t.phase);
    if (t.sequence != 0) labelled(out, " seq ", t.sequence);
    for (const auto& [label, value] : {std::pair{" stage ", t.stage},
                                       {" virtual ", t.virtual_stage},
                                       {" layer ", t.layer},
                                       {" sub ", t.subsequence},
                                       {" part ", t.part}}) {
        if (value != -1) labelled(out, label, value);
    }
    if (t.function == Function::kNone) return;
    out += " function ";
    out += name(t.function);
}

void op_line(std::string& out, const Op& op, const std::vector<Buffer>* buffers) {
    id(out, "op ", op.id);
    id(out, " r", op.rank);
    out += ' ';
    const bool own_lane = on_own_lane(op);
    work(out, op, own_lane);
    if (!own_lane) {
        out += " | lane ";
        out += name(op.lane.kind);
        peer(out, op.lane.peer);
    }
    if (!op.after.empty()) out += " | after";
    for (const OpId before : op.after) id(out, " ", before);
    accesses(out, op, buffers);
    tag(out, op.tag);
}

void buffer_line(std::string& out, const Buffer& b) {
    id(out, "buffer b", b.id);
    id(out, " r", b.rank);
    out += ' ';
    out += name(b.space);
    out += ' ';
    out += name(b.kind);
    out += ' ';
    bytes(out, b.bytes);
    if (b.offset) {
        out += " @";
        bytes(out, *b.offset);
    }
    if (b.persistent) out += " persistent";
    if (!b.blocks.empty()) out += " blocks";
    for (const Bytes block : b.blocks) {
        out += ' ';
        bytes(out, block);
    }
    if (!b.tensors.empty()) out += " tensors";
    for (const SavedTensor& saved : b.tensors) {
        out += ' ';
        out += name(saved.tensor);
        out += ' ';
        bytes(out, saved.bytes);
    }
}

void places(std::string& out, const Schedule& schedule) {
    for (std::size_t h = 0; h < schedule.hosts.size(); ++h) {
        id(out, "host h", id_at<HostId>(h));
        out += ' ';
        bytes(out, schedule.hosts[h].capacity);
        out += '\n';
    }
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
        id(out, "rank r", id_at<Rank>(r));
        id(out, " h", schedule.ranks[r].host);
        out += ' ';
        bytes(out, schedule.ranks[r].device_capacity);
        out += '\n';
    }
    for (const Group& group : schedule.groups) {
        id(out, "group g", group.id);
        for (const Rank member : group.members) id(out, " r", member);
        out += '\n';
    }
}

}  // namespace

std::string to_text(const Schedule& schedule) {
    std::string out = "sluice-schedule 1\n";
    places(out, schedule);
    for (const Buffer& buffer : schedule.buffers) {
        buffer_line(out, buffer);
        out += '\n';
    }
    for (const Op& op : schedule.ops) {
        op_line(out, op, &schedule.buffers);
        out += '\n';
    }
    out += "end\n";
    return out;
}

std::string to_text(const Op& op) {
    std::string out;
    op_line(out, op, nullptr);
    return out;
}

}  // namespace sluice
