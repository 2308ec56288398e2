#include "tools/sluice/import_measurements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "models/rails.h"
#include "scenarios/nccl_tests_run.h"
#include "scenarios/nvbandwidth_run.h"
#include "scenarios/read_machine_files.h"
#include "schedule/ring.h"
#include "tools/sluice/message_check.h"

namespace sluice {
namespace {

constexpr Bytes kLongestFile = 16_MiB;

struct MeasurementFile {
    std::string path, name;
    std::optional<MessageKind> kind;  // said with its name
};

// "all_gather_perf=all_gather.log": for output that does not say which program it is of.
MeasurementFile parse_file(const std::string& word) {
    MeasurementFile file{word, "", {}};
    const std::size_t equals = word.find('=');
    if (equals != word.npos && !std::filesystem::exists(word)) {
        file.kind = find_nccl_test(word.substr(0, equals));
        if (!file.kind)
            throw InputError(
                fmt::format("sluice profile: '{}': got '{}' before '=', expected a program of nccl-tests: "
                            "all_gather_perf, reduce_scatter_perf, all_reduce_perf, alltoall_perf or "
                            "sendrecv_perf",
                            word, word.substr(0, equals)));
        file.path = word.substr(equals + 1);
    }
    file.name = std::filesystem::path(file.path).filename().string();
    return file;
}

// Where the ranks of a run sit: by the devices' numbers, or in order where these cannot be (each process sees one GPU).
std::vector<Rank> places(const NcclTestsRun& run, const Cluster& cluster) {
    const auto of_node = static_cast<std::size_t>(cluster.gpus_per_node);
    std::vector<Rank> by_device, by_order;
    std::vector<std::size_t> next(run.hosts(), 0);
    std::set<Rank> taken;
    bool devices_fit = true;
    for (const NcclTestsRun::Member& member : run.members) {
        const auto device = static_cast<std::size_t>(member.device);
        by_device.push_back(id_at<Rank>(member.host * of_node + device));
        by_order.push_back(id_at<Rank>(member.host * of_node + next[member.host]++));
        devices_fit = devices_fit && device < of_node && taken.insert(by_device.back()).second;
    }
    return devices_fit ? by_device : by_order;
}

void expect_gpus(const NcclTestsRun& run, const Cluster& cluster, const std::string& file) {
    std::vector<std::size_t> of_host(run.hosts(), 0);
    for (const NcclTestsRun::Member& member : run.members) ++of_host[member.host];
    const std::size_t most = *std::max_element(of_host.begin(), of_host.end());
    if (most > static_cast<std::size_t>(cluster.gpus_per_node))
        throw InputError(
            fmt::format("{}: got {} ranks on one host, expected at most {}, the GPUs of a node of cluster "
                        "{}",
                        file, most, cluster.gpus_per_node, cluster.name));
}

// Adapters of each node that the run's group uses; 0 inside a node.
std::size_t rails_of_run(const NcclTestsRun& run, const std::optional<Cluster>& cluster, const std::string& file) {
    if (run.hosts() == 1) return 0;
    if (!cluster || cluster->network.nics == 0)
        throw InputError(
            fmt::format("{}: its ranks are on {} hosts, expected --cluster FILE with a network: rates "
                        "between nodes are given by adapter",
                        file, run.hosts()));
    return rails_of(places(run, *cluster), *cluster).count;
}

std::string or_unknown(const std::string& text, const char* what) {
    return text.empty() ? fmt::format("{} not known", what) : text;
}

std::string describe(const NcclTestsRun& run) {
    return fmt::format("{}{}, {} x {} on {} host{}", nccl_test_name(run.kind),
                       run.nccl.empty() ? "" : " with NCCL " + run.nccl, run.members.size(),
                       fmt::join(run.devices, ", "), run.hosts(), run.hosts() == 1 ? "" : "s");
}

class Importer {
public:
    explicit Importer(const ImportRequest& request) : request_(request) {
        if (!request.calibration.empty()) before_ = read_calibration_file(request.calibration);
        if (!request.cluster.empty()) cluster_ = read_cluster_file(request.cluster);
    }

    Import make() {
        for (const std::string& word : request_.files) read(parse_file(word));
        out_.tables =
            collective_tables(figures_, before_ ? CollectiveLatency{before_->collective_call, before_->collective_step}
                                                : CollectiveLatency{});
        if (inside_sources_.empty() && across_sources_.empty())  // then the tables are of all-to-all
            inside_sources_ = across_sources_ = exchange_sources_;
        out_.nvlink = transfer_line(figures_, false);
        out_.network = transfer_line(figures_, true);
        foretell();
        say();
        if (before_) change_calibration();
        if (cluster_) change_cluster();
        return std::move(out_);
    }

private:
    void read(const MeasurementFile& file) {
        const std::string text = read_file(file.path, kLongestFile);
        const std::string id = fmt::format("import-{}", out_.sources.size() + 1);
        std::string title, date = request_.date;
        if (!file.kind && is_nvbandwidth(text)) {
            title = read_links(parse_nvbandwidth(text, file.path), id, file);
        } else {
            title = read_runs(parse_nccl_tests(text, file.path, file.kind), id, file, date);
        }
        out_.sources.push_back({id, fmt::format("{}; {}; file {}, fingerprint {}; imported by sluice {}", title,
                                                date.empty() ? "date not known" : "measured on " + date, file.name,
                                                fingerprint_hex(fingerprint(text)), request_.version)});
    }

    std::string read_links(const NvbandwidthRun& run, const std::string& id, const MeasurementFile& file) {
        const LinkRates rates = link_rates(run, file.path);
        if (rates.gpus == 0)
            throw InputError(
                fmt::format("{}: got none of the tests that say something of a cluster, expected "
                            "host_to_device_memcpy_ce, device_to_host_memcpy_ce or others by copy engine",
                            file.path));
        if (cluster_ && rates.gpus > static_cast<std::size_t>(cluster_->gpus_per_node))
            throw InputError(fmt::format("{}: got {} GPUs, expected at most {}, those of a node of cluster {}",
                                         file.path, rates.gpus, cluster_->gpus_per_node, cluster_->name));
        out_.links = merged(out_.links, rates);
        link_sources_.insert(id);
        note_devices(run.devices);
        return fmt::format("nvbandwidth {}, {} x {}, driver {}", or_unknown(run.version, "version"), rates.gpus,
                           run.devices.empty() ? "GPU not named" : fmt::format("{}", fmt::join(run.devices, ", ")),
                           or_unknown(run.driver, "version"));
    }

    std::string read_runs(const std::vector<NcclTestsRun>& runs, const std::string& id, const MeasurementFile& file,
                          std::string& date) {
        std::vector<std::string> programs;
        for (const NcclTestsRun& run : runs) {
            if (cluster_) expect_gpus(run, *cluster_, file.path);
            const std::size_t rails = rails_of_run(run, cluster_, file.path);
            add_run(run, rails);
            sources_of(run.kind, rails > 0).insert(id);
            note_devices(run.devices);
            programs.push_back(describe(run));
            if (date.empty()) date = run.date;
        }
        return fmt::format("nccl-tests {}: {}", or_unknown(runs.front().version, "version"), fmt::join(programs, "; "));
    }

    std::set<std::string>& sources_of(MessageKind kind, bool across) {
        if (kind == MessageKind::kSendReceive) return across ? network_sources_ : nvlink_sources_;
        if (kind == MessageKind::kAllToAll) return exchange_sources_;
        return across ? across_sources_ : inside_sources_;
    }

    void add_run(const NcclTestsRun& run, std::size_t rails) {
        ImportedRun imported{out_.sources.size(), run.kind, run.members.size(), run.hosts(), rails, {}, {}, {}, {}, {}};
        const auto by_size = [](const MessageFigure& a, const MessageFigure& b) { return a.size < b.size; };
        const auto [smallest, largest] = std::minmax_element(run.figures.begin(), run.figures.end(), by_size);
        imported.smallest = smallest->size, imported.largest = largest->size;
        const double factor =
            run.kind == MessageKind::kSendReceive ? 1 : ring_fraction(collective_kind(run.kind), run.members.size());
        imported.bus_bandwidth = largest->size / largest->time * factor;
        imported.least = largest->time;
        of_run_.emplace_back(figures_.size(), figures_.size() + run.figures.size());
        for (MessageFigure figure : run.figures) {
            figure.rails = rails;
            imported.least = std::min(imported.least, figure.time);
            figures_.push_back(figure);
        }
        out_.runs.push_back(imported);
    }

    void note_devices(const std::vector<std::string>& devices) {
        for (const std::string& device : devices) devices_.insert(device);
    }

    // What a calibration and a cluster with these tables say of the same calls.
    void foretell() {
        Calibration c = before_ ? *before_ : Calibration{};
        c.collective_call = out_.tables.latency.call, c.collective_step = out_.tables.latency.step;
        if (!out_.tables.inside.empty()) c.nvlink_collective = out_.tables.inside;
        if (!out_.tables.across.empty()) c.network_collective = out_.tables.across;
        for (std::size_t r = 0; r < out_.runs.size(); ++r) {
            std::vector<double> errors;
            for (std::size_t i = of_run_[r].first; i < of_run_[r].second; ++i) {
                const MessageFigure& f = figures_[i];
                if (const auto time = message_time(f, c, f.rails > 0 ? out_.network : out_.nvlink))
                    errors.push_back(*time / f.time - 1);
            }
            if (!errors.empty()) out_.runs[r].error = error_of(std::move(errors));
        }
    }

    void say() {
        if (devices_.size() > 1)
            out_.notes.push_back(fmt::format("the files are of different GPUs: {}", fmt::join(devices_, ", ")));
        const bool collectives = !out_.tables.inside.empty() || !out_.tables.across.empty();
        if (collectives && !out_.tables.latency_measured)
            out_.notes.push_back(
                "no collective of 64 KiB or less: the latency of a call and of a step stay as they were");
        bool rings = false, exchanges = false;
        for (const ImportedRun& run : out_.runs) {
            exchanges = exchanges || run.kind == MessageKind::kAllToAll;
            rings = rings || (run.kind != MessageKind::kAllToAll && run.kind != MessageKind::kSendReceive);
        }
        if (rings && exchanges)
            out_.notes.push_back("the table of collectives is made of the others: all-to-all is compared with it");
    }

    static std::string list(std::set<std::string> ids, bool with_before) {
        if (with_before) ids.insert("before");
        return ids.size() == 1 ? *ids.begin() : fmt::format("[{}]", fmt::join(ids, ", "));
    }

    static std::set<std::string> united(const std::set<std::string>& a, const std::set<std::string>& b) {
        std::set<std::string> both = a;
        both.insert(b.begin(), b.end());
        return both;
    }

    // Sources are those that some block names: the reader refuses others.
    FileOrigin origin(const std::string& what, const std::string& name, const std::string& path,
                      const std::set<std::string>& used) const {
        FileOrigin origin;
        origin.comment =
            fmt::format("Made by sluice profile --import of the {} {} and of measurements from elsewhere.", what, name);
        origin.sources.push_back({"before",
                                  fmt::format("{} {}, file {}, as it was: its own file names the sources", what, name,
                                              std::filesystem::path(path).filename().string()),
                                  {}});
        for (const ImportedSource& source : out_.sources)
            if (used.contains(source.id)) origin.sources.push_back({source.id, source.title, {}});
        return origin;
    }

    void change_calibration() {
        if (out_.tables.inside.empty() && out_.tables.across.empty()) return;
        Calibration c = *before_;
        c.name = request_.calibration_name;
        c.collective_call = out_.tables.latency.call, c.collective_step = out_.tables.latency.step;
        const std::set<std::string> used = united(inside_sources_, across_sources_);
        FileOrigin o = origin("calibration", before_->name, request_.calibration, used);
        if (!out_.tables.inside.empty()) {
            c.nvlink_collective = out_.tables.inside;
            o.blocks["nvlink_collective"] = {list(inside_sources_, false),
                                             "mean time per byte of the collectives, less their latency"};
        }
        if (!out_.tables.across.empty()) {
            c.network_collective = out_.tables.across;
            o.blocks["network_collective"] = {list(across_sources_, false),
                                              "the same, shared out to the adapters of a node that the groups use"};
        }
        if (out_.tables.latency_measured) {
            const std::string of = list(inside_sources_.empty() ? across_sources_ : inside_sources_, false);
            o.blocks["collective_call"] = {of, "what the least times have beside their hops"};
            o.blocks["collective_step"] = {of, "what they have per hop, over groups and collectives"};
        }
        out_.calibration = std::move(c);
        out_.calibration_origin = std::move(o);
    }

    void change_cluster() {
        if (cluster_->gpu.parts > 1)
            throw InputError(
                fmt::format("{}: got a cluster of parts of a GPU, expected one of GPUs: what was measured "
                            "is between GPUs",
                            request_.cluster));
        Cluster c = *cluster_;
        c.name = request_.cluster_name;
        std::map<std::string, std::set<std::string>> changed;  // block: by which sources
        for (const std::string& block : set_links(c, out_.links)) changed[block] = link_sources_;
        if (out_.nvlink && c.nvlink.bandwidth.value > 0) {
            c.nvlink = {out_.nvlink->bandwidth, out_.nvlink->latency};
            changed["nvlink"] = nvlink_sources_;
        }
        if (out_.network && c.network.nics > 0) {
            c.network.bandwidth = out_.network->bandwidth, c.network.latency = out_.network->latency;
            changed["network"] = network_sources_;
        }
        if (changed.empty()) return;
        std::set<std::string> used;
        for (const auto& [block, ids] : changed) used = united(used, ids);
        FileOrigin o = origin("cluster", cluster_->name, request_.cluster, used);
        for (const auto& [block, ids] : changed) o.blocks[block] = {list(ids, true), note_of(block)};
        out_.cluster = std::move(c);
        out_.cluster_origin = std::move(o);
    }

    static std::string note_of(const std::string& block) {
        if (block == "pcie") return "copies by copy engine: the median GPU; what was not measured is as before";
        if (block == "host") return "bandwidth: all GPUs of a node copying both ways at once; the rest is as before";
        if (block == "nvlink") return "a transfer between two GPUs; what was not measured is as before";
        return "a transfer between nodes; the rest is as before";
    }

    const ImportRequest& request_;
    std::optional<Calibration> before_;
    std::optional<Cluster> cluster_;
    Import out_;
    std::vector<MessageFigure> figures_;
    std::vector<std::pair<std::size_t, std::size_t>> of_run_;  // figures, by run
    std::set<std::string> inside_sources_, across_sources_, exchange_sources_, nvlink_sources_, network_sources_,
        link_sources_, devices_;
};

}  // namespace

Import import_measurements(const ImportRequest& request) { return Importer(request).make(); }

}  // namespace sluice
