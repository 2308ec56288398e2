#include "scenarios/read_machine_files.h"

#include <string>

#include "base/file.h"
#include "scenarios/read_calibration.h"
#include "scenarios/read_cluster.h"
#include "scenarios/yaml_tree.h"

namespace sluice {
namespace {

constexpr Bytes kLongestFile = 1_MiB;

template <class Read>
auto read_with(const std::filesystem::path& path, Read read) {
    const std::string origin = path.string(), text = read_file(path, kLongestFile);
    const YamlNode tree = parse_yaml(text, origin);
    return read(YamlField{&tree, "", origin, tree.place}, path.stem().string());
}

}  // namespace

Calibration read_calibration_file(const std::filesystem::path& path) { return read_with(path, read_calibration); }
Cluster read_cluster_file(const std::filesystem::path& path) { return read_with(path, read_cluster); }

}  // namespace sluice
