#include "coordinator/shards/move_plan.h"

#include <algorithm>
#include <utility>

#include "absl/types/optional.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/placement/placement.h"

namespace millrace::coordinator {
namespace {

// What servers hold, while shards move between them.
class Balance {
 public:
  Balance(absl::Span<const ShardPlacement> shards, absl::Span<const TargetServer> servers)
      : shards_(shards), servers_(servers.begin(), servers.end()), has_moved_(shards.size()) {}

  void Note(const ShardMove& move) {
    has_moved_[move.shard] = true;
    const uint64_t elements = ElementsOf(shards_[move.shard]);
    const std::string& from = shards_[move.shard].directory_id();
    for (TargetServer& server : servers_) {
      if (server.directory_id == move.to.directory_id) server.held += elements;
      if (server.directory_id == from) server.held -= std::min(server.held, elements);
    }
  }

  // The move that helps most; it is noted. Nothing: none helps.
  absl::optional<ShardMove> Improve() {
    const TargetServer to = *std::min_element(
        servers_.begin(), servers_.end(),
        [](const TargetServer& a, const TargetServer& b) { return a.held < b.held; });
    absl::optional<ShardMove> best;
    uint64_t most = 0;
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      const uint64_t before = HeldBy(shards_[shard].directory_id());
      const uint64_t after = to.held + ElementsOf(shards_[shard]);
      if (has_moved_[shard] || before <= after || before - after <= most) continue;
      most = before - after;
      best = ShardMove{shard, to};
    }
    if (best) Note(*best);
    return best;
  }

 private:
  // 0: it is no server that shards may go to.
  uint64_t HeldBy(const std::string& directory_id) const {
    for (const TargetServer& server : servers_) {
      if (server.directory_id == directory_id) return server.held;
    }
    return 0;
  }

  const absl::Span<const ShardPlacement> shards_;
  std::vector<TargetServer> servers_;
  std::vector<bool> has_moved_;  // By shard.
};

}  // namespace

std::vector<ShardMove> MovesToThoseWithLeast(absl::Span<const ShardPlacement> shards,
                                             const std::vector<size_t>& moving,
                                             absl::Span<const TargetServer> servers) {
  if (moving.empty()) return {};
  std::vector<ShardSlices> slices;
  for (const size_t shard : moving) {
    slices.emplace_back(shards[shard].slices().begin(), shards[shard].slices().end());
  }
  std::vector<uint64_t> held;
  for (const TargetServer& server : servers) held.push_back(server.held);
  const std::vector<size_t> assigned = AssignShards(slices, std::move(held));
  std::vector<ShardMove> moves;
  for (size_t i = 0; i < moving.size(); ++i) {
    moves.push_back({static_cast<uint32_t>(moving[i]), servers[assigned[i]]});
  }
  return moves;
}

std::vector<ShardMove> PlanMoves(absl::Span<const ShardPlacement> shards,
                                 const std::function<bool(const std::string&)>& is_left,
                                 absl::Span<const TargetServer> servers, bool rebalances) {
  if (servers.empty()) return {};
  std::vector<size_t> moving;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (is_left(shards[i].directory_id())) moving.push_back(i);
  }
  std::vector<ShardMove> moves = MovesToThoseWithLeast(shards, moving, servers);
  if (!rebalances) return moves;
  Balance balance(shards, servers);
  for (const ShardMove& move : moves) balance.Note(move);
  while (const auto move = balance.Improve()) moves.push_back(*move);
  return moves;
}

void PlaceOn(const TargetServer& server, ShardPlacement& shard) {
  shard.set_directory_id(server.directory_id);
  shard.set_server(server.name);
  shard.set_address(server.address);
}

}  // namespace millrace::coordinator
