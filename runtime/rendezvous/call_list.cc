#include "runtime/rendezvous/call_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "runtime/communicators.h"
#include "runtime/rendezvous/wire.h"

namespace sluice {
namespace {

constexpr std::size_t kLongestText = 400;

// Groups first, then transfers, each in order.
struct Key {
    bool transfer = false;
    std::size_t first = 0, second = 0;  // group; from and to
    auto operator<=>(const Key&) const = default;
};

std::optional<Key> key_of(const Op& op) {
    if (const auto* collective = std::get_if<Collective>(&op.work)) return Key{false, index(collective->group), 0};
    if (std::holds_alternative<Send>(op.work)) return Key{true, index(op.rank), index(op.lane.peer)};
    if (std::holds_alternative<Receive>(op.work)) return Key{true, index(op.lane.peer), index(op.rank)};
    return std::nullopt;
}

std::string name_of(const Key& key) {
    if (key.transfer) return transfer_name(id_at<Rank>(key.first), id_at<Rank>(key.second));
    return fmt::format("group {}", key.first);
}

std::string call_text(const CallList& list, std::size_t k) {
    if (k >= list.calls.size()) return fmt::format("rank {} makes no call", index(list.rank));
    return fmt::format("rank {} calls op {}, {}", index(list.rank), index(list.calls[k].op), list.calls[k].what);
}

std::optional<std::string> difference(const CallList& a, const CallList& b) {
    const std::size_t most = std::max(a.calls.size(), b.calls.size());
    for (std::size_t k = 0; k < most; ++k)
        if (k >= a.calls.size() || k >= b.calls.size() || a.calls[k].what != b.calls[k].what)
            return fmt::format("{}, call {}: {}, but {}, expected the same call", a.communicator, k, call_text(a, k),
                               call_text(b, k));
    return std::nullopt;
}

}  // namespace

std::vector<CallList> call_lists(const Schedule& schedule, std::span<const RankProgram> programs) {
    std::vector<CallList> lists;
    for (const RankProgram& program : programs) {
        std::map<Key, CallList> of_rank;
        const auto list = [&](const Key& key, std::size_t members) -> CallList& {
            const auto [at, is_new] = of_rank.try_emplace(key);
            if (is_new) at->second = {name_of(key), static_cast<std::uint32_t>(members), program.rank, {}};
            return at->second;
        };
        for (const Group& group : schedule.groups)
            if (std::find(group.members.begin(), group.members.end(), program.rank) != group.members.end())
                list({false, index(group.id), 0}, group.members.size());
        for (const IssuedOp& issued : program.ops) {
            const Op& op = schedule.ops[index(issued.op)];
            if (const std::optional<Key> key = key_of(op)) list(*key, 2).calls.push_back({op.id, describe_call(op)});
        }
        for (auto& [key, of_key] : of_rank) lists.push_back(std::move(of_key));
    }
    return lists;
}

std::optional<std::string> call_difference(std::vector<CallList> lists) {
    std::stable_sort(lists.begin(), lists.end(), [](const CallList& a, const CallList& b) {
        return std::tuple(a.communicator.size(), a.communicator, a.rank) <
               std::tuple(b.communicator.size(), b.communicator, b.rank);
    });
    for (std::size_t first = 0, end = 0; first < lists.size(); first = end) {
        while (end < lists.size() && lists[end].communicator == lists[first].communicator) {
            if (auto found = difference(lists[first], lists[end])) return found;
            ++end;
        }
        if (end - first != lists[first].members)
            return fmt::format("{}: {} of its {} members take part, {}", lists[first].communicator, end - first,
                               lists[first].members, call_text(lists[first], 0));
    }
    return std::nullopt;
}

std::vector<std::byte> encode(std::span<const CallList> lists) {
    WireWriter writer;
    writer.u64(lists.size());
    for (const CallList& list : lists) {
        writer.text(list.communicator);
        writer.u32(list.members);
        writer.u32(static_cast<std::uint32_t>(list.rank));
        writer.u64(list.calls.size());
        for (const ListedCall& call : list.calls) {
            writer.u32(static_cast<std::uint32_t>(call.op));
            writer.text(call.what);
        }
    }
    return writer.take();
}

// Counts are believed only as far as there are bytes: every entry takes some.
std::vector<CallList> decode_call_lists(std::span<const std::byte> bytes) {
    WireReader reader(bytes);
    std::vector<CallList> lists;
    for (std::uint64_t left = reader.u64(); left > 0; --left) {
        CallList& list = lists.emplace_back();
        list.communicator = reader.text(kLongestText);
        list.members = reader.u32();
        list.rank = Rank{reader.u32()};
        for (std::uint64_t calls = reader.u64(); calls > 0; --calls) {
            const OpId op{reader.u32()};
            list.calls.push_back({op, reader.text(kLongestText)});
        }
    }
    reader.expect_end();
    return lists;
}

}  // namespace sluice
