// A GPU cut into parts, and messages between them.
#include "runtime/cuda/gpu_parts.h"

#include <thread>

#include "base/error.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/in_process_transport.h"
#include "runtime/cuda/stream_communicator.h"
#include "runtime/cuda/sum_members.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

class GpuParts : public LibraryOnDevice {};

TEST(GpuPartSizes, AreEqualAndInTheDriversSteps) {
    const struct {
        int all, parts, least, step, each;
    } cases[] = {{132, 2, 8, 8, 64}, {132, 4, 8, 8, 32},  {132, 8, 8, 8, 16}, {132, 16, 8, 8, 8},
                 {132, 17, 8, 8, 0}, {132, 1, 8, 8, 128}, {108, 2, 4, 2, 54}, {132, 0, 8, 8, 0}};
    for (const auto& c : cases) EXPECT_EQ(multiprocessors_of_part(c.all, c.parts, c.least, c.step), c.each) << c.parts;
}

TEST_F(GpuParts, HaveTheirMultiprocessorsAndTheirNumber) {
    for (const int parts : {2, 4}) {
        const DevicePartMaker make = gpu_parts(parts);
        std::vector<std::shared_ptr<const DevicePart>> all;
        for (int r = 0; r < parts; ++r) all.push_back(make(Rank{static_cast<std::uint32_t>(r)}));
        cudaDeviceProp properties{};
        must(cudaGetDeviceProperties(&properties, 0), "properties");
        for (const auto& part : all) {
            EXPECT_GT(part->multiprocessors(), 0);
            EXPECT_LE(part->multiprocessors() * parts, properties.multiProcessorCount);
            EXPECT_EQ(part->multiprocessors(), all.front()->multiprocessors());
        }
        EXPECT_THROW(make(Rank{static_cast<std::uint32_t>(parts)}), InputError);
    }
}

// The same product, chosen for a part and run there, for the whole GPU and run there: another order of sums at most.
TEST_F(GpuParts, ProductsComeOutTheSame) {
    const std::shared_ptr<const DevicePart> part = gpu_parts(2)(Rank{1});
    const OwnedStream stream(part->new_stream());
    const std::int64_t n = 512;
    const std::vector<Bf16> values = rounded(random_floats(static_cast<std::size_t>(n * n), 1));
    const DeviceArray<Bf16> a(values), b(values);
    std::vector<std::vector<float>> results;
    for (const bool parted : {false, true}) {
        const DeviceArray<float> c(values.size());
        Gemms gemms(parted ? part->multiprocessors() : 0);
        const ConstBf16Matrix of_a{a.data(), n, n}, of_b{b.data(), n, n};
        const Fp32Matrix into{c.data(), n, n};
        const Stream on = parted ? stream.get() : nullptr;
        gemms.prepare(gemm_shape(Transpose::kNo, of_a, Transpose::kYes, of_b, into, Store::kOverwrite), on);
        gemms.run(on, Transpose::kNo, of_a, Transpose::kYes, of_b, into);
        must(cudaDeviceSynchronize(), "product");
        results.push_back(c.download());
    }
    for (std::size_t i = 0; i < results[0].size(); ++i) ASSERT_NEAR(results[0][i], results[1][i], 1e-3) << i;
}

template <class Element>
std::vector<float> summed(ElementType type, const std::vector<std::vector<float>>& all, std::size_t offset) {
    std::vector<std::unique_ptr<DeviceArray<Element>>> arrays;
    std::vector<const std::byte*> from;
    std::vector<std::byte*> into;
    for (const std::vector<float>& own : all) {
        arrays.push_back(std::make_unique<DeviceArray<Element>>(own.size() + offset));
        std::vector<Element> values;
        for (const float v : own)
            if constexpr (sizeof(Element) == 2)
                values.push_back(to_bf16(v));
            else
                values.push_back(v);
        arrays.back()->upload(values, offset);
        from.push_back(reinterpret_cast<const std::byte*>(arrays.back()->data() + offset));
        into.push_back(reinterpret_cast<std::byte*>(arrays.back()->data() + offset));
    }
    into.pop_back();  // the last member's stays
    sum_members(nullptr, type, from, into, all[0].size());
    std::vector<float> first;
    for (std::size_t m = 0; m < arrays.size(); ++m) {
        EXPECT_TRUE(arrays[m]->guard_intact());
        std::vector<float> values;
        for (const Element v : arrays[m]->download(offset, all[0].size()))
            if constexpr (sizeof(Element) == 2)
                values.push_back(to_float(v));
            else
                values.push_back(static_cast<float>(v));
        if (m == 0) first = values;
        EXPECT_EQ(values, m + 1 == arrays.size() ? all[m] : first) << m;
    }
    return first;
}

// Values that bf16 has exactly, sums that it has not: added in fp32 and rounded once.
TEST_F(GpuParts, SumsAreThoseOfTheHost) {
    for (const std::size_t count : {1U, 7U, 64U, 1000U, 300000U})
        for (const std::size_t offset : {0U, 1U}) {
            std::vector<std::vector<float>> all;
            for (std::uint32_t m = 0; m < 4; ++m) all.push_back(floats(rounded(random_floats(count, m + 1))));
            std::vector<float> want(count), want_half;
            for (std::size_t i = 0; i < count; ++i) {
                want[i] = all[0][i];
                for (std::size_t m = 1; m < 4; ++m) want[i] += all[m][i];
            }
            for (const float v : want) want_half.push_back(to_float(to_bf16(v)));
            EXPECT_EQ(summed<float>(ElementType::kFp32, all, offset), want) << count << " " << offset;
            EXPECT_EQ(summed<Bf16>(ElementType::kBf16, all, offset), want_half) << count << " " << offset;
        }
    const std::vector<std::vector<float>> doubles = {{1, 2, 3}, {4, 5, 6}};
    EXPECT_EQ(summed<double>(ElementType::kFp64, doubles, 0), (std::vector<float>{5, 7, 9}));
}

// Over and over on both parts' streams, in the same memory: what is overwritten too early shows.
TEST_F(GpuParts, MessagesArrive) {
    constexpr std::uint32_t kRanks = 2;
    constexpr int kRounds = 200;
    constexpr std::size_t kCount = 1 << 16;
    const DevicePartMaker make = gpu_parts(kRanks);
    std::vector<std::shared_ptr<const DevicePart>> parts = {make(Rank{0}), make(Rank{1})};
    RunMonitor monitor;
    const int device = 0;
    const std::unique_ptr<StreamWork> work = gpu_stream_work({&device, 1});
    StreamCommunicator channel("there", {Rank{0}, Rank{1}}, monitor, *work),
        back("back", {Rank{1}, Rank{0}}, monitor, *work);
    std::vector<int> wrong(kRanks);
    const auto run = [&](std::uint32_t r) {
        const OwnedStream stream(parts[r]->new_stream());
        DeviceArray<std::uint32_t> memory(kCount);
        std::vector<std::uint32_t> seen(kCount);
        const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(memory.data()), memory.bytes());
        for (int round = 0; round < kRounds; ++round) {
            must(cudaMemsetAsync(memory.data(), r == 0 ? round % 256 : 0xee, memory.bytes(), stream.get()), "fill");
            const StreamCall there{r, "there", stream.get()}, again{1 - r, "back", stream.get()};
            if (r == 0) channel.send(there, bytes), back.receive(again, bytes);
            if (r == 1) channel.receive(there, bytes), back.send(again, bytes);
            must(cudaMemcpyAsync(seen.data(), memory.data(), memory.bytes(), cudaMemcpyDeviceToHost, stream.get()),
                 "look");
            must(cudaStreamSynchronize(stream.get()), "look");
            for (const std::uint32_t word : seen)
                wrong[r] += word != static_cast<std::uint32_t>(round % 256) * 0x01010101U;
        }
    };
    channel.join(0), channel.join(1), back.join(0), back.join(1);
    { std::jthread zero(run, 0U), one(run, 1U); }
    EXPECT_EQ(wrong, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace sluice::cuda
