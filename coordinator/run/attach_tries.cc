#include "coordinator/run/attach_tries.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {

absl::Status AttachTries::BeginGeneration(uint64_t generation) {
  if (generation >= kGenerationLimit) {
    return absl::FailedPreconditionError("the job has used up all generations");
  }
  return reporter_->Journal([&](JobRecord& record) { record.set_generation(generation); });
}

absl::Status AttachTries::Pause(const ShardGroup& shards, const absl::Status& status,
                                bool is_costly) {
  Backoff& backoff = is_costly ? costly_backoff_ : backoff_;
  LOG(WARNING) << job_->id() << ": " << OneLine(status.ToString());
  if (IsRefusal(status)) ++refused_;
  return reporter_->Wait(
      absl::StrCat(shards.failed_server(), ", which does not do what it is asked"), backoff.Next(),
      std::string(absl::StripPrefix(status.message(), shards.failed_server() + ": ")));
}

absl::Status AttachTries::AdoptGeneration(ShardGroup& shards, const absl::Status& refusal) {
  const auto statuses = shards.GetThoseThere();
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (!statuses.ok()) return Pause(shards, statuses.status());
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t next, NextGeneration(*statuses, generation()));
  if (next == generation() + 1) return Pause(shards, refusal);
  job_->AppendNotice(absl::StrCat("a shard is at generation ", next - 1,
                                  ", which this coordinator did not set; the job goes on with ",
                                  "generation ", next, " (", std::string(refusal.message()), ")"));
  return BeginGeneration(next);
}

}  // namespace millrace::coordinator
