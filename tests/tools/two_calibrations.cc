#include "tests/tools/two_calibrations.h"

#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"

namespace sluice {

void TwoCalibrations::SetUp() {
    const auto calibration = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios" / "calibrations" / "tiny.yaml";
    std::filesystem::create_directory(folder.path() / "calibrations");
    write_file(folder.path() / "calibrations" / "slow.yaml", [&](std::ostream& out) {
        out << replaced(read_file(calibration, 1_MiB), "rate: 400 GB/s", "rate: 200 GB/s");
    });
    slow_scenario = write_scenario(folder, replaced(tiny_text(), "calibration: tiny", "calibration: slow"));
    ASSERT_EQ(run_sluice("lower scenarios/tiny.yaml -o " + schedule).code, 0);
    const std::string of = " --schedule " + schedule + " --trace ";
    ASSERT_EQ(run_sluice("simulate scenarios/tiny.yaml" + of + predicted).code, 0);
    ASSERT_EQ(run_sluice("simulate " + slow_scenario + of + measured).code, 0);
}

}  // namespace sluice
