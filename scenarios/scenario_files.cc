#include "scenarios/scenario_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "scenarios/quote.h"

#ifndef SLUICE_SCENARIO_DIR
#error "SLUICE_SCENARIO_DIR: the scenarios folder to fall back to; scenarios/CMakeLists.txt sets it"
#endif

namespace sluice {
namespace {

// Stems of the .yaml files in a folder; none when it is not there.
void add_names(const std::filesystem::path& folder, std::set<std::string>& names) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (entry->path().extension() == ".yaml") names.insert(entry->path().stem().string());
}

}  // namespace

std::filesystem::path find_named_file(const YamlField& field, std::string_view subfolder,
                                      const std::filesystem::path& folder) {
    const std::string name = read_name(field);
    const std::filesystem::path folders[] = {folder / subfolder,
                                             std::filesystem::path(SLUICE_SCENARIO_DIR) / subfolder};
    std::set<std::string> names;
    for (const std::filesystem::path& candidate : folders) {
        std::filesystem::path path = candidate / (name + ".yaml");
        std::error_code error;
        if (std::filesystem::exists(path, error)) return path;
        add_names(candidate, names);
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string nearest = nearest_name(name, known);
    const std::string expected = nearest.empty()
                                     ? fmt::format("one of: {}", fmt::join(known, ", "))
                                     : fmt::format("a name in {}/; did you mean \"{}\"?", subfolder, nearest);
    fail(field, fmt::format("got {}, but there is no {}/{}.yaml, expected {}", quote(name), subfolder, name, expected));
}

}  // namespace sluice
