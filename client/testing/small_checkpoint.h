// Checkpoints for tests of what reads them.
#ifndef MILLRACE_CLIENT_TESTING_SMALL_CHECKPOINT_H_
#define MILLRACE_CLIENT_TESTING_SMALL_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "protos/checkpoint.pb.h"
#include "protos/job.pb.h"

namespace millrace::testing {

struct SmallVariable {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
  std::vector<float> momentum;
};

struct SmallCheckpoint {
  std::string job_id = "small-1-test";
  std::vector<std::string> earlier_job_ids;
  JobSpec spec;
  uint64_t step = 7;
  uint64_t total_steps = 15;
  uint64_t train_examples = 40;
  bool ended = false;
  uint64_t best = 0;  // Checkpoint with the best "eval_loss", 0.25, at step 3; 0: none is kept.
  uint64_t stopped_early_of = 0;  // So many steps; 0: it was not.
  uint64_t base = 0;              // May refer to the files of this one; 0: of none.
  std::vector<SmallVariable> variables = {
      {"logit/kernel", {2, 1}, {1.5f, -2.5f}, {0.25f, 0.5f}},
      {"logit/bias", {1}, {3}, {0.75f}},
  };
};

// Writes the next checkpoint of the directory, which is made: one shard, with momentum. Returns its
// number.
uint64_t WriteSmallCheckpoint(const std::string& directory, const SmallCheckpoint& checkpoint);

// A directory of that name that is not there.
std::string NoDirectory(const std::string& name);

// Changes one byte of a file.
void FlipByte(const std::string& path, uint64_t offset);
void FlipLastByte(const std::string& path);

}  // namespace millrace::testing

#endif  // MILLRACE_CLIENT_TESTING_SMALL_CHECKPOINT_H_
