// Between a rank's part of the parameters and whole ones, as checkpoints hold them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/parameter_layout.h"

namespace sluice {

// A whole tensor of a parameter's shape: rows one behind the other; GPT-2's linear layers are (in, out).
struct WholeTensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};
WholeTensor empty_tensor(const ParameterSlice& of);

// `stepped`: the slice's elements that the rank steps. `held`: all that it has.
void add_to_whole(const ParameterSlice& slice, std::span<const float> stepped, WholeTensor& whole);
void take_from_whole(const ParameterSlice& slice, const WholeTensor& whole, std::span<float> held);

// Initial values (session.h says which). They depend on the seed, the name and the place in the whole parameter alone.
void initialise_slice(const ParameterSlice& slice, std::int64_t layers, std::uint64_t seed, std::span<float> held);

}  // namespace sluice
