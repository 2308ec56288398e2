// One schedule, that of scenarios/tiny.yaml, predicted under its calibration and, as if measured, under one with
// memory-bound kernels at half the rate.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_folder.h"

namespace sluice {

struct TwoCalibrations : testing::Test {
    TemporaryFolder folder;
    std::string schedule = folder / "tiny.schedule";
    std::string slow_scenario;
    std::string predicted = folder / "predicted.trace", measured = folder / "measured.trace";

    void SetUp() override;
};

}  // namespace sluice
