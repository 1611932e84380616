// Where shards of a job go that are made again from a checkpoint. Pure functions.
#ifndef MILLRACE_COORDINATOR_SHARDS_REMAKE_PLAN_H_
#define MILLRACE_COORDINATOR_SHARDS_REMAKE_PLAN_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/shards/move_plan.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// The job's shards, of which those of `again` (by shard) are to be made again, and those that were
// to be anyway; all of them from `from`, and dropped first, but for those that are to be made of it
// already where they are. Of these, those of `moves` go to the servers that hold least. REQUIRES:
// servers is not empty, if any shard moves.
std::vector<ShardPlacement> PlaceAgain(std::vector<ShardPlacement> shards,
                                       const std::vector<bool>& again,
                                       const std::vector<bool>& moves, const ShardRestore& from,
                                       absl::Span<const TargetServer> servers);

// "all shards", "shard 1", "shards 1, 2": those that are to be made, for people.
std::string DescribeRemade(absl::Span<const ShardPlacement> shards);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_REMAKE_PLAN_H_
