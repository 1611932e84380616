// The job that a command line means.
#ifndef MILLRACE_CLIENT_COMMANDS_LOAD_JOB_H_
#define MILLRACE_CLIENT_COMMANDS_LOAD_JOB_H_

#include "absl/status/statusor.h"
#include "client/commands/flags.h"
#include "protos/job.pb.h"

namespace millrace::client {

// Reads the job file and applies --set and --data, which is made absolute. The result is not
// checked (CheckJobSpec). UsageError: the file cannot be read, a --set is wrong. INVALID_ARGUMENT:
// the file is no job.
absl::StatusOr<JobSpec> LoadJob(const Flags& flags);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_LOAD_JOB_H_
