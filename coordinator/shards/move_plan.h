// Where shards of a job go that leave their servers. Pure functions.
#ifndef MILLRACE_COORDINATOR_SHARDS_MOVE_PLAN_H_
#define MILLRACE_COORDINATOR_SHARDS_MOVE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/journal/job_record.pb.h"

namespace millrace::coordinator {

// Where a shard may go.
struct TargetServer {
  std::string directory_id;
  std::string name;
  std::string address;
  uint64_t held = 0;  // In elements, by all jobs.
};

struct ShardMove {
  uint32_t shard = 0;
  TargetServer to;
};

// The servers that hold least get the shards of `moving`. REQUIRES: servers is not empty, if any
// shard moves.
std::vector<ShardMove> MovesToThoseWithLeast(absl::Span<const ShardPlacement> shards,
                                             const std::vector<size_t>& moving,
                                             absl::Span<const TargetServer> servers);

// Shards for whose directory `is_left` says yes go to the servers that hold least. With
// `rebalances` one after another of the rest goes from a server that holds much to the one that
// holds least, as long as the more of the two is less afterwards. No shard moves twice. Nothing
// where there are no servers.
std::vector<ShardMove> PlanMoves(
    absl::Span<const ShardPlacement> shards,
    const std::function<bool(const std::string& directory_id)>& is_left,
    absl::Span<const TargetServer> servers, bool rebalances = false);

// Places the shard there.
void PlaceOn(const TargetServer& server, ShardPlacement& shard);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_MOVE_PLAN_H_
