#include "runtime/cuda_profile/gpu_messages.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/local_gpus.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/cuda/stream_stopwatch.h"
#include "runtime/cuda/sustained_call.h"
#include "runtime/cuda_profile/message_bench.h"

namespace sluice::cuda {
namespace {

constexpr Bytes kCopied = 256_MiB;             // of a copy, each way
constexpr BytesPerSecond kFastestCopy{120e9};  // of a link to the host, so that copies last as long as is asked
constexpr std::int64_t kSide = 8192;
constexpr std::size_t kProducts = 20;

std::vector<Bytes> sizes(bool quick) {
    if (quick) return {16_KiB, 1_MiB, 64_MiB};
    return {4_KiB, 16_KiB, 64_KiB, 256_KiB, 1_MiB, 4_MiB, 16_MiB, 64_MiB, 256_MiB, 1_GiB};
}
std::vector<Bytes> sizes_beside_copies(bool quick) {
    if (quick) return {64_MiB};
    return {1_MiB, 64_MiB, 1_GiB};
}

// One GPU's memory, streams and clocks. Made and used on threads where the GPU is current.
class GpuRank {
public:
    GpuRank(std::shared_ptr<const DevicePart> device, Bytes largest)
        : device_(std::move(device)),
          out_(largest, "messages to send"),
          in_(largest, "messages to receive"),
          copied_(kCopied * 2, "memory to copy"),
          host_(kCopied * 2, "memory to copy to"),
          messages_clock_(messages_.get()),
          receiving_clock_(receiving_.get()),
          copies_out_clock_(copies_out_.get()),
          copies_in_clock_(copies_in_.get()),
          products_clock_(products_.get()) {
        for (const DeviceMemory* memory : {&out_, &in_, &copied_})
            check(cudaMemset(memory->bytes().data(), 0, memory->bytes().size()), "memory of messages");
        check(cudaDeviceSynchronize(), "memory of messages");
    }

    MessageRank bench(Transport& transport) {
        MessageRank rank{&transport, messages_.get(), receiving_.get(), out_.bytes(), in_.bytes(), {}, {}, {}, {}, {}};
        rank.enter = [this] { enter(); };
        rank.start = [this] { messages_clock_.start(), receiving_clock_.start(); };
        rank.stop = [this] { return std::max(messages_clock_.stop(), receiving_clock_.stop()); };
        rank.load = [this](Seconds time) { copy_out(copies_for(time)); };
        rank.unload = [this] { copies_out_.wait(); };
        return rank;
    }

    void enter() const { device_->make_current(); }
    const DevicePart& device() const { return *device_; }
    std::span<std::byte> out() const { return out_.bytes(); }
    std::span<std::byte> in() const { return in_.bytes(); }
    Stream messages() const { return messages_.get(); }

    // Rates of copies out and in at the same time; of `out` alone where `both` is not set, then the second is nothing.
    std::pair<BytesPerSecond, BytesPerSecond> time_copies(std::size_t copies, bool out, bool in) {
        if (out) copies_out_clock_.start(), copy_out(copies);
        if (in) copies_in_clock_.start(), copy_in(copies);
        const Bytes moved = kCopied * static_cast<std::int64_t>(copies);
        return {out ? moved / copies_out_clock_.stop() : BytesPerSecond{},
                in ? moved / copies_in_clock_.stop() : BytesPerSecond{}};
    }

    void prepare_products() {
        operands_ = std::make_unique<MeasurementMemory>(Bytes{3 * 2 * kSide * kSide});
        operands_->fill_at_random();
        gemms_ = std::make_unique<Gemms>();
        const MeasurementMemory scratch(gemm_scratch_bytes(kShape));
        gemms_->prepare(kShape, products_.get(), {scratch.data(), static_cast<std::size_t>(scratch.size().value)});
    }

    // Puts products on their stream; what is there before them on others runs beside them.
    Seconds time_products() {
        auto* const data = reinterpret_cast<Bf16*>(operands_->data());
        const auto matrix = [&](std::int64_t k) { return Bf16Matrix(data + k * kSide * kSide, kSide, kSide); };
        products_clock_.start();
        for (std::size_t i = 0; i < kProducts; ++i)
            gemms_->run(products_.get(), Transpose::kNo, matrix(0), Transpose::kYes, matrix(1), matrix(2),
                        Store::kOverwrite);
        return products_clock_.stop() / static_cast<double>(kProducts);
    }

    void wait_for_messages() const { messages_.wait(); }

private:
    static constexpr GemmShape kShape{Transpose::kNo,    Transpose::kYes,  kSide, kSide, kSide, kSide, kSide, kSide,
                                      ResultType::kBf16, Store::kOverwrite};

    static std::size_t copies_for(Seconds time) {
        return static_cast<std::size_t>(std::clamp(std::ceil(time / (kCopied / kFastestCopy)), 1.0, 5000.0));
    }
    void copy_out(std::size_t copies) {
        for (std::size_t i = 0; i < copies; ++i)
            check(cudaMemcpyAsync(host_.bytes().data(), copied_.bytes().data(), static_cast<std::size_t>(kCopied.value),
                                  cudaMemcpyDeviceToHost, copies_out_.get()),
                  "copies to the host");
    }
    void copy_in(std::size_t copies) {
        const auto half = static_cast<std::size_t>(kCopied.value);
        for (std::size_t i = 0; i < copies; ++i)
            check(cudaMemcpyAsync(copied_.bytes().data() + half, host_.bytes().data() + half, half,
                                  cudaMemcpyHostToDevice, copies_in_.get()),
                  "copies from the host");
    }

    const std::shared_ptr<const DevicePart> device_;
    DeviceMemory out_, in_, copied_;
    PinnedMemory host_;
    OwnedStream messages_, receiving_, copies_out_, copies_in_, products_;
    StreamStopwatch messages_clock_, receiving_clock_, copies_out_clock_, copies_in_clock_, products_clock_;
    std::unique_ptr<MeasurementMemory> operands_;
    std::unique_ptr<Gemms> gemms_;
};

class Profiling {
public:
    Profiling(int gpus, const TransportMaker& transport, bool quick, const ProfileProgress& progress)
        : quick_(quick), progress_(progress), schedule_(message_schedule(static_cast<std::size_t>(gpus))) {
        out_.gpus = gpus;
        for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) local_.push_back(id_at<Rank>(r));
        const DevicePartMaker make = local_gpus(0, local_);
        for (const Rank rank : local_) parts_.push_back(make(rank));
        for (const auto& part : parts_) devices_.push_back(part.get());
        make_ranks();
        const Bytes free = free_memory();
        transports_ = transport({schedule_, schedule_.groups, local_, devices_, monitor_});
        for (std::size_t r = 0; r < ranks_.size(); ++r) benches_.push_back(ranks_[r]->bench(*transports_[r]));
        measure(free);
    }

    GpuMessages take() { return std::move(out_); }

private:
    std::size_t count() const { return local_.size(); }

    void make_ranks() {
        const Bytes largest = message_bytes(sizes(quick_).back(), count());
        ranks_.resize(count());
        for (std::size_t r = 0; r < count(); ++r) {  // one after another: pinning takes all cores
            parts_[r]->make_current();
            const Bytes free = device_memory_state().free;
            if (free < kMessageMemory)
                throw EnvironmentError(
                    fmt::format("memory of GPU {} is short: measuring messages needs {}, got {} free",
                                parts_[r]->device(), format(kMessageMemory), format(free)));
            ranks_[r] = std::make_unique<GpuRank>(parts_[r], largest);
        }
    }

    Bytes free_memory() const {
        parts_.front()->make_current();
        return device_memory_state().free;
    }

    void measure(Bytes free_before) {
        const Seconds each{quick_ ? 0.01 : 0.1};
        progress_("messages", 0);
        out_.alone = time_messages(benches_, sizes(quick_), each, false, monitor_);
        out_.communicators = std::max(Bytes{0}, free_before - free_memory());
        progress_("messages beside copies", 0.5);
        out_.beside_copies = time_messages(benches_, sizes_beside_copies(quick_), each, true, monitor_);
        progress_("copies of all GPUs", 0.7);
        copies();
        progress_("products beside messages", 0.9);
        products();
        progress_("done", 1);
    }

    // All GPUs at once, each way and both.
    void copies() {
        const std::size_t copies = quick_ ? 8 : 64;
        const auto sum = [&](bool out, bool in) {
            std::vector<std::pair<BytesPerSecond, BytesPerSecond>> of_rank(count());
            on_all_ranks(count(), monitor_, [&](std::size_t r) {
                ranks_[r]->enter();
                of_rank[r] = ranks_[r]->time_copies(copies, out, in);
            });
            std::pair<BytesPerSecond, BytesPerSecond> all{};
            for (const auto& [a, b] : of_rank) all.first += a, all.second += b;
            return all;
        };
        sum(true, true);  // warms up
        out_.links.gpus = count();
        out_.links.all_out = sum(true, false).first;
        out_.links.all_in = sum(false, true).second;
        const auto [out_beside, in_beside] = sum(true, true);
        out_.links.all_out_beside_in = out_beside, out_.links.all_in_beside_out = in_beside;
    }

    // Beside all-gathers of the largest size, enough to outlast the products twice.
    void products() {
        for (const auto& rank : ranks_) rank->enter(), rank->prepare_products();
        const auto time = [&](std::size_t gathers) {
            std::vector<Seconds> of_rank(count());
            on_all_ranks(count(), monitor_, [&](std::size_t r) {
                GpuRank& rank = *ranks_[r];
                rank.enter();
                const TransportCall call{OpId{}, "all-gathers beside products", rank.messages()};
                for (std::size_t i = 0; i < gathers; ++i)
                    transports_[r]->all_gather(call, GroupId{0}, rank.out().first(rank.out().size() / count()),
                                               rank.in());
                of_rank[r] = rank.time_products();
                rank.wait_for_messages();
            });
            Seconds sum{0};
            for (const Seconds t : of_rank) sum += t;
            return sum / static_cast<double>(count());
        };
        time(0);  // the clock settles
        const Seconds alone = time(0);
        const Seconds gather = out_.alone[sizes(quick_).size() - 1].time;  // all-gather comes first
        const double wanted = std::ceil(2 * kProducts * (alone / gather));
        const Seconds beside = time(static_cast<std::size_t>(std::clamp(wanted, 1.0, 2000.0)));
        out_.product_beside = std::clamp(alone / beside, 0.01, 1.0);
    }

    const bool quick_;
    const ProfileProgress& progress_;
    const Schedule schedule_;
    GpuMessages out_;
    std::vector<Rank> local_;
    std::vector<std::shared_ptr<const DevicePart>> parts_;
    std::vector<const DevicePart*> devices_;
    std::vector<std::unique_ptr<GpuRank>> ranks_;
    RunMonitor monitor_;
    std::vector<std::unique_ptr<Transport>> transports_;  // gone before what they move, and who watches them
    std::vector<MessageRank> benches_;
};

}  // namespace

GpuMessages profile_messages(int gpus, const TransportMaker& transport, bool quick, const ProfileProgress& progress) {
    SLUICE_CHECK(gpus >= 2, "messages are between GPUs");
    try {
        return Profiling(gpus, transport, quick, progress).take();
    } catch (const EnvironmentError& error) {
        throw EnvironmentError(fmt::format("while measuring messages between GPUs: {}", error.what()));
    }
}

}  // namespace sluice::cuda
