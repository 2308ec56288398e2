#include "runtime/resident_memory.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace sluice {

Bytes resident_memory() {
    std::ifstream statm("/proc/self/statm");
    std::int64_t size = 0, resident = 0;
    statm >> size >> resident;
    return Bytes{resident * sysconf(_SC_PAGESIZE)};
}

}  // namespace sluice
