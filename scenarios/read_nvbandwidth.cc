#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "scenarios/json_tree.h"
#include "scenarios/nvbandwidth_run.h"
#include "scenarios/quote.h"
#include "scenarios/text_words.h"
#include "scenarios/yaml_field.h"

namespace sluice {
namespace {

constexpr std::size_t kMostColumns = 1024, kMostMatrices = 1024;
constexpr double kMostOfCell = 1e9;
constexpr Limits<double> kAnySum{0, 1e15, "a sum of 0 ... 1e15"};

// "0: NVIDIA H100 80GB HBM3 (00000000:18:00)..." without what stands before and behind the name.
std::string_view model_of(std::string_view device) {
    const std::size_t colon = device.find(": ");
    if (colon == device.npos) return {};
    device.remove_prefix(colon + 2);
    return device.substr(0, device.find(" ("));
}

void add_device(NvbandwidthRun& run, std::string model) {
    ++run.gpus;
    if (std::find(run.devices.begin(), run.devices.end(), model) == run.devices.end())
        run.devices.push_back(std::move(model));
}

double sum_of(const NvbandwidthRun::Matrix& m) {
    double sum = 0;
    for (const std::optional<double>& cell : m.cells) sum += cell.value_or(0);
    return sum;
}

// Of cells with two decimals (JSON: six digits), or of larger numbers with fewer.
bool sums_to(const NvbandwidthRun::Matrix& m, double told) {
    return std::abs(sum_of(m) - told) <= 0.006 * static_cast<double>(m.cells.size()) + 1e-3 * std::abs(told);
}

std::string odd_sum(const NvbandwidthRun::Matrix& m, double told) {
    return fmt::format("got the sum {} of {}, expected {:.2f}, the sum of its cells", told, m.test, sum_of(m));
}

class TextReader {
public:
    explicit TextReader(std::string_view origin) : origin_(origin) {}

    NvbandwidthRun read(std::string_view text) {
        const std::vector<TextLine> lines = text_lines(text, origin_);
        for (const TextLine& line : lines) read(line);
        const TextLine end{origin_, static_cast<int>(lines.size()) + 1, "", {}};
        expect_whole(end);
        if (run_.matrices.empty()) end.fail(0, "got no matrix of nvbandwidth, expected one");
        return std::move(run_);
    }

private:
    enum class At { kOutside, kTest, kHeader, kRows, kSum };

    void read(const TextLine& line) {
        if (at_ == At::kHeader) return header(line);
        if (at_ == At::kRows) {
            if (!line.words.empty()) return row(line);
            at_ = At::kSum;
            return;
        }
        if (line.words.empty()) return;
        const std::string_view first = line.word(0);
        if (first == "SUM" && at_ == At::kSum) return sum(line, 2);
        if (first == "&&&&" && line.word(1) == "PERF" && at_ == At::kSum) return sum(line, 3);
        if (first == "Running" && line.word(1).ends_with('.')) return test(line);
        if (first == "nvbandwidth" && line.word(1) == "Version:")
            run_.version = plain_name(line.word(2), origin_, line.number, line.words[0].column, "version");
        if (first == "Driver" && line.word(1) == "Version:")
            run_.driver = plain_name(line.word(2), origin_, line.number, line.words[0].column, "driver");
        if (first == "Device" && line.word(1).ends_with(':') && at_ == At::kOutside)
            add_device(run_, plain_name(model_of(line.text), origin_, line.number, line.words[0].column, "GPU"));
        if (at_ != At::kOutside && (line.text.ends_with("(GB/s)") || line.text.ends_with("(ns)"))) caption(line);
    }

    void test(const TextLine& line) {
        expect_whole(line);
        std::string_view name = line.word(1);
        name.remove_suffix(1);
        test_ = plain_name(name, origin_, line.number, line.words[1].column, "test");
        at_ = At::kTest;
    }

    void caption(const TextLine& line) {
        expect_whole(line);
        if (run_.matrices.size() == kMostMatrices)
            line.fail(0, fmt::format("got more than {} matrices", kMostMatrices));
        const std::size_t begin = line.text.find_first_not_of(" \t");
        run_.matrices.push_back(
            {test_, plain_name(line.text.substr(begin), origin_, line.number, 1, "caption"), 0, 0, {}});
        at_ = At::kHeader;
    }

    // The labels of the columns.
    void header(const TextLine& line) {
        NvbandwidthRun::Matrix& m = run_.matrices.back();
        m.columns = line.words.size();
        if (m.columns == 0 || m.columns > kMostColumns)
            line.fail(0, fmt::format("got {} columns, expected 1 to {}", m.columns, kMostColumns));
        at_ = At::kRows;
    }

    // A label and the cells.
    void row(const TextLine& line) {
        NvbandwidthRun::Matrix& m = run_.matrices.back();
        if (line.words.size() != m.columns + 1 || m.rows == kMostColumns)
            line.fail(0, fmt::format("got {} words in row {}, expected a label and {} cells", line.words.size(), m.rows,
                                     m.columns));
        for (std::size_t i = 1; i <= m.columns; ++i) m.cells.push_back(cell(line, i));
        ++m.rows;
    }

    static std::optional<double> cell(const TextLine& line, std::size_t word) {
        if (line.word(word) == "N/A") return std::nullopt;
        const double value = read_number(line, word, "a rate");
        if (value < 0 || value > kMostOfCell)
            line.fail(word, fmt::format("got {}, expected 0 ... {}", quote(line.word(word)), kMostOfCell));
        return value;
    }

    // "SUM host_to_device_memcpy_ce 441.39"
    void sum(const TextLine& line, std::size_t word) {
        const double told = read_number(line, word, "sum");
        if (!sums_to(run_.matrices.back(), told)) line.fail(word, odd_sum(run_.matrices.back(), told));
        at_ = At::kTest;
    }

    void expect_whole(const TextLine& line) const {
        if (at_ == At::kHeader || at_ == At::kRows || at_ == At::kSum)
            line.fail(
                0, fmt::format("the matrix of {} has no sum, expected 'SUM {} ...': the output is cut", test_, test_));
    }

    const std::string_view origin_;
    NvbandwidthRun run_;
    At at_ = At::kOutside;
    std::string test_;
};

std::string plain_text(const YamlField& field) {
    return plain_name(read_text(field), field.origin, field.place.line, field.place.column, field.path);
}

// Cells are strings, "N/A" among them.
std::optional<double> json_cell(const YamlField& cell) {
    const std::string_view text = read_text(cell);
    if (text == "N/A") return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0) || value > kMostOfCell)
        fail(cell, fmt::format("got {}, expected a number of 0 ... {}, or N/A", quote(text), kMostOfCell));
    return value;
}

NvbandwidthRun::Matrix json_matrix(const YamlField& test) {
    NvbandwidthRun::Matrix m{plain_text(get(test, "name")), plain_text(get(test, "bandwidth_description")), 0, 0, {}};
    const YamlField matrix = get(test, "bandwidth_matrix");
    for (const YamlField& row : items(matrix)) {
        const std::vector<YamlField> cells = items(row);
        if (m.rows == 0) m.columns = cells.size();
        if (cells.size() != m.columns || m.columns > kMostColumns || m.rows == kMostColumns)
            fail(row, fmt::format("got {} cells in row {}, expected {} in every row, at most {}", cells.size(), m.rows,
                                  m.columns, kMostColumns));
        for (const YamlField& cell : cells) m.cells.push_back(json_cell(cell));
        ++m.rows;
    }
    const YamlField sum = get(test, "sum");
    if (const double told = read_number(sum, kAnySum); !sums_to(m, told)) fail(sum, odd_sum(m, told));
    return m;
}

NvbandwidthRun read_json(const YamlField& root) {
    const YamlField field = get(root, "nvbandwidth");
    NvbandwidthRun run;
    if (const auto error = find(field, "error"); error && error->node->kind != YamlKind::kNull)
        fail(*error, fmt::format("nvbandwidth failed: {}", quote(read_text(*error))));
    if (const auto version = find(field, "version")) run.version = plain_text(*version);
    if (const auto driver = find(field, "Driver Version")) run.driver = plain_text(*driver);
    if (const auto devices = find(field, "GPU Device list"))
        for (const YamlField& device : items(*devices))
            add_device(run, plain_name(model_of(read_text(device)), device.origin, device.place.line,
                                       device.place.column, device.path));
    const std::vector<YamlField> tests = items(get(field, "testcases"));
    if (tests.size() > kMostMatrices) fail(field, fmt::format("got more than {} tests", kMostMatrices));
    for (const YamlField& test : tests)
        if (read_text(get(test, "status")) == "Passed") run.matrices.push_back(json_matrix(test));
    if (run.matrices.empty()) fail(field, "got no test that passed, expected one");
    return run;
}

}  // namespace

bool is_nvbandwidth(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == text.npos) return false;
    if (text[first] != '{')
        return text.substr(first).starts_with("Running ") || text.find("\nRunning ") != text.npos ||
               text.find("nvbandwidth Version:") != text.npos;
    const std::size_t key = text.find_first_not_of(" \t\r\n", first + 1);
    return key != text.npos && text.substr(key).starts_with("\"nvbandwidth\"");
}

NvbandwidthRun parse_nvbandwidth(std::string_view text, std::string_view origin) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == text.npos || text[first] != '{') return TextReader(origin).read(text);
    const YamlNode tree = parse_json(text, origin, kLongestForeignJson);
    return read_json({&tree, "", origin, tree.place});
}

}  // namespace sluice
