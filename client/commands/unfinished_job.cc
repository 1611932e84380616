#include "client/commands/unfinished_job.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_state.h"
#include "common/status_macros.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::client {
namespace {

// Wherever they began.
bool AreOneJob(JobSpec a, JobSpec b) {
  for (JobSpec* spec : {&a, &b}) {
    spec->clear_restore();
    spec->clear_warm_start();
  }
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

}  // namespace

absl::StatusOr<absl::optional<std::string>> FindUnfinishedJob(JobsClient* client,
                                                              const JobSpec& spec,
                                                              const std::string& state_dir) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<JobStatus> jobs, client->List());
  for (const JobStatus& job : jobs) {
    if (HasEnded(job.state())) continue;
    MILLRACE_ASSIGN_OR_RETURN(const JobStatus found, client->Get(job.job_id()));
    if (HasEnded(found.state())) continue;
    if (AreOneJob(found.spec(), spec)) {
      return absl::make_optional(job.job_id());
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "--state_dir=", state_dir, " holds a job that has not ended, ", job.job_id(),
        ", and it is another than this one; run that job again to go on with it, or give this one "
        "a directory of its own"));
  }
  return absl::optional<std::string>();
}

}  // namespace millrace::client
