#include "runtime/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/nearest_name.h"
#include "runtime/checkpoint/checkpoint_folder.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

bool by_name(const TensorView& a, const TensorView& b) { return a.name < b.name; }

void sort_by_name(std::vector<TensorView>& tensors, const std::filesystem::path& path) {
    std::sort(tensors.begin(), tensors.end(), by_name);
    const auto twice = std::adjacent_find(tensors.begin(), tensors.end(),
                                          [](const TensorView& a, const TensorView& b) { return a.name == b.name; });
    if (twice != tensors.end())
        throw InputError(fmt::format("{}: tensor {} is in two files", path.string(), quote(twice->name)));
}

}  // namespace

Checkpoint::Checkpoint(const std::filesystem::path& checkpoint) : path_(checkpoint) {
    if (const auto damage = checkpoint_damage(path_, CheckpointCheck::kSizes)) throw InputError(*damage);
    manifest_ = read_manifest(path_);
    for (const FileRecord& record : manifest_.files) {
        if (!record.name.ends_with(".safetensors")) continue;
        const auto& tensors = files_.emplace_back(path_ / record.name).tensors();
        std::vector<TensorView>& kind = record.name.starts_with("optimizer") ? optimizer_ : model_;
        std::copy(tensors.begin(), tensors.end(), std::back_inserter(kind));
    }
    sort_by_name(model_, path_);
    sort_by_name(optimizer_, path_);
}

const TensorView& Checkpoint::model_tensor(std::string_view name, std::span<const std::int64_t> shape) const {
    return find(model_, name, shape);
}

const TensorView& Checkpoint::optimizer_tensor(std::string_view name, std::span<const std::int64_t> shape) const {
    return find(optimizer_, name, shape);
}

const TensorView& Checkpoint::find(const std::vector<TensorView>& tensors, std::string_view name,
                                   std::span<const std::int64_t> shape) const {
    const auto found =
        std::lower_bound(tensors.begin(), tensors.end(), name,
                         [](const TensorView& tensor, std::string_view key) { return tensor.name < key; });
    if (found == tensors.end() || found->name != name) {
        std::vector<std::string_view> names;
        for (const TensorView& tensor : tensors) names.push_back(tensor.name);
        const std::string near = nearest_name(name, names);
        throw InputError(fmt::format("{}: has no tensor {}{}", path_.string(), quote(name),
                                     near.empty() ? "" : fmt::format("; the nearest is {}", quote(near))));
    }
    if (!std::equal(shape.begin(), shape.end(), found->shape.begin(), found->shape.end()))
        throw InputError(fmt::format("{}: tensor {}: shape {}, expected {}", path_.string(), quote(name),
                                     shape_text(found->shape), shape_text(shape)));
    return *found;
}

}  // namespace sluice
