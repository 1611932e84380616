// Clusters in which servers die, messages are lost, late or repeated, and disks are slow, each from
// a seed of its own: every state that anybody sees is one that the job has without all that, and
// the job gets to its end. The first seed is that of the test; MILLRACE_SIMULATIONS says how many.
//
//   bazel test //testing/simulation:simulation_test --test_env=MILLRACE_SIMULATIONS=100000
#include "testing/simulation/simulation.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "testing/seed/test_seed.h"

namespace millrace::simulation {
namespace {

uint64_t Simulations() {
  uint64_t simulations = 300;
  if (const char* const text = std::getenv("MILLRACE_SIMULATIONS"); text != nullptr) {
    CHECK(absl::SimpleAtoi(text, &simulations)) << "MILLRACE_SIMULATIONS: '" << text << "'";
  }
  return simulations;
}

TEST(SimulationTest, EveryStateIsOneOfAnUndisturbedRun) {
  const uint64_t first = TestSeed();
  const uint64_t simulations = Simulations();
  int kills = 0;
  int steps_back = 0;
  int attached = 0;
  size_t evaluations = 0;
  for (uint64_t i = 0; i < simulations; ++i) {
    Simulation simulation(first + i);
    const std::string wrong = simulation.Run();
    ASSERT_EQ(wrong, "") << simulation.Describe() << "\n"
                         << absl::StrJoin(simulation.Notes(), "\n");
    kills += simulation.kills();
    steps_back += simulation.coordinator().steps_back();
    attached += simulation.coordinator().attached();
    evaluations += simulation.coordinator().evaluations();
  }
  std::cout << simulations << " jobs: " << kills << " processes killed, shards attached "
            << attached << " times, " << steps_back << " of them stepped back, " << evaluations
            << " evaluations" << std::endl;
  // Something did go wrong.
  EXPECT_GT(steps_back, 0);
  EXPECT_GT(evaluations, simulations);
}

}  // namespace
}  // namespace millrace::simulation
