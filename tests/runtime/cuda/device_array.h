// Device memory for tests, poisoned (every element is NaN) with a poisoned guard behind it; and the fixture that skips
// where there is no device.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cuda/bf16.h"

namespace sluice::cuda {

class LibraryOnDevice : public ::testing::Test {
protected:
    void SetUp() override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
    }
    // What one test leaves pending must not become the next one's failure.
    void TearDown() override {
        if (IsSkipped()) return;
        EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
    }
};

inline void must(cudaError_t error, const char* what) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

template <class T>
class DeviceArray {
public:
    static constexpr std::size_t kGuard = 4096;  // bytes

    explicit DeviceArray(std::size_t count) : count_(count) {
        must(cudaMalloc(&data_, bytes() + kGuard), "cudaMalloc");
        must(cudaMemset(data_, 0xff, bytes() + kGuard), "cudaMemset");
    }
    explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { upload(values); }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* data() const { return static_cast<T*>(data_); }
    std::size_t count() const { return count_; }
    std::size_t bytes() const { return count_ * sizeof(T); }

    void upload(const std::vector<T>& values, std::size_t first = 0) {
        must(cudaMemcpy(data() + first, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
    }
    std::vector<T> download(std::size_t first, std::size_t count) const {
        must(cudaDeviceSynchronize(), "work before a download");
        std::vector<T> values(count);
        must(cudaMemcpy(values.data(), data() + first, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
        return values;
    }
    std::vector<T> download() const { return download(0, count_); }
    bool guard_intact() const {
        must(cudaDeviceSynchronize(), "work before a look at the guard");
        std::vector<unsigned char> guard(kGuard);
        must(cudaMemcpy(guard.data(), static_cast<char*>(data_) + bytes(), kGuard, cudaMemcpyDeviceToHost), "download");
        for (const unsigned char byte : guard)
            if (byte != 0xff) return false;
        return true;
    }

private:
    void* data_ = nullptr;
    std::size_t count_ = 0;
};

inline std::vector<Bf16> rounded(const std::vector<float>& values) {
    std::vector<Bf16> all;
    for (const float v : values) all.push_back(to_bf16(v));
    return all;
}
inline std::vector<float> floats(const std::vector<Bf16>& values) {
    std::vector<float> all;
    for (const Bf16 v : values) all.push_back(to_float(v));
    return all;
}

}  // namespace sluice::cuda
