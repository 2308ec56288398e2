#include "tools/sluice/run_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/parse_fault.h"

namespace sluice {
namespace {

double read_number(const std::string& text, const char* flag, double fallback, double most) {
    if (text.empty()) return fallback;
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || !(value >= 0 && value <= most))
        throw InputError(fmt::format("sluice run: {}: got '{}', expected a number from 0 to {}", flag, text, most));
    return value;
}

std::int64_t read_count(const std::string& text, const char* flag, std::int64_t fallback, std::int64_t least = 0) {
    if (text.empty()) return fallback;
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || value < least || value > 1'000'000'000)
        throw InputError(
            fmt::format("sluice run: {}: got '{}', expected a whole number from {} to 1000000000", flag, text, least));
    return value;
}

// The words as they were given.
struct Words {
    std::string device = "cpu", parts, steps, data, seed, rate, warmup, clip, checkpoints, every, adapt, gpus, stall,
                fault;
    LaunchFlags launch;
    bool shuffle = false, deterministic = false;
};

// A rank alone computes nothing that is worth to be kept, and has no plan to be solved again.
void refuse_beside_a_slice(const Words& words, const RunRequest& request) {
    const bool alone = !request.rank_slice.empty();
    for (const auto& [flag, given] :
         {std::pair("--checkpoint", !words.checkpoints.empty()), std::pair("--adapt", !words.adapt.empty()),
          std::pair("--predicted", !request.slice.empty() && !request.predicted.empty())})
        if (alone && given)
            throw InputError(fmt::format("sluice run: {}: is not for --rank-slice{}, expected one of them", flag,
                                         request.slice.empty() ? "" : " with --slice"));
    for (const auto& [flag, given] : {std::pair("--slice", &request.slice), std::pair("--delays", &request.delays)})
        if (!alone && !given->empty())
            throw InputError(fmt::format("sluice run: {}: needs --rank-slice R, the rank that it is of", flag));
}

void refuse(const Words& words, const RunRequest& request) {
    if (words.data.empty())
        throw InputError("sluice run: --data is missing, expected a text or token file to train on");
    if (words.steps.empty()) throw InputError("sluice run: --steps is missing, expected how many steps to train");
    if (words.checkpoints.empty() && request.options.resume)
        throw InputError("sluice run: --resume needs --checkpoint DIR");
    if (words.checkpoints.empty() && !words.every.empty())
        throw InputError("sluice run: --every needs --checkpoint DIR");
    if (!words.fault.empty() && !words.adapt.empty())
        throw InputError("sluice run: --fault: is not for --adapt, which may replace the schedule that its op is of");
    refuse_beside_a_slice(words, request);
    for (const std::string* path : {&request.trace, &request.predicted}) {
        if (*path == "-")
            throw InputError("sluice run: the lines of the steps go to stdout, expected a file for a trace");
        if (!path->empty()) require_writable(*path);
    }
}

void fill(TrainingOptions& options, const Words& words) {
    options.device.device = parse_device(words.device);
    options.device.deterministic = words.deterministic;
    options.device.parts = read_count(words.parts, "--parts", 1, 1);
    if (options.device.device != Device::kCuda && !words.parts.empty())
        throw InputError(
            "sluice run: --parts: got it with --device cpu, expected --device cuda: parts are those of a GPU");
    options.device.gpus = read_count(words.gpus, "--gpus", 1, 1);
    if (!words.gpus.empty() && options.device.device != Device::kCuda)
        throw InputError("sluice run: --gpus: needs --device cuda");
    options.data = words.data;
    options.checkpoints = words.checkpoints;
    options.steps = read_count(words.steps, "--steps", 0);
    options.seed = static_cast<std::uint64_t>(read_count(words.seed, "--seed", 0));
    if (words.shuffle) options.shuffle_seed = options.seed;
    options.checkpoint_every = read_count(words.every, "--every", 0, 1);
    if (!words.fault.empty()) options.device.cpu.fault = parse_fault(words.fault, options.steps);
    options.clip = read_number(words.clip, "--clip", 1, 1e30);
    const auto peak = static_cast<float>(read_number(words.rate, "--learning-rate", 3e-4, 1e3));
    const std::int64_t warmup = read_count(words.warmup, "--warmup", options.steps / 10);
    options.learning_rate = {peak, peak / 10, std::min(options.steps, warmup), options.steps};
}

}  // namespace

std::optional<RunRequest> read_run_request(const Arguments& arguments) {
    RunRequest request;
    Words words;
    const Usage usage{
        "run",
        "Plans a scenario and trains it for real on this machine: every rank is a thread with memory of its own, "
        "every\n"
        "copy to the host a real copy. Prints a line per step.",
        "SCENARIO",
        &request.scenario,
        {{"--device", "DEVICE", "cpu (the default) or cuda", &words.device},
         {"--parts", "P", "cut the GPU into P parts, and run each of the scenario's P ranks on one of them",
          &words.parts},
         {"--gpus", "N", "GPUs of this process, one for each rank that it runs (1)", &words.gpus},
         {"--rank", "K", "which process of --ranks this is, where no launcher says so", &words.launch.rank},
         {"--ranks", "N", "how many processes run the scenario", &words.launch.ranks},
         {"--rendezvous", "POINT", "where they meet: tcp:HOST:PORT or file:PATH (MASTER_ADDR:MASTER_PORT)",
          &words.launch.rendezvous},
         {"--stall", "SECONDS",
          "end a step in which no op ends for so long, 0 for never (5, or 10 times the longest op)", &words.stall},
         {"--fault", "KIND:STEP:OP",
          "in that step of this run make that op fail (throw) or never end (stall), to see that the run ends",
          &words.fault},
         {"--deterministic", "", "the same bits in every run, on a GPU too, where it costs speed and memory", nullptr,
          &words.deterministic},
         {"--steps", "N", "train until step N has been done", &words.steps},
         {"--data", "FILE", "text, or tokens as llm.c or Megatron-LM store them", &words.data},
         {"--shuffle", "", "sequences in an order that --seed decides, another one every epoch", nullptr,
          &words.shuffle},
         {"--seed", "N", "of the weights and of the order of sequences (0)", &words.seed},
         {"--learning-rate", "RATE", "at its peak (3e-4); half a cosine down to a tenth", &words.rate},
         {"--warmup", "N", "steps of linear warm-up (a tenth of all)", &words.warmup},
         {"--clip", "NORM", "limit of the gradients' norm, 0 for none (1)", &words.clip},
         {"--checkpoint", "DIR", "write checkpoints there", &words.checkpoints},
         {"--every", "N", "steps between checkpoints (only the last)", &words.every},
         {"--resume", "", "go on from the newest whole checkpoint in DIR, on this plan or another", nullptr,
          &request.options.resume},
         {"--adapt", "K", "solve the placement again when copies were exposed, or windows idle, for K steps",
          &words.adapt},
         {"--rank-slice", "R", "run rank R alone, with stand-ins for its partners", &request.rank_slice},
         {"--slice", "FILE", "with --rank-slice: what sluice slice wrote, instead of planning", &request.slice},
         {"--delays", "FILE", "with --rank-slice: messages take as long as in this predicted trace of the slice",
          &request.delays},
         {"--log", "FILE", "append a line of JSON per step", &request.log},
         {"--trace", "FILE", "write the measured trace of the last step", &request.trace},
         {"--predicted", "FILE", "write the predicted trace of what runs, for sluice compare", &request.predicted},
         {"--json", "", "print lines of JSON instead", nullptr, &request.json}},
        "  sluice run scenarios/tiny-cpu.yaml --data README.md --steps 3\n"
        "  sluice run mine.yaml --data corpus.bin --steps 1000 --checkpoint checkpoints --every 50 --resume\n"
        "  sluice run scenarios/dense-3b-32k-h200x1.yaml --device cuda --data corpus.bin --steps 10\n"
        "  sluice run scenarios/dense-1b-128k-h200-split2.yaml --device cuda --parts 2 --data corpus.bin --steps 10\n"
        "  sluice run scenarios/dense-1b-64k-h200x2-pp2.yaml --device cuda --gpus 2 --data corpus.bin --steps 10\n"
        "  torchrun --nproc-per-node 2 --no-python sluice run scenarios/dense-1b-64k-h200x2-pp2.yaml --device cuda "
        "--data "
        "corpus.bin --steps 10\n"
        "  sluice run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault stall:2:5\n"
        "  sluice run scenarios/slice-gpt7b-1m-h200x32.yaml --rank-slice 24 --device cuda --data corpus.bin --steps 2\n"
        "  sluice run mine.yaml --data corpus.txt --steps 5 --predicted predicted.trace --trace measured.trace"};
    if (!parse_arguments(usage, arguments)) return std::nullopt;
    refuse(words, request);
    fill(request.options, words);
    request.place = read_launch_place(words.launch, process_environment());
    if (!words.stall.empty()) request.stall = Seconds{read_number(words.stall, "--stall", 0, 1e6)};
    if (request.place.processes > 1 && !words.adapt.empty())
        throw InputError("sluice run: --adapt: is not for several processes, expected one");
    request.patience = read_count(words.adapt, "--adapt", 0);
    return request;
}

}  // namespace sluice
