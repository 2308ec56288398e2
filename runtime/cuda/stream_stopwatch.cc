#include "runtime/cuda/stream_stopwatch.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace sluice::cuda {

StreamStopwatch::StreamStopwatch(Stream stream) : stream_(stream) {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
}
StreamStopwatch::~StreamStopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
}

void StreamStopwatch::start() { check(cudaEventRecord(begin_, stream_), "cudaEventRecord"); }

Seconds StreamStopwatch::stop() {
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize, after work that was timed");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return Seconds{1e-3 * static_cast<double>(milliseconds)};
}

}  // namespace sluice::cuda
