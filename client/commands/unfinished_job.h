// What an earlier run left behind.
#ifndef MILLRACE_CLIENT_COMMANDS_UNFINISHED_JOB_H_
#define MILLRACE_CLIENT_COMMANDS_UNFINISHED_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/jobs_client.h"
#include "protos/job.pb.h"

namespace millrace::client {

// The id of the job of `spec`, wherever that began, that has not ended, of a cluster that serves
// one user at a time; nothing where every job has ended. FAILED_PRECONDITION: another job has not;
// `state_dir` names the cluster's state, for the message.
absl::StatusOr<absl::optional<std::string>> FindUnfinishedJob(JobsClient* client,
                                                              const JobSpec& spec,
                                                              const std::string& state_dir);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_UNFINISHED_JOB_H_
