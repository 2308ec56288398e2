// Closes the loop: what a run measures changes what it does.
//
// Every step's exposed copies, on the rank that has most of them, are held against a limit, and so is time left over:
// no exposed copies while layers are recomputed that could have been offloaded. When one of both goes on for `patience`
// steps in a row, the placement is solved again with the rates measured meanwhile (step_rates.h), the same degrees and
// subsequences. Where the cost model, given these rates, calls the new one faster by more than kLeastGain, it takes
// over between two steps. Placement changes no bit of the mathematics: losses go on as they would have.
//
// What placement cannot mend is said, once, as advice to plan again: rates or cores that have become others than the
// plan was made for by more than kRateChange, and copies that stay exposed whatever the placement. Rates are spoken of
// again only after a while that doubles. The first step of a session, which touches its memory first, counts nowhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"
#include "tools/sluice/step_rates.h"
#include "tools/sluice/training_run.h"

namespace sluice {

inline constexpr double kExposedLimit = 0.02;  // share of the step
inline constexpr double kIdleLimit = 0.005;    // below this, copies have time left
inline constexpr double kLeastGain = 0.005;  // of the step; less is not worth another plan, and would swing to and fro
inline constexpr double kRateChange = 1.5;   // either way

struct StepFacts {
    std::int64_t step = 0;
    double exposed = 0;      // copies, share of the step, of the rank with most
    StepRates rates;         // by the calibration of the plan that runs
    std::int64_t cores = 0;  // that this process may use
};

class Adaptation {
public:
    // `planned`: what the degrees and subsequences were chosen for. Requires: patience > 0.
    Adaptation(std::int64_t patience, const Scenario& planned);

    struct Decision {
        std::optional<PlannedRun> plan;  // to go on with
        std::string reason;              // of it, in one line
        std::vector<std::string> advice;
    };
    Decision decide(const PlannedRun& now, const StepFacts& facts);

    // decide() by the last step of the run, carried out.
    Decision after_step(TrainingRun& run, const StepRecord& record);

private:
    Decision solve(const PlannedRun& now, const StepFacts& facts, bool by_exposure);
    void advise_on_rates(const PlannedRun& now, const StepFacts& facts, std::vector<std::string>& advice);
    void advise_on_cores(const StepFacts& facts, std::vector<std::string>& advice);

    std::size_t patience_;
    std::vector<StepRates> window_;       // of the last steps, at most `patience`
    std::size_t exposed_ = 0, idle_ = 0;  // steps in a row
    std::int64_t quiet_until_ = 0;        // step: after a fruitless attempt
    std::int64_t fruitless_ = 0;          // in a row
    StepRates planned_for_;               // copies of the cluster, compute 1; after advice what it was about
    double compute_ = 1;                  // of the plan that runs, by the calibration of the first one
    std::int64_t rates_quiet_until_ = 0, rates_said_ = 0;  // step; times that rates were advised on
    bool cold_ = true;                                     // the next step is the first of its memory
    bool said_exposed_ = false;
    std::optional<std::int64_t> cores_;
};

std::int64_t usable_cores();

}  // namespace sluice
