#include "validation/error_shares.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "traces/find_event.h"

namespace sluice {
namespace {

// Of one class.
struct ClassChain {
    std::map<OpId, Nanoseconds> ops;
    std::map<Wait, Nanoseconds> waits;
};
using ChainClasses = std::map<std::string, ClassChain, std::less<>>;

ChainClasses classes_of(const Trace& trace, const OpPieces& pieces) {
    ChainClasses classes;
    for (const ChainLink& link : step_chain(trace)) {
        const auto add = [&](std::string_view op_class, std::uint32_t, Nanoseconds length) {
            auto at = classes.find(op_class);
            if (at == classes.end()) at = classes.emplace(op_class, ClassChain{}).first;
            at->second.ops[link.op] += length;
            at->second.waits[link.wait] += length;
        };
        switch (link.kind) {
            case LinkKind::kRuns:
                pieces.of(*find_event(trace, link.op), link.begin, link.end, add);
                break;
            case LinkKind::kStartGap:
                add(kStartGap, 0, link.end - link.begin);
                break;
            case LinkKind::kUnknown:
                add(kNotRecorded, 0, link.end - link.begin);
                break;
        }
    }
    return classes;
}

Nanoseconds sum(const std::map<OpId, Nanoseconds>& ops) {
    Nanoseconds total{};
    for (const auto& [op, time] : ops) total += time;
    return total;
}

ErrorShare share_of(const std::string& op_class, const ClassChain& predicted, const ClassChain& measured) {
    ErrorShare share;
    share.op_class = op_class;
    share.predicted = sum(predicted.ops);
    share.measured = sum(measured.ops);
    for (const auto& [op, time] : predicted.ops)
        if (const auto other = measured.ops.find(op); other != measured.ops.end())
            share.same_ops += time - other->second;
    for (const Wait wait : {Wait::kNone, Wait::kLane, Wait::kData, Wait::kReuse, Wait::kMatch}) {
        const auto p = predicted.waits.find(wait), m = measured.waits.find(wait);
        if (p == predicted.waits.end() && m == measured.waits.end()) continue;
        share.waits.push_back({wait, p == predicted.waits.end() ? Nanoseconds{} : p->second,
                               m == measured.waits.end() ? Nanoseconds{} : m->second});
    }
    return share;
}

}  // namespace

std::vector<ErrorShare> error_shares(const Trace& predicted, const OpPieces& predicted_pieces, const Trace& measured,
                                     const OpPieces& measured_pieces) {
    ChainClasses p = classes_of(predicted, predicted_pieces), m = classes_of(measured, measured_pieces);
    for (const auto& [op_class, chain] : m) p.try_emplace(op_class);
    std::vector<ErrorShare> shares;
    for (const auto& [op_class, chain] : p) shares.push_back(share_of(op_class, chain, m[op_class]));
    std::erase_if(shares, [](const ErrorShare& s) { return s.predicted.value == 0 && s.measured.value == 0; });
    std::stable_sort(shares.begin(), shares.end(), [](const ErrorShare& a, const ErrorShare& b) {
        return std::abs(a.error().value) > std::abs(b.error().value);
    });
    return shares;
}

}  // namespace sluice
