// Work on independent items in threads.
#pragma once

#include <cstddef>
#include <functional>

namespace sluice {

// Calls body(k) for k = 0 .. count-1, each once, from up to `workers` threads (0: as many as the machine has), which
// take them in ascending order. Ends early when body returns false: nothing is begun after that, what runs is finished.
// Returns when all threads have ended. An exception of body ends it early, too, and is thrown again: of several the one
// of the lowest k.
void for_each_index(std::size_t count, std::size_t workers, const std::function<bool(std::size_t)>& body);

}  // namespace sluice
