#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "scenarios/quote.h"
#include "scenarios/read_architecture.h"
#include "scenarios/read_calibration.h"
#include "scenarios/read_cluster.h"
#include "scenarios/read_hf_config.h"
#include "scenarios/read_other_job.h"
#include "scenarios/read_policy.h"
#include "scenarios/read_run.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_files.h"
#include "scenarios/yaml_field.h"

namespace sluice {
namespace {

constexpr Bytes kLongestFile = 1_MiB;
constexpr Limits<Tokens> kSequenceLimits{Tokens{1}, Tokens{std::int64_t{1} << 30}, "1 token ... 1 Gi tokens"};
constexpr Limits<std::int64_t> kBatchLimits{1, 65536, "1 ... 65536 sequences"};

constexpr std::string_view kKeys[] = {"name",  "model",     "cluster",   "calibration", "sequence",
                                      "batch", "precision", "optimizer", "policy",      "other_job", "run"};
constexpr std::string_view kPrecisionKeys[] = {"weights", "gradients", "kv_gradients"};
constexpr Choice<DataType> kDataTypes[] = {{"bf16", DataType::kBf16}, {"fp32", DataType::kFp32}};
constexpr std::string_view kPlannedDataTypes[] = {"fp16", "fp8"};
constexpr Choice<bool> kOptimizers[] = {{"adamw", true}};
constexpr std::string_view kPlannedOptimizers[] = {"adam", "sgd", "lion", "adafactor", "muon"};

// What is read besides the scenario's own text: where named files are, and the fingerprint so far.
struct Reading {
    std::filesystem::path folder;
    std::uint64_t fingerprint = 0;

    // The separator keeps "ab" + "c" apart from "a" + "bc".
    void add(std::string_view text) {
        fingerprint = sluice::fingerprint(std::string_view("\0", 1), sluice::fingerprint(text, fingerprint));
    }
};

// Reads subfolder/NAME.yaml, whose name is in `field`, with `read(root, name)`.
template <class Read>
auto read_named(const YamlField& field, std::string_view subfolder, Reading& reading, Read read) {
    const std::filesystem::path path = find_named_file(field, subfolder, reading.folder);
    const std::string origin = path.string();
    const std::string text = read_file(path, kLongestFile);
    const YamlNode tree = parse_yaml(text, origin);
    auto result = read(YamlField{&tree, "", origin, tree.place}, path.stem().string());
    reading.add(text);
    return result;
}

// A name, or the thing itself as a mapping.
template <class Read>
auto read_named_or_inline(const YamlField& field, std::string_view subfolder, Reading& reading, Read read) {
    if (field.node->kind == YamlKind::kMapping) return read(field, "inline");
    if (field.node->kind == YamlKind::kSequence) fail(field, "got a list, expected a name or a mapping");
    return read_named(field, subfolder, reading, read);
}

Cluster read_cluster_use(const YamlField& field, Reading& reading) {
    const auto use = field.node->kind == YamlKind::kMapping ? find(field, "use") : std::nullopt;
    if (!use) return read_named_or_inline(field, "clusters", reading, read_cluster);
    Cluster cluster = read_named(*use, "clusters", reading, read_cluster);
    override_cluster(cluster, field);
    return cluster;
}

// Limits the tokens of a step, not only of a sequence: sums over a step stay within 63 bits.
std::int64_t read_batch(const YamlField& field, Tokens sequence) {
    const std::int64_t batch = read_sequences(field, kBatchLimits);
    const std::int64_t most = kSequenceLimits.most.value / sequence.value;
    if (batch > most)
        fail(field, fmt::format("got {} sequences of {} tokens, expected at most {}: 1 Gi tokens in a step", batch,
                                sequence.value, most));
    return batch;
}

Precision read_precision(const YamlField& field) {
    expect_keys(field, kPrecisionKeys);
    Precision precision;
    const auto read = [&](std::string_view key, DataType& target) {
        if (const auto type = find(field, key)) target = read_choice(*type, kDataTypes, kPlannedDataTypes);
    };
    read("weights", precision.weights);
    read("gradients", precision.gradients);
    read("kv_gradients", precision.kv_gradients);
    return precision;
}

// A name made of a file's stem, with "-" for what a name cannot hold.
std::string name_of(std::string_view stem, std::string_view otherwise) {
    std::string name(stem.substr(0, 64));
    for (char& c : name) {
        const bool good =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
        if (!good) c = '-';
    }
    const bool good = !name.empty() && name.front() != '-' && name.front() != '.' && name.front() != '_';
    return good ? name : std::string(otherwise);
}

// Downloaded configs are all called config.json; their folder then has the model's name.
std::string hf_model_name(const std::filesystem::path& path) {
    const std::string stem = path.stem().string();
    return name_of(stem == "config" ? path.parent_path().filename().string() : stem, "config");
}

// A name, a shape as a mapping, or the path of a Hugging Face config.
Architecture read_model(const YamlField& field, Reading& reading) {
    const bool hf = field.node->kind == YamlKind::kScalar && field.node->text.ends_with(kHfConfigExtension);
    if (!hf) return read_named_or_inline(field, "architectures", reading, read_architecture);
    const std::filesystem::path path = find_hf_config(field, reading.folder);
    const std::string text = read_file(path, kLongestFile);
    Architecture model = parse_hf_config(text, path.string(), hf_model_name(path));
    reading.add(text);
    return model;
}

Scenario read_root(const YamlField& root, Reading& reading) {
    expect_keys(root, kKeys);
    Scenario scenario;
    const auto name = find(root, "name");
    scenario.name = name ? read_name(*name) : name_of(std::filesystem::path(root.origin).stem().string(), "scenario");
    scenario.model = read_model(get(root, "model"), reading);
    scenario.cluster = read_cluster_use(get(root, "cluster"), reading);
    if (const auto run = find(root, "run")) scenario.run = read_run(*run);
    if (const auto other = find(root, "other_job")) scenario.other_job = take_other_job(*other, scenario.cluster);
    const Calibration rates =
        read_named_or_inline(get(root, "calibration"), "calibrations", reading, read_calibration);
    scenario.calibration = calibration_of_model(rates, scenario.model);
    scenario.sequence = read_tokens(get(root, "sequence"), kSequenceLimits);
    if (const auto batch = find(root, "batch")) scenario.batch = read_batch(*batch, scenario.sequence);
    if (const auto precision = find(root, "precision")) scenario.precision = read_precision(*precision);
    if (const auto optimizer = find(root, "optimizer")) read_choice(*optimizer, kOptimizers, kPlannedOptimizers);
    scenario.policy = read_policy(get(root, "policy"), scenario);
    scenario.fingerprint = fingerprint_hex(reading.fingerprint);
    return scenario;
}

}  // namespace

Scenario parse_scenario(std::string_view text, std::string_view origin, const std::filesystem::path& folder) {
    const YamlNode tree = parse_yaml(text, origin);
    Reading reading{folder, sluice::fingerprint("")};
    reading.add(text);
    return read_root(YamlField{&tree, "", origin, tree.place}, reading);
}

Scenario read_scenario(const std::filesystem::path& path) {
    return parse_scenario(read_file(path, kLongestFile), path.string(), path.parent_path());
}

}  // namespace sluice
