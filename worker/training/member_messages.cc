#include "worker/training/member_messages.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::worker {

MemberMessage PlannedMessage(uint64_t request_id, const absl::StatusOr<JobPlan>& plan) {
  MemberMessage message;
  PlanResult* result = message.mutable_plan_result();
  result->set_request_id(request_id);
  if (plan.ok()) {
    *result->mutable_plan() = *plan;
  } else {
    result->set_code(static_cast<int>(plan.status().code()));
    result->set_message(std::string(plan.status().message()));
  }
  return message;
}

MemberMessage PreparedMessage(const std::string& job_id, const absl::Status& status,
                              const std::string& remark) {
  MemberMessage message;
  JobPrepared* prepared = message.mutable_job_prepared();
  prepared->set_job_id(job_id);
  prepared->set_code(static_cast<int>(status.code()));
  prepared->set_message(status.ok() ? remark : std::string(status.message()));
  return message;
}

MemberMessage StepMessage(const std::string& job_id, uint64_t lease_id, StepResult result) {
  MemberMessage message;
  *message.mutable_step_result() = std::move(result);
  message.mutable_step_result()->set_job_id(job_id);
  message.mutable_step_result()->set_lease_id(lease_id);
  return message;
}

MemberMessage ReturnedMessage(const std::string& job_id, const StepWork& work,
                              const absl::Status& status) {
  MemberMessage message;
  LeaseReturned* returned = message.mutable_lease_returned();
  returned->set_job_id(job_id);
  returned->set_lease_id(work.lease_id);
  returned->set_step(work.step);
  returned->set_code(static_cast<int>(status.code()));
  if (!status.ok()) {
    returned->set_message(absl::StrCat("step ", work.step, ": ", status.message()));
  }
  return message;
}

MemberMessage EvaluationMessage(const std::string& job_id, uint64_t evaluation_id,
                                absl::StatusOr<EvaluationResult> result) {
  MemberMessage message;
  EvaluationResult* told = message.mutable_evaluation_result();
  if (result.ok()) {
    *told = *std::move(result);
  } else {
    told->set_code(static_cast<int>(result.status().code()));
    told->set_message(absl::StrCat("evaluation: ", result.status().message()));
  }
  told->set_job_id(job_id);
  told->set_evaluation_id(evaluation_id);
  return message;
}

}  // namespace millrace::worker
