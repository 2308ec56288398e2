// AdamW and the norm of the gradients on the device against the CPU's.
#include <cmath>
#include <limits>

#include "runtime/cpu/adamw.h"
#include "runtime/cpu/gradient_norm.h"
#include "runtime/cuda/optimizer.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

class OptimizerKernels : public LibraryOnDevice {};

constexpr std::int64_t kCounts[] = {1, 3, 7, 1024, 1027, 1200003};

TEST_F(OptimizerKernels, SumOfSquaresAgreesWithTheCpuWhateverTheAlignment) {
    const DeviceScratch scratch;
    for (const std::int64_t count : kCounts) {
        const std::vector<float> values = random_floats(static_cast<std::size_t>(count), 1);
        const double want = sluice::sum_of_squares(values);
        std::vector<double> sums;
        for (const std::size_t offset : {0, 0, 1}) {
            DeviceArray<float> device(values.size() + offset);
            device.upload(values, offset);
            const DeviceArray<double> sum(std::vector<double>{0.5});
            sum_of_squares(nullptr, device.data() + offset, count, sum.data(), scratch.view());
            sums.push_back(sum.download()[0]);
        }
        EXPECT_NEAR(sums[0], want + 0.5, 1e-12 * (want + 1)) << count;
        EXPECT_EQ(sums[0], sums[1]) << count;
        EXPECT_EQ(sums[0], sums[2]) << count;
    }
}

struct Parameters {
    std::vector<float> gradients, master, first, second;
    explicit Parameters(std::int64_t count)
        : gradients(random_floats(static_cast<std::size_t>(count), 1)),
          master(random_floats(gradients.size(), 2)),
          first(random_floats(gradients.size(), 3, 0.1F)),
          second(random_floats(gradients.size(), 4, 0.005F, 0.006F)) {}
};

// On the device, each array `offset` elements into its memory.
struct ParametersOnDevice {
    std::size_t count, offset;
    DeviceArray<float> gradients, master, first, second;
    DeviceArray<Bf16> weights;
    ParametersOnDevice(const Parameters& p, std::size_t o)
        : count(p.gradients.size()),
          offset(o),
          gradients(count + o),
          master(count + o),
          first(count + o),
          second(count + o),
          weights(count + o) {
        gradients.upload(p.gradients, o), master.upload(p.master, o);
        first.upload(p.first, o), second.upload(p.second, o);
    }
    AdamwParameters view() const {
        return {gradients.data() + offset, master.data() + offset,  first.data() + offset,
                second.data() + offset,    weights.data() + offset, static_cast<std::int64_t>(count)};
    }
    Parameters download() const {
        Parameters p(0);
        p.gradients = gradients.download(offset, count), p.master = master.download(offset, count);
        p.first = first.download(offset, count), p.second = second.download(offset, count);
        EXPECT_TRUE(master.guard_intact() && first.guard_intact() && second.guard_intact() && weights.guard_intact());
        return p;
    }
};

void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance, const char* what) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
        if (!(std::abs(got[i] - want[i]) <= tolerance))
            FAIL() << what << " " << i << ": got " << got[i] << ", want " << want[i];
}

TEST_F(OptimizerKernels, AdamwAgreesWithTheCpu) {
    for (const std::int64_t count : kCounts)
        for (const std::size_t offset : {0, 1, 4})
            for (const double clip : {0.0, 0.5, 1e9}) {
                Parameters p(count);
                const ParametersOnDevice device(p, offset);
                const double squares = sluice::sum_of_squares(p.gradients);
                const DeviceArray<double> device_squares(std::vector<double>{squares});
                AdamwStep step{1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 1, 7};
                adamw(nullptr, step, clip, device_squares.data(), device.view());
                if (clip > 0) step.gradient_scale = clipping_scale(std::sqrt(squares), clip);
                sluice::adamw(step, p.gradients, {p.master, p.first, p.second});

                const Parameters got = device.download();
                expect_near(got.gradients, p.gradients, 0, "gradient");
                expect_near(got.first, p.first, 2e-7F, "first moment");
                expect_near(got.second, p.second, 2e-7F, "second moment");
                expect_near(got.master, p.master, 5e-7F, "weight");
                const std::vector<float> weights = floats(device.weights.download(offset, device.count));
                EXPECT_EQ(bits(weights), bits(floats(rounded(got.master))));
            }
}

TEST_F(OptimizerKernels, NothingChangesWhereTheNormIsNotFinite) {
    const Parameters p(1027);
    for (const double squares : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
        for (const double clip : {0.0, 1.0}) {
            const ParametersOnDevice device(p, 0);
            const std::vector<Bf16> weights = device.weights.download();
            const DeviceArray<double> device_squares(std::vector<double>{squares});
            adamw(nullptr, {1e-3F}, clip, device_squares.data(), device.view());
            const Parameters got = device.download();
            EXPECT_EQ(bits(got.master), bits(p.master));
            EXPECT_EQ(bits(got.first), bits(p.first));
            EXPECT_EQ(bits(got.second), bits(p.second));
            EXPECT_EQ(bits(floats(device.weights.download())), bits(floats(weights)));
        }
}

}  // namespace
}  // namespace sluice::cuda
