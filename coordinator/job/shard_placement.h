// Where a job's record places its shards. Pure functions.
#ifndef MILLRACE_COORDINATOR_JOB_SHARD_PLACEMENT_H_
#define MILLRACE_COORDINATOR_JOB_SHARD_PLACEMENT_H_

#include <cstdint>
#include <string>

#include "coordinator/journal/job_record.pb.h"

namespace millrace::coordinator {

// Whether this shard of the job is placed on this directory of a ps server.
bool IsPlacedOn(const JobRecord& record, const std::string& directory_id, uint32_t shard);

// By the record, not as its server has it: whether it must be made before it can be reached.
inline bool IsToBeMade(const ShardPlacement& shard) {
  return shard.making() != ShardPlacement::MADE;
}

// Of each array of it.
uint64_t ElementsOf(const ShardPlacement& shard);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_SHARD_PLACEMENT_H_
