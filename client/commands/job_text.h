// A job's status for people and for programs.
#ifndef MILLRACE_CLIENT_COMMANDS_JOB_TEXT_H_
#define MILLRACE_CLIENT_COMMANDS_JOB_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "nlohmann/json_fwd.hpp"
#include "protos/job.pb.h"

namespace millrace::client {

// One JSON object on a line: "job_id", "name", "state", "message", "step", "total_steps",
// "steps_run_again" and "more_may_have_run_again" (both as in JobStatus), "metrics", "warnings",
// and "submitted", "started" and "ended" (RFC 3339), "checkpoint" (CheckpointJson) and "time_spent"
// (TimeSpentJson) as far as these have happened. With an explanation of the job "workers"
// (DevicesJson).
std::string JobJson(const JobStatus& status, const JobExplanation* explanation = nullptr);

// "directory", "path", "number", "step", "bytes" and "written" (RFC 3339).
nlohmann::ordered_json CheckpointJson(const CheckpointInfo& checkpoint);

// "000017 at step 7,000, 12 s ago".
std::string DescribeCheckpoint(const CheckpointInfo& checkpoint, absl::Time now);

// "RUNNING: waits for ps-1 for 12 s", or the state alone.
std::string DescribeState(const JobStatus& status);

// Several lines, one for each thing that is known. `zone` is for the times, `now` for ages.
std::string JobText(const JobStatus& status, absl::TimeZone zone, absl::Time now);

// A table with a line for each job.
std::string JobTable(const std::vector<JobStatus>& jobs, absl::TimeZone zone, absl::Time now);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_JOB_TEXT_H_
