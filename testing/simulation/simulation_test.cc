// Clusters in which servers die, messages are lost, late or repeated, and disks are slow, each from
// a seed of its own: every state that anybody sees is one that the job has without all that, and
// the job gets to its end.
//
//   bazel test //testing/simulation:simulation_test --test_timeout=7200
//       --test_env=MILLRACE_SIMULATIONS=100000
#include "testing/simulation/simulation.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "testing/seed/test_seed.h"

namespace millrace::simulation {
namespace {

#ifdef MILLRACE_SANITIZER
constexpr uint64_t kSimulations = 100;
#else
constexpr uint64_t kSimulations = 400;
#endif
// Of so many something has happened of each kind.
constexpr uint64_t kMany = 200;

uint64_t Simulations() {
  uint64_t simulations = kSimulations;
  if (const char* const text = std::getenv("MILLRACE_SIMULATIONS"); text != nullptr) {
    CHECK(absl::SimpleAtoi(text, &simulations))
        << "MILLRACE_SIMULATIONS: '" << text << "'; must be a number";
  }
  return simulations;
}

TEST(SimulationTest, EveryStateIsOneOfAnUndisturbedRun) {
  const uint64_t first = TestSeed();
  const uint64_t simulations = Simulations();
  std::map<std::string, uint64_t> counts;
  for (uint64_t seed = first; seed < first + simulations; ++seed) {
    Simulation simulation(seed);
    const std::string wrong = simulation.Run();
    ASSERT_EQ(wrong, "") << "MILLRACE_SEED=" << seed
                         << " MILLRACE_SIMULATIONS=1 repeats it: " << simulation.Describe() << "\n"
                         << absl::StrJoin(simulation.Notes(), "\n");
    for (const auto& [what, count] : simulation.counts()) counts[what] += count;
  }
  for (const auto& [what, count] : counts) std::cout << what << ": " << count << std::endl;
  if (simulations < kMany) return;
  for (const char* what : {"attached",
                           "checkpoints",
                           "checkpoints given up",
                           "checkpoints of evaluations",
                           "directories mistaken",
                           "disks found again",
                           "disks lost",
                           "disks put back",
                           "evaluations",
                           "gone for long",
                           "kills",
                           "made again for gone servers",
                           "made again for lost disks",
                           "moves in vain",
                           "moves settled",
                           "norms exchanged",
                           "pulls ahead",
                           "shards dropped",
                           "shards from arenas",
                           "shards made of checkpoints",
                           "steps back",
                           "stops with held contributions",
                           "strays dropped"}) {
    EXPECT_GT(counts[what], 0) << what;
  }
}

}  // namespace
}  // namespace millrace::simulation
