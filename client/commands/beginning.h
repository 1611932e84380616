// Where a job of an embedded cluster begins that may have been begun before.
#ifndef MILLRACE_CLIENT_COMMANDS_BEGINNING_H_
#define MILLRACE_CLIENT_COMMANDS_BEGINNING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/commands/furthest_whole.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "protos/job.pb.h"

namespace millrace::client {

struct Beginning {
  JobSpec spec;                    // What to submit.
  std::vector<std::string> notes;  // What the user should know. Sentences.
  // The checkpoint of the job's end: there is nothing left to do.
  std::unique_ptr<Checkpoint> ended;
};

// A job goes on from the furthest whole checkpoint in its own directory of checkpoints, if there is
// one; so does a job that restores a checkpoint of another directory and has gone on from there
// before. One that restores a checkpoint of its own directory begins there, and goes on from the
// furthest when it has done so before; one without checkpoints begins as it says. INVALID_ARGUMENT:
// the checkpoints are of another job: names what differs and what to do. DATA_LOSS: none of the
// checkpoints is whole; CANCELLED: interrupted. REQUIRES: the spec has passed CheckJobSpec.
absl::StatusOr<Beginning> FindBeginning(const JobSpec& spec, const Reading& reading);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_BEGINNING_H_
