// Hugging Face configs from anybody: only InputError may escape, always one line, and what is accepted keeps the bounds
// that docs/scenarios.md gives every architecture.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "scenarios/read_hf_config.h"

namespace {

void require(bool condition, std::string_view promise) {
    if (condition) return;
    std::cerr << "broken promise: " << promise << '\n';
    std::abort();
}

void check_accepted(const sluice::Architecture& a) {
    require(a.name == "fuzz", "the name is the one given");
    require(a.layers >= 1 && a.layers <= 1024, "layers");
    require(a.hidden >= 1 && a.hidden <= 65536, "hidden");
    require(a.heads >= 1 && a.heads <= 1024, "heads");
    require(a.kv_heads >= 1 && a.heads % a.kv_heads == 0, "kv_heads divides heads");
    require(a.head_dim >= 1 && a.head_dim <= 1024 && a.heads * a.head_dim <= 131072, "head_dim");
    require(a.ffn >= 1 && a.ffn <= 262144, "ffn");
    require(a.vocabulary >= 1 && a.vocabulary <= 4194304, "vocabulary");
    require(a.rope_theta >= 1 && a.rope_theta <= 1e12, "rope_theta");
    require(a.norm_epsilon >= 1e-12 && a.norm_epsilon <= 0.1, "norm_epsilon");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        check_accepted(sluice::parse_hf_config({reinterpret_cast<const char*>(data), size}, "fuzz.json", "fuzz"));
    } catch (const sluice::InputError& error) {
        const std::string_view message = error.what();
        require(!message.empty() && message.find('\n') == std::string_view::npos, "a message is one line");
    }
    return 0;
}
