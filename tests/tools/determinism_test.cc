// Same inputs, same bytes: run after run, wherever the system puts the program in memory, in every locale.
#include <gtest/gtest.h>

#include <clocale>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

struct Results {
    std::string summary, trace, schedule, picture, text;
    friend bool operator==(const Results&, const Results&) = default;
};

Results all_results(const RunOptions& options) {
    const TemporaryFolder folder;
    const std::string trace = folder / "step.trace", schedule = folder / "step.schedule";
    nlohmann::ordered_json summary =
        nlohmann::ordered_json::parse(run_sluice("simulate scenarios/tiny.yaml --json --trace " + trace, options).out);
    summary.erase("wall_seconds");
    EXPECT_EQ(run_sluice("lower scenarios/tiny.yaml -o " + schedule, options).code, 0);
    Results results{summary.dump(), read_file(trace, 64_MiB), read_file(schedule, 64_MiB),
                    run_sluice("export " + trace, options).out, run_sluice("show " + trace, options).out};
    for (const std::string* result : {&results.trace, &results.schedule, &results.picture, &results.text})
        EXPECT_FALSE(result->empty());
    return results;
}

// Locales of this machine that write 1,5; the name of a common one where there is none, which then changes nothing.
std::vector<std::string> comma_locales() {
    std::vector<std::string> found;
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "ru_RU.UTF-8"}) {
        if (std::setlocale(LC_ALL, name) == nullptr) continue;
        if (std::string(std::localeconv()->decimal_point) == ",") found.emplace_back(name);
    }
    std::setlocale(LC_ALL, "C");
    if (found.empty()) found.emplace_back("de_DE.UTF-8");
    return found;
}

TEST(Determinism, TwoRunsTwoLocalesTwoAddressSpaces) {
    const Results first = all_results({});
    EXPECT_TRUE(all_results({}) == first) << "a second run differs";
    EXPECT_TRUE(all_results({.fixed_addresses = true}) == first) << "differs without address randomisation";
    const std::string padding = "SLUICE_TEST_PADDING=" + std::string(50000, 'x');  // moves the stack
    EXPECT_TRUE(all_results({.environment = {padding}}) == first) << "differs with a large environment";
    for (const std::string& locale : comma_locales())
        EXPECT_TRUE(all_results({.environment = {"LC_ALL=" + locale, "LANG=" + locale}}) == first)
            << "differs in " << locale;
}

}  // namespace
}  // namespace sluice
