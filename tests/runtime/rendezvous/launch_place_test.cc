#include "runtime/rendezvous/launch_place.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace sluice {
namespace {

using Variables = std::map<std::string, std::string>;

Environment of(const Variables& variables) {
    return [variables](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
}

const Variables kMaster = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};

std::string text(const LaunchPlace& place) {
    return std::to_string(place.process) + " of " + std::to_string(place.processes) + ", here " +
           std::to_string(place.local) + ", at " + describe(place.meeting);
}

std::string place_in(Variables variables, const LaunchFlags& flags = {}) {
    variables.insert(kMaster.begin(), kMaster.end());
    try {
        return text(read_launch_place(flags, of(variables)));
    } catch (const InputError& error) {
        return error.what();
    }
}

TEST(LaunchPlace, is_what_the_launcher_says) {
    const std::string expected = "5 of 8, here 1, at tcp:node1:29500";
    EXPECT_EQ(place_in({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}), expected);
    EXPECT_EQ(
        place_in({{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}),
        expected);
    EXPECT_EQ(place_in({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}}), expected);
    EXPECT_EQ(place_in({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}}), expected);
}

TEST(LaunchPlace, flags_come_before_the_environment) {
    const Variables torchrun = {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}};
    EXPECT_EQ(place_in(torchrun, {"0", "2", "file:/run/meeting"}), "0 of 2, here 1, at file:/run/meeting");
    EXPECT_EQ(place_in({}, {"1", "2", ""}), "1 of 2, here 1, at tcp:node1:29500");
    EXPECT_EQ(place_in(torchrun, {"", "", "tcp:[::1]:400"}), "5 of 8, here 1, at tcp:::1:400");
    EXPECT_EQ(place_in(torchrun, {"", "", "tcp:10.0.0.1:400"}), "5 of 8, here 1, at tcp:10.0.0.1:400");
}

// torchrun's agent has taken the port itself.
TEST(LaunchPlace, leaves_the_port_of_torchrun_alone) {
    Variables torchrun = {
        {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    EXPECT_EQ(place_in(torchrun), "0 of 2, here 0, at tcp:node1:29501");
    torchrun["MASTER_ADDR"] = "node1", torchrun["MASTER_PORT"] = "65535";
    EXPECT_EQ(place_in(torchrun), "0 of 2, here 0, at tcp:node1:65534");
    torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    EXPECT_EQ(place_in(torchrun), "0 of 2, here 0, at tcp:node1:65535");
}

TEST(LaunchPlace, is_alone_where_nobody_says_otherwise) {
    for (const Variables& alone : {Variables{}, Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                                   // a batch script of Slurm, where srun has begun nothing
                                   Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}}}) {
        const LaunchPlace place = read_launch_place({}, of(alone));
        EXPECT_EQ(place.process, 0U);
        EXPECT_EQ(place.processes, 1U);
    }
}

TEST(LaunchPlace, refuses_what_is_incomplete_or_no_number) {
    EXPECT_EQ(place_in({{"RANK", "8"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}),
              "RANK: got '8', expected a whole number from 0 to 7");
    EXPECT_EQ(place_in({{"RANK", "one"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}),
              "RANK: got 'one', expected a whole number from 0 to 7");
    EXPECT_EQ(place_in({{"RANK", "1"}, {"WORLD_SIZE", "0"}, {"LOCAL_RANK", "1"}}),
              "WORLD_SIZE: got '0', expected a whole number from 1 to 65536");
    EXPECT_EQ(place_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
              "RANK and WORLD_SIZE are set, but LOCAL_RANK is not: expected which of this machine's processes this is");
    EXPECT_EQ(place_in({}, {"1", "", ""}),
              "--rank and --ranks go together: got one of them, expected which process this is, and of how many");
    EXPECT_EQ(place_in({}, {"1", "2", "node1:400"}),
              "--rendezvous: got 'node1:400', expected file:PATH or tcp:HOST:PORT");
    EXPECT_EQ(place_in({}, {"1", "2", "tcp:node1:0"}),
              "--rendezvous: port: got '0', expected a whole number from 1 to 65535");
    EXPECT_THROW(read_launch_place({"1", "2", ""}, of({{"MASTER_ADDR", "node1"}})), InputError);
}

}  // namespace
}  // namespace sluice
