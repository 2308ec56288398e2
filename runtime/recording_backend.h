// A backend that carries out nothing and writes everything down: for tests of what the executor issues.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backend.h"

namespace sluice {

class RecordingBackend : public Backend {
public:
    struct Step {
        std::uint64_t step = 0;
        std::vector<std::vector<OpId>> lanes;       // by lane of the program: ops in the order issued
        std::vector<OpId> issued;                   // of all lanes
        std::vector<std::vector<LaneEvent>> waits;  // by position in `issued`
        std::vector<double> begin, end;             // by position in `issued`, on a clock where every op takes 1 and
                                                    // starts as soon as its lane and its waits allow
        bool finished = false;
    };

    explicit RecordingBackend(const RankProgram& program);

    void begin_step(std::uint64_t step) override;
    void issue(const IssuedOp& op) override;
    void finish_step() override;

    const std::vector<Step>& steps() const { return steps_; }

private:
    const RankProgram& program_;
    std::vector<Step> steps_;
    std::vector<std::vector<double>> ends_;  // of the current step, by lane and place
};

}  // namespace sluice
