// Checkpoints without values, for tests: every element is 0.
#ifndef MILLRACE_COORDINATOR_TESTING_FAKE_CHECKPOINT_H_
#define MILLRACE_COORDINATOR_TESTING_FAKE_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/applied_set.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

struct FakeCheckpoint {
  std::string job_id = "earlier-1";
  JobSpec spec;
  JobPlan plan;
  // Of each shard; all elements are divided evenly.
  std::vector<AppliedSet> applied;
  uint64_t epoch = 0;
};

// The set of the steps before `watermark` and of those above.
AppliedSet StepsBefore(uint64_t watermark, const std::vector<uint64_t>& above = {});

// A directory that is not there yet.
std::string NewCheckpointDirectory();

// Writes it as the next one of `directory`; returns its number.
uint64_t WriteFakeCheckpoint(const std::string& directory, const FakeCheckpoint& checkpoint);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_FAKE_CHECKPOINT_H_
