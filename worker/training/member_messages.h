// What a worker says of its jobs.
#ifndef MILLRACE_WORKER_TRAINING_MEMBER_MESSAGES_H_
#define MILLRACE_WORKER_TRAINING_MEMBER_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/cluster.pb.h"
#include "worker/training/work_queue.h"

namespace millrace::worker {

MemberMessage PlannedMessage(uint64_t request_id, const absl::StatusOr<JobPlan>& plan);

// `remark`: of a worker that can run the job; may be empty.
MemberMessage PreparedMessage(const std::string& job_id, const absl::Status& status,
                              const std::string& remark);

// `result` lacks the two ids.
MemberMessage StepMessage(const std::string& job_id, uint64_t lease_id, StepResult result);

// The lease goes back from step `work` on. OK: nothing is wrong.
MemberMessage ReturnedMessage(const std::string& job_id, const StepWork& work,
                              const absl::Status& status);

// `result` lacks the two ids.
MemberMessage EvaluationMessage(const std::string& job_id, uint64_t evaluation_id,
                                absl::StatusOr<EvaluationResult> result);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_MEMBER_MESSAGES_H_
