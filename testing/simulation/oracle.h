// What each state of a job's shards must be.
#ifndef MILLRACE_TESTING_SIMULATION_ORACLE_H_
#define MILLRACE_TESTING_SIMULATION_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/applied_set.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_state.h"
#include "ps/shard/shard.h"

namespace millrace::simulation {

// The job of a simulation.
struct JobShape {
  uint32_t shards = 1;
  uint64_t total_steps = 1;
  uint32_t replicas = 0;         // Contributions of a synchronous version; 0: asynchronous.
  uint32_t staleness_bound = 0;  // Asynchronous.
  bool pull_ahead = false;       // The same.
  uint32_t backup = 0;           // Synchronous: see StepRules.
  bool clips = false;            // The same: gradients, by their norm over all shards.
  uint64_t evaluate_every = 0;   // Steps from one evaluation to the next; 0: only at the end.
  absl::Duration checkpoint_every = absl::ZeroDuration();  // Zero: there are none.
  uint32_t checkpoints_kept = 1;
  bool keeps_best = false;  // Checkpoints are taken of evaluated states, too.
};

// What a pull brings of a shard.
struct PulledState {
  std::vector<float> values;
  AppliedSet applied;
  uint64_t version = 0;
};

// Asynchronous: gradients are small whole numbers that follow from the step alone, so values are
// minus their sum, exactly and in whatever order. Synchronous: gradients follow from the step and
// from the values of all shards, so that a version has its bits only if each of its contributions
// was computed on the version before, on every shard, and added in its place; what these bits are
// is found by shards that nothing happens to, not by another way to compute them.
class Oracle {
 public:
  static constexpr size_t kElements = 7;  // Of a shard.

  explicit Oracle(const JobShape& shape);

  ShardSpec SpecOf(uint32_t shard) const;

  // Of a step; the mean over so many examples. `pulled`: by shard.
  static uint32_t ExamplesOf(uint64_t step) { return 1 + static_cast<uint32_t>(step * 7 % 5); }
  std::vector<float> Gradient(uint64_t step, uint32_t shard,
                              const std::vector<PulledState>& pulled) const;

  // What is wrong with a state of a shard; empty: nothing.
  std::string Check(uint32_t shard, const PulledState& state) const;

 private:
  void FindVersions();
  static void Clip(uint64_t version, const std::vector<std::unique_ptr<ps::Shard>>& shards);

  const JobShape shape_;
  std::vector<std::vector<std::vector<float>>> versions_;  // Synchronous: by version and shard.
};

// Copies what a reader of the state sees.
PulledState Copy(const ps::ShardState& state);

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_ORACLE_H_
