// The job that a command line means.
#ifndef MILLRACE_CLIENT_COMMANDS_LOAD_JOB_H_
#define MILLRACE_CLIENT_COMMANDS_LOAD_JOB_H_

#include "absl/status/statusor.h"
#include "client/commands/flags.h"
#include "client/commands/furthest_whole.h"
#include "protos/job.pb.h"

namespace millrace::client {

// Reads the job file, or without one the job of the checkpoint that --restore names (of a
// directory: its furthest whole one; the job then goes on from just that one, and not from a newer
// one), and applies --set and then the flags with a field of their own: --data, --checkpoints,
// --restore, --init_from, --init_rule ... Paths are made absolute. The result is not checked
// (CheckJobSpec). UsageError: the file cannot be read, a flag is wrong. INVALID_ARGUMENT: the file
// is no job. As Checkpoint::Open and OpenFurthestWhole: the checkpoint cannot be read.
absl::StatusOr<JobSpec> LoadJob(const Flags& flags, const Reading& reading);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_LOAD_JOB_H_
