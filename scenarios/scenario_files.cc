#include "scenarios/scenario_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// Stems of the files in a folder with that extension; none when it is not there.
void add_names(const std::filesystem::path& folder, std::string_view extension, std::set<std::string>& names) {
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (entry->path().extension() == extension && entry->is_regular_file(error))
            names.insert(entry->path().stem().string());
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
        add_names(candidate, ".yaml", names);
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string nearest = nearest_name(name, known);
    const std::string expected = nearest.empty()
                                     ? fmt::format("one of: {}", fmt::join(known, ", "))
                                     : fmt::format("a name in {}/; did you mean \"{}\"?", subfolder, nearest);
    fail(field, fmt::format("got {}, but there is no {}/{}.yaml, expected {}", quote(name), subfolder, name, expected));
}

std::filesystem::path find_hf_config(const YamlField& field, const std::filesystem::path& folder) {
    const std::string_view text = read_text(field);
    const bool printable = std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; });
    const std::filesystem::path folders[] = {folder, folder / "architectures",
                                             std::filesystem::path(SLUICE_SCENARIO_DIR) / "architectures"};
    std::set<std::string> names;
    for (const std::filesystem::path& candidate : folders) {
        if (!printable) break;
        std::filesystem::path path = candidate / text;  // an absolute path stays itself
        std::error_code error;
        if (std::filesystem::is_regular_file(path, error)) return path;
        add_names(candidate, ".json", names);
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string nearest = nearest_name(text.substr(0, text.size() - kHfConfigExtension.size()), known);
    fail(field,
         fmt::format("got {}, but there is no such file from the scenario's folder or in architectures/, expected "
                     "the path of a Hugging Face config.json{}",
                     quote(text), nearest.empty() ? "" : fmt::format("; did you mean \"{}.json\"?", nearest)));
}

}  // namespace sluice
