#include "runtime/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "runtime/checkpoint/checkpoint_folder.h"
#include "tests/runtime/checkpoint/small_checkpoint.h"
#include "tests/support/golden_file.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) { return read_file(path, 1_MiB); }

void overwrite(const fs::path& path, const std::string& content) {
    write_file(path, [&](std::ostream& out) { out << content; });
}

std::vector<std::string> files_of(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

struct CheckpointTest : testing::Test {
    TemporaryFolder folder;
    fs::path write(std::int64_t step, std::int64_t keep = 0) const {
        return write_checkpoint(folder.path(), small_checkpoint(step), {.keep = keep});
    }
    // The message about step 20 after it was damaged, with step 10 taken in its place.
    std::string refusal() const {
        const LatestCheckpoint latest = latest_checkpoint(folder.path());
        EXPECT_EQ(latest.path, folder.path() / "step-00000010");
        EXPECT_EQ(latest.manifest.state.step, 10);
        if (latest.refused.size() != 1) return "not refused";
        const std::string prefix = (folder.path() / "step-00000020").string();
        EXPECT_EQ(latest.refused[0].find(prefix), 0U) << latest.refused[0];
        return latest.refused[0].substr(std::min(prefix.size() + 1, latest.refused[0].size()));
    }
};

TEST_F(CheckpointTest, WhatIsWrittenIsRead) {
    const fs::path path = write(10);
    EXPECT_EQ(path, folder.path() / "step-00000010");
    EXPECT_EQ(files_of(path), (std::vector<std::string>{"config.json", "manifest.json", "model.safetensors",
                                                        "optimizer-00001-of-00002.safetensors",
                                                        "optimizer-00002-of-00002.safetensors"}));
    expect_small_checkpoint(path, 10);
    EXPECT_EQ(content_of(path / "config.json"), "{\"model_type\": \"llama\"}\n");
    const LatestCheckpoint latest = latest_checkpoint(folder.path());
    EXPECT_EQ(latest.path, path);
    EXPECT_EQ(latest.manifest.state, small_checkpoint(10).state);
    EXPECT_TRUE(latest.refused.empty());
}

TEST_F(CheckpointTest, IsReadUnderAnyName) {
    const fs::path best = folder.path() / "best";
    fs::rename(write(10), best);
    expect_small_checkpoint(best, 10);
    expect_small_checkpoint(best / "", 10);
    EXPECT_FALSE(checkpoint_damage(best, CheckpointCheck::kChecksums));
    EXPECT_FALSE(latest_checkpoint(folder.path()).path);
}

TEST_F(CheckpointTest, LargeModelsAreSplitOverFiles) {
    const CheckpointContent content = small_checkpoint(3);
    const fs::path path = write_checkpoint(folder.path(), content, {.keep = 0, .largest_model_file = 48_B});
    EXPECT_EQ(content_of(path / "model.safetensors.index.json"), R"({
  "metadata": {
    "total_size": 88
  },
  "weight_map": {
    "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
    "model.norm.weight": "model-00001-of-00002.safetensors",
    "lm_head.weight": "model-00002-of-00002.safetensors"
  }
}
)");
    EXPECT_FALSE(fs::exists(path / "model.safetensors"));
    expect_small_checkpoint(path, 3);
    EXPECT_EQ(latest_checkpoint(folder.path()).path, path);
}

TEST_F(CheckpointTest, NothingThereIsNoCheckpoint) {
    EXPECT_FALSE(latest_checkpoint(folder.path()).path);
    EXPECT_FALSE(latest_checkpoint(folder.path() / "none").path);
    fs::create_directory(folder.path() / "step-00000010.tmp");
    fs::create_directory(folder.path() / "step-10");
    fs::create_directory(folder.path() / "step-0000001x");
    const LatestCheckpoint latest = latest_checkpoint(folder.path());
    EXPECT_FALSE(latest.path);
    EXPECT_TRUE(latest.refused.empty());
}

TEST_F(CheckpointTest, NamesTensorsThatAreNotThere) {
    const Checkpoint checkpoint(write(10));
    const std::vector<std::int64_t> shape{5, 2}, other{2, 5};
    const auto message = [&](std::string_view name, const std::vector<std::int64_t>& s) -> std::string {
        try {
            checkpoint.model_tensor(name, s);
        } catch (const InputError& error) {
            return std::string(error.what()).substr(folder.path().string().size() + 1);
        }
        return "found";
    };
    EXPECT_EQ(message("lm_head.weight", shape), "found");
    EXPECT_EQ(message("lm_head.wieght", shape),
              "step-00000010: has no tensor \"lm_head.wieght\"; the nearest is \"lm_head.weight\"");
    EXPECT_EQ(message("lm_head.weight", other),
              "step-00000010: tensor \"lm_head.weight\": shape [5, 2], expected [2, 5]");
    EXPECT_THROW(checkpoint.optimizer_tensor("lm_head.weight", shape), InputError);
}

TEST_F(CheckpointTest, CutAtAnyByteTheOneBeforeIsUsed) {
    write(10);
    const fs::path newest = write(20);
    int cuts = 0;
    for (const std::string& name : files_of(newest)) {
        const std::string whole = content_of(newest / name);
        for (std::size_t length = whole.size(); length-- > 0; ++cuts) {
            fs::resize_file(newest / name, length);
            const std::string message = refusal();
            ASSERT_EQ(message.find(name + ": "), 0U) << name << " cut to " << length << ": " << message;
        }
        overwrite(newest / name, whole + "x");
        ASSERT_EQ(refusal().find(name + ": "), 0U);
        fs::remove(newest / name);
        EXPECT_EQ(refusal(), name + ": cannot open: No such file or directory");
        overwrite(newest / name, whole);
        expect_small_checkpoint(folder.path() / "step-00000010", 10);
    }
    EXPECT_GT(cuts, 1500);
    EXPECT_EQ(latest_checkpoint(folder.path()).path, newest);
}

TEST_F(CheckpointTest, AnyChangedByteIsSeen) {
    write(10);
    const fs::path newest = write(20);
    for (const std::string& name : files_of(newest)) {
        const std::string whole = content_of(newest / name);
        for (std::size_t at = 0; at < whole.size(); at += 5) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
            overwrite(newest / name, changed);
            ASSERT_EQ(refusal().find(name + ": "), 0U) << name << " changed at " << at;
        }
        overwrite(newest / name, whole);
    }
}

TEST_F(CheckpointTest, RefusesOtherVersionsAndFoldersByName) {
    write(10);
    const fs::path newest = write(20);
    const CheckpointManifest manifest = read_manifest(newest);
    const auto change = [&](std::string_view from, std::string_view to) {
        std::string body = manifest_text(manifest);
        body.replace(body.find(from), from.size(), to);
        body.erase(0, body.find('\n') + 1);  // a new checksum: the change was meant
        const auto crc = crc32_of(std::as_bytes(std::span(body)));
        char digits[9];
        std::snprintf(digits, sizeof digits, "%08x", crc);
        overwrite(newest / "manifest.json", "{\"crc32\": \"" + std::string(digits) + "\",\n" + body);
    };
    const auto with = [&](std::string_view from, std::string_view to) { return change(from, to), refusal(); };
    EXPECT_EQ(with("\"version\": 1", "\"version\": 2"), "manifest.json: version 2 of a checkpoint, expected 1");
    EXPECT_EQ(with("sluice-checkpoint", "other"), "manifest.json: format \"other\", expected \"sluice-checkpoint\"");
    EXPECT_EQ(with("\"step\": 20", "\"step\": 30"), " its manifest is of step 30");
    EXPECT_EQ(with("\"step\": 20", "\"step\": -1"), "manifest.json: step: expected an integer from 0 to 2^63 - 1");
    EXPECT_EQ(with("\"step\": 20", "\"stop\": 20"), "manifest.json: step: expected an integer from 0 to 2^63 - 1");
    EXPECT_EQ(with("\"config.json\"", "\"../step-00000010/config.json\""),
              "manifest.json: file \"../step-00000010/config.json\": expected a plain name");
    EXPECT_EQ(with("\"config.json\"", "\"model.safetensors\""),
              "manifest.json: file \"model.safetensors\" is given twice");
    EXPECT_EQ(with("\"files\": [", "\"files\": [1, "), "manifest.json: files: expected objects");
    change("\"step\": 20", "\"step\": 20");  // the change of nothing is taken
    EXPECT_EQ(latest_checkpoint(folder.path()).path, newest);
}

// The text of version 1, frozen: checkpoints are read by later builds.
TEST(CheckpointManifestText, KeepsItsForm) {
    const CheckpointManifest manifest{{20, 80, "text.txt, sequences of 16", "0123456789abcdef", "sp 1\npp 2"},
                                      {{"model.safetensors", 320_B, 0x89abcdef}}};
    expect_golden("checkpoint_manifests/step_20.json", manifest_text(manifest));
    CheckpointManifest not_utf8 = manifest;
    not_utf8.state.data = "\xff";
    EXPECT_EQ(parse_manifest(manifest_text(not_utf8), "m").state.data, "\xef\xbf\xbd");
}

TEST_F(CheckpointTest, RefusesFilesThatAreNoFiles) {
    write(10);
    const fs::path newest = write(20);
    fs::remove(newest / "model.safetensors");
    fs::create_directory(newest / "model.safetensors");
    EXPECT_EQ(refusal(), "model.safetensors: is a directory, expected a file");
    fs::remove_all(newest);
    overwrite(newest, "a file");
    EXPECT_EQ(refusal(), "manifest.json: cannot open: Not a directory");
}

TEST_F(CheckpointTest, KeepsTheLastWholeOnes) {
    for (const std::int64_t step : {10, 20, 30, 40}) write(step, 2);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"step-00000030", "step-00000040"}));
    // A damaged one does not count: 30 stays for as long as there are not two whole ones after it.
    fs::resize_file(folder.path() / "step-00000040" / "model.safetensors", 5);
    write(50, 2);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"step-00000030", "step-00000040", "step-00000050"}));
    write(60, 2);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"step-00000050", "step-00000060"}));
    // Later ones belong to a run that went further: they are not removed.
    write(55, 1);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"step-00000055", "step-00000060"}));
    EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<std::int64_t>{60, 55}));
    write(70, 0);
    EXPECT_EQ(folder.names().size(), 3U);
}

TEST_F(CheckpointTest, ReplacesOneOfTheSameStep) {
    write(10);
    fs::resize_file(folder.path() / "step-00000010" / "manifest.json", 5);
    overwrite(folder.path() / "step-00000010" / "extra", "x");
    EXPECT_FALSE(latest_checkpoint(folder.path()).path);
    expect_small_checkpoint(write(10), 10);
    EXPECT_FALSE(fs::exists(folder.path() / "step-00000010" / "extra"));
    EXPECT_EQ(folder.names(), std::vector<std::string>{"step-00000010"});
}

TEST_F(CheckpointTest, AFailedWriteChangesNothing) {
    write(10, 1);
    CheckpointContent failing = small_checkpoint(20);
    failing.optimizer[1][0] =
        float_tensor("x", {1}, [](std::int64_t, std::span<float>) { throw EnvironmentError("the device is gone"); });
    EXPECT_THROW(write_checkpoint(folder.path(), failing, {.keep = 1}), EnvironmentError);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"step-00000010"});
    expect_small_checkpoint(folder.path() / "step-00000010", 10);
    EXPECT_THROW(write_checkpoint("/dev/null/checkpoints", small_checkpoint(20), {}), EnvironmentError);
}

TEST_F(CheckpointTest, LeftoversOfKilledWritersAreRemoved) {
    for (const char* name : {"step-00000005.tmp", "step-00000020.old.tmp"}) {
        fs::create_directory(folder.path() / name);
        overwrite(folder.path() / name / "model.safetensors", "half");
    }
    fs::create_directory(folder.path() / "mine.tmp");
    write(10);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"mine.tmp", "step-00000010"}));
}

}  // namespace
}  // namespace sluice
