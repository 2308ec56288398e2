#include <ostream>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/verbs.h"
#include "traces/perfetto_export.h"
#include "traces/trace_file.h"

namespace sluice {

int export_verb(const Arguments& arguments) {
    std::string path, output = "-";
    std::size_t ranks = 0;
    bool no_kernels = false, json = false;
    const Usage usage{"export", "Turns a trace into Chrome trace-event JSON: open it at https://ui.perfetto.dev.", "TRACE",
                      &path,
                      {{"-o,--output", "FILE", "where to; - is stdout", &output},
                       {"--ranks", "N", "only the first N ranks (a file of all ranks of a large step can be too much)",
                        nullptr, nullptr, &ranks},
                       {"--no-kernels", "", "leave the kernels inside compute ops out", nullptr, &no_kernels},
                       {"--json", "", "say on stdout, as JSON, what was written (needs -o FILE)", nullptr, &json}},
                      "  sluice export step.trace -o step.json\n"
                      "  sluice export step.trace --ranks 16 --no-kernels -o step.json"};
    if (!parse_arguments(usage, arguments)) return 0;

    const Trace trace = read_trace(path);
    write_output(output, [&](std::ostream& out) { export_perfetto(out, trace, {!no_kernels, ranks}); });
    if (json && output != "-") {
        const nlohmann::ordered_json result{{"output", output}, {"events", trace.events.size()}, {"ranks", ranks}};
        fmt::print("{}\n", result.dump(2));
    }
    return 0;
}

}  // namespace sluice
