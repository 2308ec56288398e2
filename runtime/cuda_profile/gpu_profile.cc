#include "runtime/cuda_profile/gpu_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/cuda/engine_memory.h"
#include "runtime/cuda/gpu_description.h"
#include "runtime/cuda/gpu_parts.h"
#include "runtime/cuda_profile/attention_bench.h"
#include "runtime/cuda_profile/memory_bound_bench.h"
#include "runtime/cuda_profile/part_bench.h"
#include "runtime/cuda_profile/part_load.h"
#include "runtime/cuda_profile/power_bench.h"
#include "runtime/cuda_profile/product_bench.h"
#include "runtime/cuda_profile/step_mix.h"
#include "runtime/cuda_profile/transfer_bench.h"

namespace sluice::cuda {
namespace {

// What an engine keeps on the device and this profile does not: all but the workspace of products, which is held here,
// too. Of one rank with all of the vocabulary.
constexpr Bytes kNotHeld = workspace_bytes(1) - Bytes{Gemms::kWorkspaceBytes};

// Parts of the whole, by the time that they take.
struct Share {
    double begin, end;
};
constexpr Seconds kLoad{0.024};  // before each sample of a kernel: about a window of the limit of power
constexpr Share kPowerShare{0, 0.02}, kCopyShare{0.02, 0.06}, kPlanShare{0.06, 0.16}, kAttentionShare{0.16, 0.28},
    kProductShare{0.28, 0.88}, kMemoryShare{0.88, 1};

// "580.95.05, CUDA 13.0"; the second alone where the system does not tell the first.
std::string driver_version(const std::string& cuda) {
    std::ifstream in("/proc/driver/nvidia/version");  // NVRM version: NVIDIA UNIX Open Kernel Module  580.95.05  ...
    std::string word;
    while (in >> word) {
        const bool digits = word.find_first_not_of("0123456789.") == std::string::npos;
        if (digits && word.find('.') != std::string::npos) return fmt::format("{}, CUDA {}", word, cuda);
        if (word == "GCC") break;
    }
    return "CUDA " + cuda;
}

GpuMachine describe_machine() {
    const GpuDescription gpu = describe_gpu();
    GpuMachine machine{gpu.name, driver_version(gpu.driver), gpu.runtime,   gpu.cublas, gpu.cudnn, gpu.memory,
                       {},       gpu.multiprocessors,        this_machine()};
    machine.l2 = gpu.l2, machine.memory_peak = gpu.memory_peak;
    return machine;
}

void expect_free_memory(int parts) {
    const DeviceMemoryState state = device_memory_state();
    const Bytes needed = kProfileMemory + kPartLoadMemory * (parts - 1);
    if (state.free < needed)
        throw EnvironmentError(fmt::format("GPU memory is short: measuring needs {}, got {} free of {}", format(needed),
                                           format(state.free), format(state.total)));
}

using DeviceParts = std::vector<std::shared_ptr<const DevicePart>>;

DeviceParts cut_gpu(int parts) {
    DeviceParts all;
    if (parts == 1) return all;
    const DevicePartMaker make = gpu_parts(parts);
    for (int r = 0; r < parts; ++r) all.push_back(make(Rank{static_cast<std::uint32_t>(r)}));
    return all;
}

class Profiling {
public:
    Profiling(GpuMachine machine, DeviceParts parts, bool quick, const ProfileProgress& progress)
        : quick_(quick),
          each_(quick ? Seconds{0.01} : Seconds{0.03}),
          progress_(progress),
          parts_(std::move(parts)),
          stream_(parts_.empty() ? OwnedStream() : OwnedStream(parts_.front()->new_stream())),
          timer_(parts_.empty() ? nullptr : stream_.get()),
          gemms_(parts_.empty() ? 0 : parts_.front()->multiprocessors()) {
        out_.machine = std::move(machine);
    }

    GpuFigures measure() {
        stage("the limit of power", [&] { power(); });
        if (!parts_.empty()) stage("parts", [&] { out_.part = measure_part(parts_, timer_, each_); });
        StepMix mix(gemms_, plans_, timer_);
        if (!parts_.empty()) stage("the limit of power of a part", [&] { load_others(mix); });
        stage("copies", [&] { transfers(); });
        stage("a load", [&] { timer_.keep_busy([&] { mix.put(); }, kLoad); });
        stage("attention", [&] { attention(); });
        stage("matrix products", [&] { products(); });
        stage("passes over memory", [&] { memory_bound(); });
        timer_.keep_busy({}, {});
        load_.reset();
        out_.machine.reserved = reserved();
        out_.machine.reserved_per_token = kTokenBytes + kAttentionKernelBytesPerToken;
        out_.machine.reserved_per_pinned_gib = kPageTableBytesPerPinnedGib;
        progress_("done", 1);
        return std::move(out_);
    }

private:
    // Of a part: its share of the context, and all that its own engine holds.
    Bytes reserved() const {
        const DeviceMemoryState state = device_memory_state();
        const Bytes held = state.total - state.free;
        if (parts_.empty()) return held + kNotHeld;
        const Bytes own{Gemms::kWorkspaceBytes};
        return (held - own) / static_cast<std::int64_t>(parts_.size()) + own + kNotHeld;
    }

    void show(std::string_view what, Share share, std::size_t done, std::size_t of) {
        doing_ = fmt::format("{}, {} of {}", what, done + 1, of);
        progress_(what, share.begin + (share.end - share.begin) * static_cast<double>(done) / static_cast<double>(of));
    }

    // Says what was being measured when something failed.
    void stage(const char* name, const std::function<void()>& run) {
        doing_ = name;
        try {
            run();
            if (load_) load_->expect_running();
        } catch (const EnvironmentError& error) {
            throw EnvironmentError(fmt::format("while measuring {}: {}", doing_, error.what()));
        } catch (const InputError& error) {  // a library that has no engine for a shape
            throw EnvironmentError(fmt::format("while measuring {}: {}", doing_, error.what()));
        }
    }

    // Of the whole GPU: its parts share one limit, and its average.
    void power() {
        show("the limit of power", kPowerShare, 0, 1);
        GpuTimer timer;
        Gemms gemms;
        AttentionPlans plans;
        StepMix mix(gemms, plans, timer);
        out_.power = power_figures(mix, timer, quick_);
    }

    // From now on the other parts compute. Gains are those of a part alone: it has a higher clock than the whole GPU
    // after a pause.
    void load_others(StepMix& mix) {
        show("the limit of power of a part", kPowerShare, 0, 1);
        const SteadyTimes alone = steady_times(mix, timer_, quick_);
        load_.emplace(std::span<const std::shared_ptr<const DevicePart>>(parts_).subspan(1));
        const SteadyTimes beside = steady_times(mix, timer_, quick_);
        out_.power.gemm = {beside.gemm, alone.gemm};
        out_.power.attention_forward = {beside.attention_forward, alone.attention_forward};
        out_.power.attention_backward = {beside.attention_backward, alone.attention_backward};
    }

    void transfers() {
        show("copies", kCopyShare, 0, 3);
        TransferBench bench(timer_, out_.machine.host.memory, quick_);
        out_.copies = bench.copies();
        show("copies beside compute", kCopyShare, 1, 3);
        out_.interference = bench.interference(gemms_, std::max<std::size_t>(1, parts_.size()));
        show("events between kernels", kCopyShare, 2, 3);
        out_.kernel_gap = event_gap(timer_);
    }

    void attention() {
        out_.attention_rows = AttentionPlans::kForwardTileRows;
        out_.attention_stretch = AttentionPlans::kQueriesAtOnce.value;
        const std::vector<Attention> main = profiled_attention(quick_), others = other_attention(quick_);
        std::vector<Attention> all = main;
        all.insert(all.end(), others.begin(), others.end());
        AttentionBench bench(plans_, timer_, each_ * (2.0 / 3), all,
                             [&](std::size_t built) { show("plans of attention", kPlanShare, built, all.size()); });
        for (std::size_t i = 0; i < all.size(); ++i) {
            show("attention", kAttentionShare, i, all.size());
            (i < main.size() ? out_.attention : out_.other_attention).push_back(bench.time(all[i]));
        }
    }

    void products() {
        const std::vector<LayerProducts> main = profiled_products(quick_), others = other_products(quick_);
        std::vector<LayerProducts> all = main;
        all.insert(all.end(), others.begin(), others.end());
        ProductBench bench(gemms_, timer_, each_, all);
        for (std::size_t i = 0; i < all.size(); ++i) {
            show("matrix products", kProductShare, i, all.size());
            (i < main.size() ? out_.products : out_.other_products).push_back(bench.time(all[i]));
        }
    }

    void memory_bound() {
        const std::vector<MemoryBoundCall> main = profiled_memory_bound(quick_), others = other_memory_bound(quick_);
        MemoryBoundBench bench(timer_, each_ / 3);
        const std::size_t all = main.size() + others.size();
        for (std::size_t i = 0; i < all; ++i) {
            show("passes over memory", kMemoryShare, i, all);
            if (i < main.size())
                out_.pointwise.push_back(bench.time(main[i]));
            else
                out_.other_pointwise.push_back(bench.time(others[i - main.size()]));
        }
    }

    const bool quick_;
    const Seconds each_;  // for one figure
    const ProfileProgress& progress_;
    GpuFigures out_;
    std::string doing_;
    // From here on they hold device memory; kept to the end, as a run does.
    const DeviceParts parts_;  // empty: the whole GPU
    OwnedStream stream_;
    std::optional<PartLoad> load_;
    GpuTimer timer_;
    Gemms gemms_;
    AttentionPlans plans_;
};

}  // namespace

GpuFigures profile_gpu(bool quick, int parts, const ProfileProgress& progress) {
    if (parts > 1) raise_stream_connections();
    WholeDevice().make_current();  // the first, whichever this thread used last
    GpuMachine machine = describe_machine();
    expect_free_memory(parts);
    return Profiling(std::move(machine), cut_gpu(parts), quick, progress).measure();
}

}  // namespace sluice::cuda
