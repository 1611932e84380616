// Whether a job may go on where a checkpoint is. Pure functions.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_RESTORE_CHECK_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_RESTORE_CHECK_H_

#include "absl/status/status.h"
#include "protos/checkpoint.pb.h"
#include "protos/cluster.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Whether the job agrees with the checkpoint's in all that gives a step its meaning and a shard its
// slots, and is long enough. INVALID_ARGUMENT names the first field that differs, with both values:
// "batch_size: 64; must be 32 as in the checkpoint of job mnist-1-k3f9 at step 600 (restore)".
// REQUIRES: both specs pass CheckJobSpec.
absl::Status CheckRestoredSpec(const JobSpec& spec, const CheckpointManifest& manifest);

// Whether workers make of the job what they made of the checkpoint's: the same variables, in their
// order, to which a step means the same, and the same data. Other variables may be frozen, and a
// moving average may have another momentum. INVALID_ARGUMENT names what differs, with both values.
absl::Status CheckRestoredPlan(const JobPlan& plan, const JobPlan& saved);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_RESTORE_CHECK_H_
