#include "runtime/data/token_source.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/data/open_tokens.h"
#include "tests/runtime/data/token_files.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

constexpr std::int64_t kAnyVocabulary = std::int64_t{1} << 31;

std::vector<std::int32_t> read_all(const TokenSource& source) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(source.tokens().value));
    source.read(0, ids);
    return ids;
}

// What the message of an InputError says; fails the test where there is none.
template <class Call>
std::string refusal(const Call& call) {
    try {
        call();
    } catch (const InputError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        return message;
    }
    ADD_FAILURE() << "expected an InputError";
    return {};
}

struct TokenSourceTest : testing::Test {
    TemporaryFolder folder;
    std::string name(const std::string& file) const { return folder / file; }
    std::string write(const std::string& file, const std::string& bytes) const {
        return write_bytes(name(file), bytes).string();
    }
    std::string open_refusal(const std::string& path, std::int64_t vocabulary = kAnyVocabulary) const {
        const std::string message = refusal([&] { open_tokens(path, vocabulary); });
        EXPECT_EQ(message.find(folder.path().string()), 0U) << message;
        return message.substr(std::min(message.size(), folder.path().string().size() + 1));
    }
};

TEST_F(TokenSourceTest, TextIsOneTokenPerByte) {
    const TokenSource source = open_tokens(write("text", std::string("A\0\xff\n", 4)), 256);
    EXPECT_EQ(source.tokens(), Tokens{4});
    EXPECT_EQ(source.vocabulary(), 256);
    EXPECT_EQ(source.name(), name("text"));
    EXPECT_EQ(read_all(source), (std::vector<std::int32_t>{65, 0, 255, 10}));
}

TEST_F(TokenSourceTest, LlmcFilesOfBothKinds) {
    const std::string gpt2 = llmc_header(20240520, 1, 3) + stored_tokens<std::uint16_t>({0, 50256, 65535});
    EXPECT_EQ(read_all(open_tokens(write("a.bin", gpt2), kAnyVocabulary)),
              (std::vector<std::int32_t>{0, 50256, 65535}));
    const std::string llama = llmc_header(20240801, 7, 2) + stored_tokens<std::uint32_t>({128000, 7});
    EXPECT_EQ(read_all(open_tokens(write("b.bin", llama), 128256)), (std::vector<std::int32_t>{128000, 7}));
}

template <class Stored>
std::string megatron_pair(const TokenSourceTest& test, std::uint8_t dtype) {
    constexpr auto width = static_cast<std::int64_t>(sizeof(Stored));
    test.write("m.bin", stored_tokens<Stored>({1, 2, 3, 100, 127}));
    test.write("m.idx", MegatronIndex{1, dtype, {2, 0, 3}, {0, 2 * width, 2 * width}, {0, 2, 3}}.bytes());
    return test.name("m.bin");
}

TEST_F(TokenSourceTest, MegatronFilesOfEveryIntegerType) {
    const std::vector<std::int32_t> expected{1, 2, 3, 100, 127};
    EXPECT_EQ(read_all(open_tokens(megatron_pair<std::uint8_t>(*this, 1), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(megatron_pair<std::int8_t>(*this, 2), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(megatron_pair<std::int16_t>(*this, 3), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(megatron_pair<std::int32_t>(*this, 4), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(megatron_pair<std::int64_t>(*this, 5), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(megatron_pair<std::uint16_t>(*this, 8), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(name("m.idx"), 128)), expected);
    EXPECT_EQ(read_all(open_tokens(name("m"), 128)), expected);
}

TEST_F(TokenSourceTest, ReadsAnyPartOfALongFile) {
    std::string text(100000, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 % 251);
    const TokenSource source = open_tokens(write("long", text), 256);
    for (const std::int64_t position : {0, 1, 4095, 4096, 50001}) {
        std::vector<std::int32_t> ids(20000);
        source.read(position, ids);
        for (std::size_t i = 0; i < ids.size(); ++i)
            ASSERT_EQ(ids[i], static_cast<std::int32_t>((static_cast<std::size_t>(position) + i) * 31 % 251));
    }
    std::vector<std::int32_t> two(2);
    EXPECT_THROW(source.read(99999, two), InternalError);
    EXPECT_THROW(source.read(-1, two), InternalError);
}

TEST_F(TokenSourceTest, IdsOutsideTheVocabularyAreNamed) {
    const std::string file = llmc_header(20240520, 1, 3) + stored_tokens<std::uint16_t>({5, 1000, 1001});
    const TokenSource source = open_tokens(write("a.bin", file), 1000);
    std::vector<std::int32_t> ids(2);
    EXPECT_EQ(refusal([&] { source.read(1, ids); }),
              name("a.bin") + ": token 1: id 1000, expected 0 to 999 (a vocabulary of 1000)");
    write("n.bin", stored_tokens<std::int32_t>({4, -1}));
    write("n.idx", MegatronIndex{1, 4, {2}, {0}, {0, 1}}.bytes());
    const TokenSource negative = open_tokens(name("n.idx"), 1000);
    EXPECT_EQ(refusal([&] { negative.read(0, ids); }),
              name("n.bin") + ": token 1: id -1, expected 0 to 999 (a vocabulary of 1000)");
}

TEST_F(TokenSourceTest, AFileCutAfterOpeningIsAMessage) {
    const TokenSource source = open_tokens(write("text", std::string(5000, 'x')), 256);
    std::filesystem::resize_file(name("text"), 4500);
    std::vector<std::int32_t> ids(5000);
    EXPECT_EQ(refusal([&] { source.read(0, ids); }), name("text") + ": ends at byte 4500, expected 500 bytes more");
}

TEST_F(TokenSourceTest, RefusesWhatCannotBeOpened) {
    EXPECT_EQ(open_refusal(name("none")), "none: cannot open: No such file or directory");
    EXPECT_EQ(open_refusal(name("none.idx")), "none.idx: cannot open: No such file or directory");
    std::filesystem::create_directory(name("folder"));
    EXPECT_EQ(open_refusal(name("folder")), "folder: is a directory, expected a file");
    EXPECT_EQ(open_refusal(write("text", "abc"), 255),
              "text: text is one token per byte and needs a vocabulary of 256 or more, got 255");
    EXPECT_EQ(open_refusal(write("x.bin", "abcdefgh")),
              "x.bin: neither begins with a magic number of llm.c nor has x.idx of Megatron-LM beside it");
    EXPECT_EQ(open_refusal(write("index", MegatronIndex{}.bytes())),
              "index: is a Megatron index, expected it to be called NAME.idx");
    write("alone.idx", MegatronIndex{}.bytes());
    EXPECT_EQ(open_refusal(name("alone.idx")), "alone.bin: cannot open: No such file or directory");
}

TEST_F(TokenSourceTest, RefusesWrongLlmcFiles) {
    const std::string tokens = stored_tokens<std::uint16_t>({1, 2, 3});
    EXPECT_EQ(open_refusal(write("a.bin", llmc_header(20240520, 2, 3) + tokens)),
              "a.bin: version 2 of an llm.c token file (GPT-2), expected 1");
    EXPECT_EQ(open_refusal(write("a.bin", llmc_header(20240801, 1, 3) + tokens)),
              "a.bin: version 1 of an llm.c token file (Llama 3), expected 7");
    EXPECT_EQ(open_refusal(write("a.bin", llmc_header(20240520, 1, 4) + tokens)),
              "a.bin: 1030 bytes, expected 1032 for the 4 tokens that its header announces; the file is truncated");
    EXPECT_EQ(open_refusal(write("a.bin", llmc_header(20240520, 1, 2) + tokens)),
              "a.bin: 1030 bytes, expected 1028 for the 2 tokens that its header announces");
    EXPECT_EQ(open_refusal(write("a.bin", llmc_header(20240520, 1, -1))),
              "a.bin: -1 tokens in the header, expected 0 or more");
    EXPECT_EQ(open_refusal(write("a.bin", llmc_header(20240520, 1, 0).substr(0, 1023))),
              "a.bin: 1023 bytes, expected at least the 1024 of the header of an llm.c token file");
}

TEST_F(TokenSourceTest, RefusesWrongMegatronIndices) {
    write("m.bin", stored_tokens<std::uint16_t>({1, 2, 3, 4}));
    const MegatronIndex good{1, 8, {1, 3}, {0, 2}, {0, 1, 2}};
    const auto refused = [&](const MegatronIndex& index) { return open_refusal(write("m.idx", index.bytes())); };
    MegatronIndex bad = good;
    bad.version = 2;
    EXPECT_EQ(refused(bad), "m.idx: version 2 of a Megatron index, expected 1");
    bad = good, bad.dtype = 7;
    EXPECT_EQ(refused(bad), "m.idx: dtype 7 (float32), expected one of integers");
    bad = good, bad.dtype = 9;
    EXPECT_EQ(refused(bad), "m.idx: dtype 9, expected 1 to 5 or 8");
    bad = good, bad.lengths[0] = -1;
    EXPECT_EQ(refused(bad), "m.idx: sequence 0: length -1, expected 0 or more");
    bad = good, bad.pointers[1] = 4;
    EXPECT_EQ(refused(bad), "m.idx: sequence 1: begins at byte 4, expected 2, where the one before it ends");
    bad = good, bad.documents[1] = 3;
    EXPECT_EQ(refused(bad), "m.idx: document entry 1: sequence 3, expected 0 to 2");
    bad = good, bad.documents[2] = 0;
    EXPECT_EQ(refused(bad), "m.idx: document entry 2: sequence 0, expected 1 to 2");
    bad = good, bad.lengths[1] = 4;
    EXPECT_EQ(refused(bad), "m.bin: 8 bytes, expected 10 for the 5 tokens of its index; the file is truncated");
    bad = good, bad.lengths[1] = 2;
    EXPECT_EQ(refused(bad), "m.bin: 8 bytes, expected 6 for the 3 tokens of its index");
}

TEST_F(TokenSourceTest, RefusesEveryCutOfAMegatronIndex) {
    write("m.bin", stored_tokens<std::uint16_t>({1, 2, 3, 4}));
    const std::string index = MegatronIndex{1, 8, {1, 3}, {0, 2}, {0, 1, 2}}.bytes();
    EXPECT_EQ(open_tokens(write("m.idx", index).c_str(), 10).tokens(), Tokens{4});
    for (std::size_t length = 0; length < index.size(); ++length)
        EXPECT_EQ(open_refusal(write("m.idx", index.substr(0, length))).find("m.idx: "), 0U) << length;
    EXPECT_EQ(open_refusal(write("m.idx", index + "xx")),
              "m.idx: sequences have modes (multimodal data), which are not supported");
    // Counts whose sizes overflow 64 bits.
    std::string huge = index;
    huge.replace(18, 8, std::string(8, '\xff'));
    EXPECT_EQ(open_refusal(write("m.idx", huge)).find("m.idx: 18446744073709551615 sequences"), 0U);
}

}  // namespace
}  // namespace sluice
