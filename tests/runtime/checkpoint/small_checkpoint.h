// A checkpoint of a few tensors whose values follow from its step.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/write_checkpoint.h"

namespace sluice {

struct SmallTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::int64_t elements;
};

inline const std::vector<SmallTensor>& small_parameters() {
    static const std::vector<SmallTensor> parameters{
        {"model.embed_tokens.weight", {5, 2}, 10}, {"model.norm.weight", {2}, 2}, {"lm_head.weight", {5, 2}, 10}};
    return parameters;
}

inline float small_value(std::int64_t step, std::int64_t salt, std::int64_t element) {
    return static_cast<float>(step * 1000 + salt * 100 + element) / 7.0F;
}

inline TensorToWrite small_tensor(const SmallTensor& parameter, std::string name, std::int64_t step,
                                  std::int64_t salt) {
    return float_tensor(std::move(name), parameter.shape, [=](std::int64_t first, std::span<float> values) {
        for (float& value : values) value = small_value(step, salt, first++);
    });
}

// Two optimizer shards: one with the first parameter, one with the others.
inline CheckpointContent small_checkpoint(std::int64_t step) {
    CheckpointContent content;
    content.state = {step, step * 4, "text.txt, sequences of 16", "0123456789abcdef", "sp 1 pp 2 \"n\" 4\nline two"};
    content.config = "{\"model_type\": \"llama\"}\n";
    content.optimizer.resize(2);
    for (std::size_t i = 0; i < small_parameters().size(); ++i) {
        const SmallTensor& p = small_parameters()[i];
        const auto salt = static_cast<std::int64_t>(i) * 3;
        content.model.push_back(small_tensor(p, p.name, step, salt));
        auto& shard = content.optimizer[i == 0 ? 0 : 1];
        shard.push_back(small_tensor(p, first_moment_name(p.name), step, salt + 1));
        shard.push_back(small_tensor(p, second_moment_name(p.name), step, salt + 2));
    }
    return content;
}

inline std::vector<float> floats_of(const TensorView& tensor) {
    std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(bytes_per_element(tensor.type).value));
    read_floats(tensor, 0, values);
    return values;
}

// Every value of the checkpoint at `path` is the one that step wrote.
inline void expect_small_checkpoint(const std::filesystem::path& path, std::int64_t step) {
    const Checkpoint checkpoint(path);
    EXPECT_EQ(checkpoint.state(), small_checkpoint(step).state);
    ASSERT_EQ(checkpoint.model().size(), small_parameters().size());
    ASSERT_EQ(checkpoint.optimizer().size(), 2 * small_parameters().size());
    for (std::size_t i = 0; i < small_parameters().size(); ++i) {
        const SmallTensor& p = small_parameters()[i];
        const std::vector<const TensorView*> views{&checkpoint.model_tensor(p.name, p.shape),
                                                   &checkpoint.optimizer_tensor(first_moment_name(p.name), p.shape),
                                                   &checkpoint.optimizer_tensor(second_moment_name(p.name), p.shape)};
        for (std::size_t v = 0; v < views.size(); ++v) {
            std::vector<float> expected;
            for (std::int64_t e = 0; e < p.elements; ++e)
                expected.push_back(small_value(step, static_cast<std::int64_t>(i * 3 + v), e));
            EXPECT_EQ(floats_of(*views[v]), expected) << views[v]->name;
        }
    }
}

}  // namespace sluice
