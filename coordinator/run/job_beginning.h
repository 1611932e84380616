// What a job begins with where that is not its initial values: found once, and in its record from
// then on.
#ifndef MILLRACE_COORDINATOR_RUN_JOB_BEGINNING_H_
#define MILLRACE_COORDINATOR_RUN_JOB_BEGINNING_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/run/runner_environment.h"

namespace millrace::coordinator {

// The job goes on from this checkpoint, and from how its evaluations stood then.
void SetRestoredFrom(const RestoredFrom& from, JobRecord& record);

// Both of these block for a bounded time, or until `cancelled` returns true: CANCELLED.
// UNAVAILABLE: the disk does not answer. Others as FindRestore and FindWarmStart return.

// Fixes which checkpoint the job goes on from; where the record has one already, as the furthest,
// it is now one before that. Returns what people should know: which newer ones cannot be used. Does
// nothing for a job without a RestoreSpec.
absl::StatusOr<std::vector<std::string>> ResolveRestore(const RunnerEnvironment& environment,
                                                        const std::function<bool()>& cancelled,
                                                        JobRecord& record);

// Fixes which tensors the job's variables begin as. Returns what people should know, or "" where
// there was nothing to do: the job has no WarmStartSpec, is not planned, or was resolved before.
absl::StatusOr<std::string> ResolveWarmStart(const RunnerEnvironment& environment,
                                             const std::function<bool()>& cancelled,
                                             JobRecord& record);

// "goes on at step 600 from checkpoint DIR/000016 of job mnist-1-k3f9", or "" for any other job.
std::string DescribeRestore(const JobRecord& record);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_JOB_BEGINNING_H_
