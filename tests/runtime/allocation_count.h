// Counts what the whole program allocates, on request.
#pragma once

#include <cstddef>

namespace sluice {

// Allocations by any thread through operator new between the constructor and the call. One at a time.
class AllocationCount {
public:
    AllocationCount();
    ~AllocationCount();
    std::size_t so_far() const;
};

}  // namespace sluice
