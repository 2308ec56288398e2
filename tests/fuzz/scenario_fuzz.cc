// Scenario files from anybody: only InputError may escape, always one line, and what is accepted keeps what
// docs/scenarios.md promises.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "scenarios/scenario.h"

namespace {

void require(bool condition, std::string_view promise) {
    if (condition) return;
    std::cerr << "broken promise: " << promise << '\n';
    std::abort();
}

void check_accepted(const sluice::Scenario& s) {
    const sluice::Policy& p = s.policy;
    require(s.sequence.value >= 1 && s.sequence.value <= (std::int64_t{1} << 30), "the sequence is within limits");
    require(p.sp >= 1 && p.pp >= 1 && p.dp >= 1 && p.n >= 1, "degrees are positive");
    const std::int64_t ranks = p.sp * p.pp * p.dp, gpus = s.cluster.gpus();
    const bool open = p.automatic.sp || p.automatic.pp || p.automatic.dp;
    require(open ? gpus % ranks == 0 : ranks == gpus, "all GPUs are used");
    require(s.batch % p.dp == 0, "every replica has whole sequences");
    require(s.model.heads % p.sp == 0 && s.model.kv_heads % p.sp == 0, "sp divides the heads");
    require(p.pp <= s.model.layers, "a stage has a layer");
    require(p.partition.alignment.value % p.sp == 0, "sp divides the alignment");
    require(s.sequence.value % p.partition.alignment.value == 0, "the alignment divides the sequence");
    require(p.n <= s.sequence.value / p.partition.alignment.value, "a subsequence has an aligned unit");
    require(s.cluster.gpu.usable().value > 0 && s.cluster.host.usable().value > 0, "there is memory");
    require(!s.calibration.gemm.empty() && !s.calibration.attention.empty(), "there are rates");
    if (p.partition.kind != sluice::PartitionKind::kList) return;
    sluice::Tokens sum{};
    for (const sluice::Tokens length : p.partition.lengths) sum += length;
    require(sum == s.sequence, "the lengths sum to the sequence");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        check_accepted(sluice::parse_scenario(text, "fuzz.yaml", SLUICE_SEED_FOLDER));
    } catch (const sluice::InputError& error) {
        const std::string_view message = error.what();
        require(!message.empty() && message.find('\n') == std::string_view::npos, "a message is one line");
    }
    return 0;
}
