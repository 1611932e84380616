// The job whose checkpoints are kept in this folder, one directory for each version of the format.
#ifndef MILLRACE_TESTING_CHECKPOINT_KEPT_JOB_H_
#define MILLRACE_TESTING_CHECKPOINT_KEPT_JOB_H_

#include "common/checkpoint/checkpoint_test_util.h"

namespace millrace::testing {

// At its second checkpoint, which refers to much of the first.
inline TestJob KeptJobBefore() { return MakeTestJob(/*seed=*/7); }
inline TestJob KeptJob() {
  TestJob job = KeptJobBefore();
  job.step = 12;
  job.variables[0].arrays[0][0] = -1.5f;
  job.variables[0].arrays[1][14] = 0.1f;
  return job;
}

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_CHECKPOINT_KEPT_JOB_H_
