#include <fmt/format.h>

#include <charconv>
#include <map>

#include "base/error.h"
#include "scenarios/json_tree.h"
#include "scenarios/nccl_tests_rows.h"
#include "scenarios/nccl_tests_run.h"
#include "scenarios/nccl_tests_table.h"
#include "scenarios/quote.h"
#include "scenarios/text_words.h"
#include "scenarios/yaml_field.h"

namespace sluice {
namespace {

constexpr Limits<double> kAnyNumber{-1e18, 1e18, "a number up to 1e18"};
constexpr std::int64_t kMostOf = 1'000'000'000;

std::string plain_text(const YamlField& field) {
    return plain_name(read_text(field), field.origin, field.place.line, field.place.column, field.path);
}

double number(const YamlField& mapping, std::string_view key) { return read_number(get(mapping, key), kAnyNumber); }

class JsonReader {
public:
    JsonReader(const YamlField& root, std::optional<MessageKind> kind) : root_(root), asked_(kind) {}

    NcclTestsRun read() {
        program();
        run_.nccl = nccl_version_text(read_count(get(root_, "nccl_version"), kMostOf));
        if (const auto time = find(root_, "start_time"))  // "2026-07-09 16:03:21", local time
            run_.date = plain_text(*time).substr(0, 10);
        members(get(root_, "config"));
        expect_right(get(root_, "out_of_bounds"));
        for (const YamlField& result : items(get(root_, "results"))) row(result);
        if (const std::string wrong = no_rows(run_); !wrong.empty()) fail(root_, wrong);
        return std::move(run_);
    }

private:
    void program() {
        const YamlField name = items(get(root_, "args")).front();
        const std::optional<MessageKind> found = find_nccl_test(read_text(name));
        if (!found) fail(name, unknown_nccl_test(read_text(name)));
        if (asked_ && *asked_ != *found)
            fail(name, fmt::format("got {}, expected {}, as was said with the file's name", nccl_test_name(*found),
                                   nccl_test_name(*asked_)));
        run_.kind = *found;
    }

    // Every process is there with its first rank; it has threads x GPUs of them.
    void members(const YamlField& config) {
        const std::int64_t each = read_count(get(config, "nthreads"), 1024) * read_count(get(config, "ngpus"), 1024);
        std::map<std::string, std::size_t, std::less<>> hosts;
        std::optional<double> group;
        for (const YamlField& process : items(get(config, "devices"))) {
            const YamlField rank = get(process, "rank");
            if (read_number(rank, kAnyNumber) != static_cast<double>(run_.members.size()))
                fail(rank, fmt::format("got rank {}, expected {}: {} of every process", read_text(rank),
                                       run_.members.size(), each));
            const double of_group = number(process, "group");
            if (group.value_or(of_group) != of_group) fail(get(process, "group"), "got several groups, expected one");
            group = of_group;
            const std::size_t host = hosts.emplace(read_text(get(process, "hostname")), hosts.size()).first->second;
            const double device = read_number(get(process, "device"), {0, kMostMembers, "0 ... 65536"});
            if (run_.members.size() + static_cast<std::size_t>(each) > kMostMembers)
                fail(rank, fmt::format("got more than {} ranks", kMostMembers));
            for (std::int64_t k = 0; k < each; ++k)
                run_.members.push_back({host, static_cast<int>(device) + static_cast<int>(k)});
            add_device(run_, plain_text(get(process, "device_info")));
        }
        if (const std::string wrong = too_few_members(run_); !wrong.empty()) fail(config, wrong);
    }

    // {"count": 0, "okay": "true"}
    static void expect_right(const YamlField& out_of_bounds) {
        const YamlField count = get(out_of_bounds, "count");
        if (read_number(count, kAnyNumber) != 0)
            fail(count, fmt::format("got {} values out of bounds, expected 0", read_text(count)));
    }

    void row(const YamlField& result) {
        const auto out = find(result, "out_of_place"), in = find(result, "in_place");
        const bool has_out = out && out->node->kind != YamlKind::kNull;
        if (!has_out && !in) fail(result, "got neither out_of_place nor in_place, expected one");
        for (const auto& body : {has_out ? out : std::nullopt, in})
            if (body) expect_no_wrong(*body);
        const YamlField& body = has_out ? *out : *in;
        if (find(body, "cpu_time")) fail(body, "got times of the CPU (-C), expected times of the GPUs");
        const NcclTestsRow cells{number(result, "size"), number(body, "time"), number(body, "alg_bw"),
                                 number(body, "bus_bw")};
        if (const std::string wrong = add_row(run_, cells); !wrong.empty()) fail(body, wrong);
    }

    static void expect_no_wrong(const YamlField& body) {
        const auto wrong = find(body, "nwrong");
        if (!wrong || wrong->node->kind == YamlKind::kNull) return;  // not checked
        if (read_number(*wrong, kAnyNumber) != 0)
            fail(*wrong, fmt::format("got {} wrong elements, expected 0: a collective that gives wrong results says "
                                     "nothing of one that works",
                                     read_text(*wrong)));
    }

    const YamlField root_;
    const std::optional<MessageKind> asked_;
    NcclTestsRun run_;
};

}  // namespace

std::vector<NcclTestsRun> parse_nccl_tests(std::string_view text, std::string_view origin,
                                           std::optional<MessageKind> kind) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == text.npos || text[first] != '{') return parse_nccl_tests_table(text, origin, kind);
    const YamlNode tree = parse_json(text, origin, kLongestForeignJson);
    return {JsonReader({&tree, "", origin, tree.place}, kind).read()};
}

}  // namespace sluice
