// What a job's checkpoints are, as its record says: whose they are, what the job goes on from, and
// what their manifests say of the job.
#ifndef MILLRACE_COORDINATOR_JOB_JOB_CHECKPOINTS_H_
#define MILLRACE_COORDINATOR_JOB_JOB_CHECKPOINTS_H_

#include <functional>
#include <string>

#include "coordinator/checkpoint/checkpointer.h"
#include "coordinator/journal/job_record.pb.h"

namespace millrace::coordinator {

// The options of the job's Checkpointer, but for `wake`, `file_system`, `hold` and `clock`. `now`
// returns the record as it is whenever a manifest is written; it must not block. REQUIRES: the job
// has a directory for checkpoints and is planned; which checkpoint it goes on from does not change
// any more.
Checkpointer::Options CheckpointsOf(const JobRecord& record, std::function<JobRecord()> now);

// What the job says of itself when it takes its directory (CheckpointHold).
std::string HolderName(const JobRecord& record);

// Whether the job's directory may be made, to be held: one that has checkpoints of the job, or
// those that it goes on from, is there, or is not mounted.
bool MayMakeDirectory(const JobRecord& record);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_JOB_CHECKPOINTS_H_
