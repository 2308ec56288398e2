#include "runtime/nccl/receive_gates.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "runtime/rendezvous/shared_page.h"
#include "runtime/rendezvous/wire.h"

namespace sluice::cuda {
namespace {

// What a process tells the others of its flags: where they are, and whose sends set them.
struct Offer {
    bool has_flags = false;
    SharedPagePlace place;
    std::vector<std::uint32_t> ranks;

    bool runs(Rank rank) const { return std::find(ranks.begin(), ranks.end(), index(rank)) != ranks.end(); }
};

std::vector<std::byte> encode(const Offer& offer) {
    WireWriter writer;
    writer.u8(offer.has_flags);
    writer.u32(offer.place.process), writer.u32(offer.place.descriptor);
    for (const std::uint64_t half : offer.place.token) writer.u64(half);
    for (const std::uint32_t rank : offer.ranks) writer.u32(rank);
    return writer.take();
}

Offer decode(std::span<const std::byte> bytes) {
    constexpr std::size_t kHead = 1 + 2 * 4 + 2 * 8;
    if (bytes.size() < kHead || (bytes.size() - kHead) % 4 != 0)
        throw InternalError("a process tells where its flags are in too few bytes");
    WireReader reader(bytes);
    Offer offer;
    offer.has_flags = reader.u8() != 0;
    offer.place.process = reader.u32(), offer.place.descriptor = reader.u32();
    for (std::uint64_t& half : offer.place.token) half = reader.u64();
    offer.ranks.resize((bytes.size() - kHead) / 4);
    for (std::uint32_t& rank : offer.ranks) rank = reader.u32();
    return offer;
}

std::vector<Offer> exchange(Rendezvous& job, const Offer& own) {
    WireWriter writer;
    for (const std::vector<std::byte>& one : job.gather("places of flags", encode(own))) writer.bytes(one);
    const std::vector<std::byte> all = job.broadcast("all places of flags", writer.take());
    WireReader reader(all);
    std::vector<Offer> offers;
    for (std::uint32_t p = 0; p < job.processes(); ++p) offers.push_back(decode(reader.bytes(all.size())));
    return offers;
}

// Of every channel: can its receiver's process see the sender's flag? Known to all afterwards.
std::vector<std::byte> agree(Rendezvous& job, const std::vector<std::byte>& seen_here) {
    std::vector<std::byte> seen(seen_here.size());
    for (const std::vector<std::byte>& of_process : job.gather("flags that are seen", seen_here))
        for (std::size_t k = 0; k < std::min(seen.size(), of_process.size()); ++k) seen[k] |= of_process[k];
    seen = job.broadcast("all flags that are seen", seen);
    seen.resize(seen_here.size());
    return seen;
}

bool has(std::span<const Rank> local, Rank rank) { return std::find(local.begin(), local.end(), rank) != local.end(); }

}  // namespace

// Known to the GPUs as long as it is there.
class ReceiveGates::FlagPage {
public:
    // Takes the page over where the system allows it.
    static std::unique_ptr<FlagPage> of(SharedPage page, const StreamFlags& flags) {
        return flags.pin(page.pages()) ? std::unique_ptr<FlagPage>(new FlagPage(std::move(page), flags)) : nullptr;
    }
    ~FlagPage() { flags_.unpin(page_.pages()); }
    FlagPage(const FlagPage&) = delete;
    FlagPage& operator=(const FlagPage&) = delete;

    SharedPagePlace place() const { return page_.place(); }
    // Zero at first: no process makes one, for another may have set it already.
    Flag& at(std::size_t k) const { return reinterpret_cast<Flag*>(page_.bytes().data())[k]; }

private:
    FlagPage(SharedPage page, const StreamFlags& flags) : page_(std::move(page)), flags_(flags) {}

    SharedPage page_;
    const StreamFlags& flags_;
};

ReceiveGates::ReceiveGates(Rendezvous& job, const StreamFlags* flags, const std::vector<MessageEnds>& ends,
                           std::span<const Rank> local)
    : flags_(flags) {
    if (std::all_of(ends.begin(), ends.end(), [](const MessageEnds& e) { return e.group.has_value(); })) return;
    const std::size_t bytes = ends.size() * sizeof(Flag);
    Offer own;
    for (const Rank rank : local) own.ranks.push_back(static_cast<std::uint32_t>(index(rank)));
    if (flags != nullptr) pages_[job.process()] = FlagPage::of(SharedPage::make(bytes), *flags);
    own.has_flags = pages_[job.process()] != nullptr;
    if (own.has_flags) own.place = pages_[job.process()]->place();
    const std::vector<Offer> offers = exchange(job, own);

    // Of the process that runs the rank; null where one of the two has none.
    const auto page_of = [&](Rank rank) -> FlagPage* {
        const auto offer = std::find_if(offers.begin(), offers.end(), [&](const Offer& o) { return o.runs(rank); });
        if (!own.has_flags || offer == offers.end() || !offer->has_flags) return nullptr;
        const auto process = static_cast<std::uint32_t>(offer - offers.begin());
        if (!pages_.contains(process)) {
            std::optional<SharedPage> page = SharedPage::open(offer->place, bytes);
            pages_[process] = page ? FlagPage::of(std::move(*page), *flags) : nullptr;
        }
        return pages_[process].get();
    };
    std::map<std::size_t, FlagPage*> pages;  // by channel, of those with a local end
    std::vector<std::byte> seen(ends.size());
    for (std::size_t k = 0; k < ends.size(); ++k) {
        if (ends[k].group) continue;
        const Rank from = ends[k].members[0], to = ends[k].members[1];
        FlagPage* const page = has(local, from) || has(local, to) ? page_of(from) : nullptr;
        if (page == nullptr) continue;
        pages[k] = page;
        if (has(local, to)) seen[k] = std::byte{1};
    }
    const std::vector<std::byte> agreed = agree(job, seen);
    for (const auto& [k, page] : pages)
        if (agreed[k] != std::byte{0}) gates_.try_emplace(k, *flags, page->at(k));
}

ReceiveGates::~ReceiveGates() = default;

ReceiveGate* ReceiveGates::at(std::size_t k) {
    const auto found = gates_.find(k);
    return found == gates_.end() ? nullptr : &found->second;
}

void ReceiveGates::open() noexcept {
    for (auto& [k, gate] : gates_) gate.open();
}

}  // namespace sluice::cuda
