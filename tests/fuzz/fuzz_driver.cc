// Runs a fuzz target briefly and repeatably, without a fuzzing engine: every seed file, every truncation of the small
// seeds of the first folder, and ROUNDS seeded random mutations of all. Link the target with clang's -fsanitize=fuzzer
// instead for a long campaign.
//
//   schedule_text_fuzz ROUNDS SEED_FOLDER [SEED_FOLDER...]
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void feed(const std::string& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutate(std::string input, const std::vector<std::string>& seeds, std::mt19937& random) {
    const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
        const std::size_t at = below(input.size() + 1);
        switch (below(6)) {
            case 0:
                if (!input.empty()) input[below(input.size())] = static_cast<char>(random());
                break;
            case 1:
                input.insert(at, 1, static_cast<char>(random()));
                break;
            case 2:
                input.erase(at, below(16));
                break;
            case 3: {
                const std::string& other = seeds[below(seeds.size())];
                const std::size_t from = below(other.size() + 1);
                input.insert(at, other, from, below(64));
                break;
            }
            case 4:
                input.insert(at, "999999999999999999999");
                break;
            default:
                input.insert(at, input.substr(at, below(64)));
        }
    }
    return input;
}

// Sorted: the same order everywhere.
std::vector<std::string> read_seeds(const std::string& folder) {
    std::set<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
        if (entry.is_regular_file()) paths.insert(entry.path());
    std::vector<std::string> seeds;
    for (const auto& path : paths) {
        std::ifstream in(path, std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return seeds;
}

void feed_truncations(const std::string& seed) {
    constexpr std::size_t kSmall = 4096;
    if (seed.size() > kSmall) return;
    for (std::size_t length = 0; length < seed.size(); ++length) feed(seed.substr(0, length));
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 2 ? std::atoi(argv[1]) : 0;
    if (rounds <= 0) return std::cerr << "usage: " << argv[0] << " ROUNDS SEED_FOLDER [SEED_FOLDER...]\n", 2;
    std::vector<std::string> seeds{std::string{}};
    for (int i = 2; i < argc; ++i) {
        for (std::string& seed : read_seeds(argv[i])) {
            if (i == 2) feed_truncations(seed);
            seeds.push_back(std::move(seed));
        }
    }
    if (seeds.size() < 2) return std::cerr << argv[2] << ": no seeds\n", 2;
    for (const std::string& seed : seeds) feed(seed);
    std::mt19937 random(1);
    for (int i = 0; i < rounds; ++i) feed(mutate(seeds[random() % seeds.size()], seeds, random));
    std::cout << seeds.size() - 1 << " seeds, " << rounds << " mutations: no crash\n";
}
