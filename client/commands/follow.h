// A job, followed to its end.
#ifndef MILLRACE_CLIENT_COMMANDS_FOLLOW_H_
#define MILLRACE_CLIENT_COMMANDS_FOLLOW_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/commands/exit_code.h"
#include "client/job_outcome.h"
#include "client/jobs_client.h"
#include "client/progress/progress_view.h"

namespace millrace::client {

// Shows a job's events in `view` (all but Finish, which is the caller's) until it ends. Statuses as
// JobsClient::Watch.
absl::StatusOr<JobOutcome> FollowJob(JobsClient* client, const std::string& job_id,
                                     ProgressView* view);

// What a user is told who stops following a job of a cluster.
std::string DetachedNote(const std::string& job_id, const std::string& cluster);

// What a user is told who stops while a cluster is asked to take a job.
std::string MaybeTakenNote(const std::string& cluster);

// 0 for a job that succeeded, 1 for one that failed or was cancelled.
ExitCode ExitCodeOf(const JobOutcome& outcome);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_FOLLOW_H_
