// Where shards of a job go that leave their servers, or are made again from a checkpoint. Pure
// functions.
#ifndef MILLRACE_COORDINATOR_SHARDS_REMAKE_PLAN_H_
#define MILLRACE_COORDINATOR_SHARDS_REMAKE_PLAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/journal/job_record.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Where a shard may go.
struct TargetServer {
  std::string directory_id;
  std::string name;
  std::string address;
  uint64_t held = 0;  // In elements, by all jobs.
};

// The job's shards, of which those of `again` (by shard) are to be made again, and those that were
// to be anyway; all of them from `from`, and dropped first, but for those that are to be made of it
// already where they are. Of these, those of `moves` go to the servers that hold least. REQUIRES:
// servers is not empty, if any shard moves.
std::vector<ShardPlacement> PlaceAgain(std::vector<ShardPlacement> shards,
                                       const std::vector<bool>& again,
                                       const std::vector<bool>& moves, const ShardRestore& from,
                                       absl::Span<const TargetServer> servers);

struct ShardMove {
  uint32_t shard = 0;
  TargetServer to;
};

// The shards that are in directories that are left go to the servers that hold least. With
// `rebalances` one after another of the rest goes from a server that holds much to the one that
// holds least, as long as the more of the two is less afterwards. No shard moves twice. Nothing
// where there are no servers.
std::vector<ShardMove> PlanMoves(
    absl::Span<const ShardPlacement> shards,
    const std::function<bool(const std::string& directory_id)>& is_left,
    absl::Span<const TargetServer> servers, bool rebalances = false);

// Places the shard there.
void PlaceOn(const TargetServer& server, ShardPlacement& shard);

// "all shards", "shard 1", "shards 1, 2": those that are to be made, for people.
std::string DescribeRemade(absl::Span<const ShardPlacement> shards);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_REMAKE_PLAN_H_
