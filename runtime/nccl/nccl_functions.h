// NCCL as plain functions, so that what uses it is tested without a GPU. The library is loaded when the first run with
// several GPUs needs it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/cuda/transport.h"

// NCCL's communicator, whose header stays out of ours.
struct ncclComm;

namespace sluice::cuda {

using NcclId = std::array<std::byte, 128>;

// What its functions return: it worked, it goes on in the background (ask state()), or the library's code.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;

// One communicator's functions are called by one thread at a time; abort() by any, when no other is being called.
struct NcclFunctions {
    int (*version)(int* version) = nullptr;  // 22809: 2.28.9
    int (*make_id)(NcclId* id) = nullptr;
    // Of a member on the current GPU; returns at once. Every member calls it with the same id.
    int (*begin)(ncclComm** comm, int members, const NcclId* id, int member) = nullptr;
    int (*state)(ncclComm* comm, int* state) = nullptr;
    int (*abort)(ncclComm* comm) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*all_gather)(const void* mine, void* all, std::size_t bytes, ncclComm*, Stream) = nullptr;  // bytes of mine
    // Counts are in elements: of mine; of all values.
    int (*reduce_scatter)(const void* all, void* mine, std::size_t count, ElementType, ncclComm*, Stream) = nullptr;
    int (*all_reduce)(void* values, std::size_t count, ElementType, ncclComm*, Stream) = nullptr;
    // In place: the root's values become the sum of all members'; the root's bytes become everybody's.
    int (*reduce)(void* values, std::size_t count, ElementType, int root, ncclComm*, Stream) = nullptr;
    int (*broadcast)(void* bytes, std::size_t count, int root, ncclComm*, Stream) = nullptr;
    int (*send)(const void* bytes, std::size_t count, int to, ncclComm*, Stream) = nullptr;
    int (*receive)(void* bytes, std::size_t count, int from, ncclComm*, Stream) = nullptr;
    const char* (*describe)(int code) = nullptr;
    const char* (*last_error)() = nullptr;  // of any communicator; one sentence, or empty
};

// Loads the library at the first call; any thread. Throws EnvironmentError where it cannot be, or is older than 2.18.
const NcclFunctions& nccl_library();
std::string nccl_version();  // "2.28.9"

}  // namespace sluice::cuda
