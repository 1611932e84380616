// How following a job ended.
#ifndef MILLRACE_CLIENT_JOB_OUTCOME_H_
#define MILLRACE_CLIENT_JOB_OUTCOME_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protos/job.pb.h"

namespace millrace::client {

// A value type.
struct JobOutcome {
  std::string job_id;
  JobState state = JOB_STATE_UNSPECIFIED;  // A final one.
  std::string message;                     // FAILED, or SUCCEEDED and stopped early: why.
  uint64_t step = 0;
  uint64_t total_steps = 0;  // 0: not known.
  std::map<std::string, double> metrics;
  BestEvaluation best;                // Empty: none is kept.
  StoppedEarly stopped_early;         // Empty: it was not.
  absl::Duration running;             // From its start to its end.
  TimeSpent time_spent;               // What that went into. Empty: not known.
  StepTimes step_times;               // Of one step. Empty: not known.
  std::vector<std::string> warnings;  // What did not work at the end, as its status says.
  std::string export_file;            // Where the variables went; empty: nowhere.
  std::string export_error;  // Why they could not be written; empty: they could, or need not be.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_JOB_OUTCOME_H_
