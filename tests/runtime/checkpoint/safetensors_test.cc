#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "runtime/checkpoint/safetensors_file.h"
#include "runtime/checkpoint/write_safetensors.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

std::vector<float> floats_of(const TensorView& tensor) {
    std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(bytes_per_element(tensor.type).value));
    read_floats(tensor, 0, values);
    return values;
}

std::string file_of(const std::string& header, const std::string& data = "") {
    const auto length = static_cast<std::uint64_t>(header.size());
    std::string file(sizeof length, '\0');
    std::memcpy(file.data(), &length, sizeof length);
    return file + header + data;
}

std::string refusal_of(const std::string& file) {
    try {
        parse_safetensors(std::as_bytes(std::span(file)), "f");
    } catch (const InputError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        return message;
    }
    return "accepted";
}

TEST(Safetensors, WhatIsWrittenIsRead) {
    const TemporaryFolder folder;
    const std::vector<float> values{1.5F, -0.0F, std::numeric_limits<float>::infinity(), 1e-42F, 5, 6};
    const std::vector<TensorToWrite> tensors{
        bfloat16_tensor("half", {3}, [](std::int64_t, std::span<float> v) { v[0] = 1, v[1] = 2, v[2] = 3; }),
        float_tensor("z", {2, 3}, values),
        float_tensor("scalar \"\xc3\xa9\"", {}, [](std::int64_t, std::span<float> v) { v[0] = 7; }),
        float_tensor("empty", {0, 4}, std::span<const float>{})};
    const FileRecord record = write_safetensors(folder / "t", tensors, {{"format", "pt"}});
    EXPECT_EQ(record, record_of(folder / "t"));
    EXPECT_EQ(folder.names(), std::vector<std::string>{"t"});
    const SafetensorsFile file(folder / "t");
    ASSERT_EQ(file.tensors().size(), 4U);
    EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
    EXPECT_EQ(file.tensors()[0].name, "empty");
    EXPECT_EQ(file.tensors()[0].shape, (std::vector<std::int64_t>{0, 4}));
    EXPECT_EQ(file.tensors()[1].type, TensorType::kBf16);
    EXPECT_EQ(floats_of(file.tensors()[1]), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(file.tensors()[2].name, "scalar \"\xc3\xa9\"");
    EXPECT_EQ(floats_of(file.tensors()[2]), std::vector<float>{7});
    EXPECT_EQ(file.tensors()[3].shape, (std::vector<std::int64_t>{2, 3}));
    ASSERT_EQ(file.tensors()[3].bytes.size(), 24U);
    EXPECT_EQ(std::memcmp(file.tensors()[3].bytes.data(), values.data(), 24), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.tensors()[3].bytes.data()) % 4, 0U);
}

// More than one piece of 4 MiB, and a length that is no multiple of it.
TEST(Safetensors, LargeTensorsGoInPieces) {
    const TemporaryFolder folder;
    std::vector<std::int64_t> firsts;
    const std::vector<TensorToWrite> tensors{
        float_tensor("large", {3, 700001}, [&](std::int64_t first, std::span<float> values) {
            firsts.push_back(first);
            for (float& value : values) value = static_cast<float>(first++);
        })};
    write_safetensors(folder / "t", tensors, {});
    EXPECT_EQ(firsts, (std::vector<std::int64_t>{0, 1048576, 2097152}));
    const SafetensorsFile file(folder / "t");
    std::vector<float> part(5);
    read_floats(file.tensors()[0], 1048574, part);
    EXPECT_EQ(part, (std::vector<float>{1048574, 1048575, 1048576, 1048577, 1048578}));
    read_floats(file.tensors()[0], 2100003 - 5, part);
    EXPECT_EQ(part.back(), 2100002.0F);
    EXPECT_THROW(read_floats(file.tensors()[0], 2100003 - 4, part), InternalError);
}

TEST(Safetensors, RoundsToBfloat16) {
    const TemporaryFolder folder;
    // 1 + 2^-8 is half way between 1 and 1 + 2^-7: to even; 1 + 3 * 2^-8 likewise, up.
    const std::vector<float> values{
        1 + 0x1p-8F, 1 + 0x3p-8F, 1 + 0x1.01p-8F, -3.389e38F, std::numeric_limits<float>::infinity(), std::nanf("")};
    const std::vector<TensorToWrite> tensors{bfloat16_tensor(
        "t", {6}, [&](std::int64_t, std::span<float> v) { std::copy(values.begin(), values.end(), v.begin()); })};
    write_safetensors(folder / "t", tensors, {});
    const std::vector<float> got = floats_of(SafetensorsFile(folder / "t").tensors()[0]);
    EXPECT_EQ(got[0], 1.0F);
    EXPECT_EQ(got[1], 1 + 0x1p-6F);
    EXPECT_EQ(got[2], 1 + 0x1p-7F);
    EXPECT_EQ(got[3], -0x1.fep127F);
    EXPECT_EQ(got[4], std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(got[5]));
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
    const TemporaryFolder folder;
    const std::vector<float> values{1};
    const std::vector<TensorToWrite> old{float_tensor("a", {1}, values)};
    const std::vector<TensorToWrite> failing{
        float_tensor("a", {1}, [](std::int64_t, std::span<float>) { throw EnvironmentError("the device is gone"); })};
    const FileRecord record = write_safetensors(folder / "t", old, {});
    EXPECT_THROW(write_safetensors(folder / "t", failing, {}), EnvironmentError);
    EXPECT_EQ(record_of(folder / "t"), record);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"t"});
    const std::vector<TensorToWrite> twice{old[0], old[0]};
    EXPECT_THROW(write_safetensors(folder / "t", twice, {}), InternalError);
}

TEST(Safetensors, TakesFilesOfOthers) {
    // Unaligned data, names in any order, padding, a type that we cannot compute with.
    const std::string header =
        R"({"b":{"dtype":"F16","shape":[1],"data_offsets":[1,3]},"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}}   )";
    const std::string file = file_of(header, "abc");
    const SafetensorsContent content = parse_safetensors(std::as_bytes(std::span(file)), "f");
    ASSERT_EQ(content.tensors.size(), 2U);
    EXPECT_EQ(content.tensors[0].name, "a");
    EXPECT_EQ(content.tensors[1].bytes[0], std::byte{'b'});
    std::vector<float> value(1);
    try {
        read_floats(content.tensors[1], 0, value);
        ADD_FAILURE();
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(), "tensor \"b\": type F16, expected F32 or BF16");
    }
    EXPECT_EQ(refusal_of(file_of("{}")), "accepted");
}

TEST(Safetensors, RefusesByName) {
    const auto tensor = [](const std::string& fields, const std::string& data = "") {
        return refusal_of(file_of(R"({"a":{)" + fields + "}}", data));
    };
    struct Case {
        std::string got, expected;
    };
    const std::vector<Case> cases{
        {refusal_of(""), "f: 0 bytes, expected at least the 8 of a safetensors file"},
        {refusal_of(std::string(8, '\xff')),
         "f: a header of 18446744073709551615 bytes, expected at most 100000000 in a safetensors file"},
        {refusal_of(file_of("{}").substr(0, 9)), "f: a header of 2 bytes in a file of 9; the file is truncated"},
        {refusal_of(file_of("")), "f: its header does not begin with {, expected a safetensors file"},
        {refusal_of(file_of(" {}")), "f: its header does not begin with {, expected a safetensors file"},
        {refusal_of(file_of("{")), "f: its header is not valid JSON at byte 1"},
        {refusal_of(file_of("{}x")), "f: its header is not valid JSON at byte 2"},
        {refusal_of(file_of(std::string("{}\0", 3))), "f: its header is not valid JSON at byte 2"},
        {refusal_of(file_of(R"({"a":1})")), "f: tensor \"a\": a number, expected an object"},
        {refusal_of(file_of(R"({"a":[1]})")), "f: tensor \"a\": a list, expected an object"},
        {refusal_of(file_of(R"({"__metadata__":{"k":1}})")), "f: metadata \"k\": a number, expected a string"},
        {refusal_of(file_of(R"({"__metadata__":{"k":{}}})")), "f: metadata \"k\": an object, expected a string"},
        {refusal_of(file_of(R"({"__metadata__":{"k":"","k":""}})")), "f: metadata \"k\" is given twice"},
        {tensor(R"("dtype":"F32","shape":[1])"), "f: tensor \"a\": expected dtype, shape and data_offsets"},
        {tensor(R"("dtype":"F32","dtype":"F32")"), "f: tensor \"a\": dtype is given twice"},
        {tensor(R"("type":"F32")"), "f: tensor \"a\": key \"type\", expected dtype, shape or data_offsets"},
        {tensor(R"("dtype":"F31")"), "f: tensor \"a\": dtype \"F31\", which is not known"},
        {tensor(R"("dtype":1)"), "f: tensor \"a\": dtype is a number, expected a string"},
        {tensor(R"("shape":"1")"), "f: tensor \"a\": shape is a string, expected a list of numbers"},
        {tensor(R"("shape":[[1]])"), "f: tensor \"a\": a list in shape, expected numbers"},
        {tensor(R"("shape":[-1])"), "f: tensor \"a\": shape has a number that is not an integer from 0 to 2^63 - 1"},
        {tensor(R"("shape":[1.0])"), "f: tensor \"a\": shape has a number that is not an integer from 0 to 2^63 - 1"},
        {tensor(R"("shape":[9223372036854775808])"),
         "f: tensor \"a\": shape has a number that is not an integer from 0 to 2^63 - 1"},
        {tensor(R"("data_offsets":[1])"), "f: tensor \"a\": data_offsets has 1 numbers, expected 2"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", "abc"),
         "f: tensor \"a\": ends at byte 4, expected 0 to 3; the file is truncated"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", "abcde"), "f: tensors end at byte 4, expected 5"},
        {tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "abcd"),
         "f: tensor \"a\": 4 bytes, expected 8 for type F32 and shape [2]"},
        {tensor(R"("dtype":"F32","shape":[1],"data_offsets":[1,5])", "abcde"),
         "f: tensor \"a\": begins at byte 1, expected 0, where the one before it ends"},
        {tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"),
         "f: tensor \"a\": shape [4611686018427387904, 4] is too large"},
        {refusal_of(file_of(
             R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
             "abc")),
         "f: tensor \"b\": begins at byte 1, expected 2, where the one before it ends"},
        {refusal_of(file_of(
             R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
             "ab")),
         "f: tensor \"a\" is given twice"},
    };
    for (const Case& c : cases) EXPECT_EQ(c.got, c.expected);
    EXPECT_NE(refusal_of(file_of(std::string(100000, '[').replace(0, 5, R"({"a":)"))), "accepted");
    EXPECT_NE(refusal_of(file_of("{\"\xff\":{}}")), "accepted");
}

}  // namespace
}  // namespace sluice
