#include "scenarios/nccl_tests_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "scenarios/nccl_tests_rows.h"
#include "scenarios/quote.h"
#include "scenarios/text_words.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostOf = 1'000'000'000;  // pids, versions

// Where the cells of a row are, counted from its first column with a time.
struct Columns {
    std::size_t before = 0, from = 0;  // cells before that column, and from it on: a timestamp has two
    bool redop = false;
    std::size_t time = 0, algbw = 0, busbw = 0;
    std::vector<std::size_t> wrong;

    // Of the first column with a time; none: the row does not have the cells that the columns name. The column redop
    // was blank once where there is none (2.13).
    std::optional<std::size_t> begin(const TextLine& row) const {
        const std::size_t got = row.words.size(), expected = before + from;
        if (got == expected) return before;
        const bool blank = redop && got + 1 == expected && !row.word(3).empty() &&
                           row.word(3).find_first_not_of("-0123456789") == std::string_view::npos;
        return blank ? std::optional(before - 1) : std::nullopt;
    }
};

class TableReader {
public:
    TableReader(std::string_view origin, std::optional<MessageKind> kind) : origin_(origin), asked_(kind) {}

    std::vector<NcclTestsRun> read(std::string_view text) {
        const std::vector<TextLine> lines = text_lines(text, origin_);
        for (const TextLine& line : lines) read(line);
        const TextLine end{origin_, static_cast<int>(lines.size()) + 1, "", {}};
        expect_closed(end);
        if (runs_.empty())
            end.fail(0, "got no table of nccl-tests, expected a line '# nThread ... nGpus ...', ranks and a table");
        return std::move(runs_);
    }

private:
    enum class At { kOutside, kHead, kRows };

    void read(const TextLine& line) {
        if (line.words.empty()) return;
        if (line.word(0) == "#") return comment(line);
        if (at_ != At::kRows || line.text.find(" NCCL ") != std::string_view::npos) return;  // its debug messages
        row(line);
    }

    void comment(const TextLine& line) {
        const std::string_view first = line.word(1);
        if (first == "nccl-tests" && line.word(2) == "version") return versions(line);
        if (first == "Collective" && line.word(3) == "starting:") return program(line);
        if (first == "nThread") return open(line);
        if (first == "Rank") return member(line);
        if (first == "size") return header(line);
        if (first == "(B)" && at_ == At::kRows) return units(line);
        if (first == "Out" && line.word(4) == "values") return close(line);
    }

    // Of a run whose table has not begun.
    NcclTestsRun& open_run(const TextLine& line) {
        if (at_ == At::kRows) expect_closed(line);
        if (at_ == At::kOutside) {
            runs_.emplace_back();
            named_ = false, group_.reset(), hosts_.clear();
            at_ = At::kHead;
        }
        return runs_.back();
    }

    void open(const TextLine& line) { open_run(line); }

    void versions(const TextLine& line) {
        NcclTestsRun& run = open_run(line);
        run.version = plain_name(line.word(3), origin_, line.number, line.words[2].column, "version of nccl-tests");
        constexpr std::string_view kLibrary = "nccl-library=";
        if (!line.word(5).starts_with(kLibrary)) return;
        TextLine number = line;
        number.words[5].text.remove_prefix(kLibrary.size());
        run.nccl = nccl_version_text(read_whole(number, 5, "version of NCCL", kMostOf));
    }

    void program(const TextLine& line) {
        NcclTestsRun& run = open_run(line);
        const std::optional<MessageKind> found = find_nccl_test(line.word(4));
        if (!found) line.fail(4, unknown_nccl_test(line.word(4)));
        if (asked_ && *asked_ != *found)
            line.fail(4, fmt::format("got {}, expected {}, as was said with the file's name", nccl_test_name(*found),
                                     nccl_test_name(*asked_)));
        run.kind = *found;
        named_ = true;
    }

    // "#  Rank  0 Group  0 Pid   6899 on HOST device  0 [0000:04:00] NVIDIA H100 80GB HBM3"; once without the group.
    void member(const TextLine& line) {
        if (at_ != At::kHead) line.fail(1, "got a rank outside the head of a run, expected '# nThread' before it");
        NcclTestsRun& run = runs_.back();
        const std::int64_t rank = read_whole(line, 2, "rank", kMostMembers - 1);
        if (rank != static_cast<std::int64_t>(run.members.size()))
            line.fail(2, fmt::format("got rank {}, expected rank {}", rank, run.members.size()));
        std::size_t at = 3;
        if (line.word(at) == "Group") {
            const std::int64_t group = read_whole(line, at + 1, "group", kMostOf);
            if (group_.value_or(group) != group)
                line.fail(at + 1, fmt::format("got group {} beside group {}, expected one group: several at once "
                                              "share links, and their times say nothing of one",
                                              group, *group_));
            group_ = group;
            at += 2;
        }
        expect(line, at, "Pid"), expect(line, at + 2, "on"), expect(line, at + 4, "device");
        const std::string host(line.word(at + 3));
        const auto device = static_cast<int>(read_whole(line, at + 5, "device", kMostMembers));
        run.members.push_back({hosts_.emplace(host, hosts_.size()).first->second, device});
        if (at + 7 >= line.words.size()) line.fail(at + 7, "the line ends, expected the name of a GPU");
        const TextWord& name = line.words[at + 7];
        std::string_view rest(name.text.data(),
                              static_cast<std::size_t>(line.text.data() + line.text.size() - name.text.data()));
        rest = rest.substr(0, rest.find_last_not_of(" \t") + 1);
        if (rest.ends_with("...")) line.fail(at + 7, "the list of ranks is cut, expected all of them");
        add_device(run, plain_name(rest, origin_, line.number, name.column, "GPU"));
    }

    static void expect(const TextLine& line, std::size_t at, std::string_view word) {
        if (line.word(at) != word) line.fail(at, fmt::format("got {}, expected '{}'", quote(line.word(at)), word));
    }

    void header(const TextLine& line) {
        if (at_ != At::kHead) line.fail(1, "got a table without ranks, expected '# nThread' and the ranks before it");
        NcclTestsRun& run = runs_.back();
        if (const std::string wrong = too_few_members(run); !wrong.empty()) line.fail(1, wrong);
        if (!named_) {
            if (!asked_)
                line.fail(1,
                          "the output does not say which program it is of (nccl-tests before 2.17.4), expected it with "
                          "the file's name: all_gather_perf=FILE");
            run.kind = *asked_;
        }
        columns_ = columns_of(line);
        at_ = At::kRows;
        opened_ = line.number;
    }

    static Columns columns_of(const TextLine& line) {
        const auto find = [&](std::string_view name, std::size_t from) {
            for (std::size_t i = from; i < line.words.size(); ++i)
                if (line.words[i].text == name) return i;
            return line.words.size();
        };
        if (const std::size_t cpu = find("cputime", 0); cpu < line.words.size())
            line.fail(cpu, "got times of the CPU (-C), expected times of the GPUs");
        const std::size_t time = find("time", 1);
        Columns c{time - 1, line.words.size() - time,   find("redop", 1) < time,
                  0,        find("algbw", time) - time, find("busbw", time) - time,
                  {}};
        for (const std::string_view name : {"time", "algbw", "busbw"})
            if (find(name, time) == line.words.size())
                line.fail(line.words.size(), fmt::format("got no column '{}', expected one", name));
        for (std::size_t i = time; i < line.words.size(); ++i)
            if (line.words[i].text == "#wrong") c.wrong.push_back(i - time);
        if (line.words.back().text == "timestamp") ++c.from;  // a date and a time of day
        return c;
    }

    // " (B) (elements) (us) (GB/s) (GB/s) ..."
    static void units(const TextLine& line) {
        const auto has = [&](std::string_view unit) {
            return std::any_of(line.words.begin(), line.words.end(), [&](const TextWord& w) { return w.text == unit; });
        };
        if (!has("(us)") || !has("(GB/s)")) line.fail(1, "got other units, expected (us) and (GB/s)");
    }

    void row(const TextLine& line) {
        NcclTestsRun& run = runs_.back();
        const std::optional<std::size_t> begin = columns_.begin(line);
        if (!begin)
            line.fail(0, fmt::format("got {} cells, expected {}, as the columns are named", line.words.size(),
                                     columns_.before + columns_.from));
        const std::size_t body = *begin;
        for (const std::size_t wrong : columns_.wrong) {
            if (line.word(body + wrong) == "N/A") continue;  // not checked
            if (const double count = read_number(line, body + wrong, "#wrong"); count != 0)
                line.fail(body + wrong, fmt::format("got {} wrong elements, expected 0: a collective that gives wrong "
                                                    "results says nothing of one that works",
                                                    count));
        }
        const NcclTestsRow cells{read_number(line, 0, "size"), read_number(line, body + columns_.time, "time"),
                                 read_number(line, body + columns_.algbw, "algbw"),
                                 read_number(line, body + columns_.busbw, "busbw")};
        if (const std::string wrong = add_row(run, cells); !wrong.empty()) line.fail(body, wrong);
    }

    // "# Out of bounds values : 0 OK"
    void close(const TextLine& line) {
        if (at_ != At::kRows) line.fail(1, "got the end of a table, expected its rows before it");
        if (read_whole(line, 6, "out of bounds values", kMostOf) != 0)
            line.fail(6, fmt::format("got {} values out of bounds, expected 0", line.word(6)));
        if (const std::string wrong = no_rows(runs_.back()); !wrong.empty()) line.fail(0, wrong);
        at_ = At::kOutside;
    }

    void expect_closed(const TextLine& line) const {
        if (at_ == At::kOutside) return;
        line.fail(0, at_ == At::kHead ? "the output ends before its table"
                                      : fmt::format("the table of line {} has no end, expected '# Out of bounds "
                                                    "values': the output is cut",
                                                    opened_));
    }

    const std::string_view origin_;
    const std::optional<MessageKind> asked_;
    std::vector<NcclTestsRun> runs_;
    At at_ = At::kOutside;
    // Of the run that is being read:
    bool named_ = false;
    std::optional<std::int64_t> group_;
    std::map<std::string, std::size_t, std::less<>> hosts_;
    Columns columns_;
    int opened_ = 0;
};

}  // namespace

std::vector<NcclTestsRun> parse_nccl_tests_table(std::string_view text, std::string_view origin,
                                                 std::optional<MessageKind> kind) {
    return TableReader(origin, kind).read(text);
}

}  // namespace sluice
