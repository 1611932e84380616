#include "coordinator/shards/remake_plan.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/shard_placement.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {

using ::google::protobuf::util::MessageDifferencer;

std::vector<ShardPlacement> PlaceAgain(std::vector<ShardPlacement> shards,
                                       const std::vector<bool>& again,
                                       const std::vector<bool>& moves, const ShardRestore& from,
                                       absl::Span<const TargetServer> servers) {
  std::vector<size_t> moving;
  for (size_t i = 0; i < shards.size(); ++i) {
    ShardPlacement& shard = shards[i];
    if (!again[i] && !IsToBeMade(shard)) continue;
    const bool is_the_same = shard.making() == ShardPlacement::TO_BE_MADE && !moves[i] &&
                             MessageDifferencer::Equals(shard.restore(), from);
    if (is_the_same) continue;  // It may be there already.
    *shard.mutable_restore() = from;
    shard.set_making(ShardPlacement::TO_BE_DROPPED);
    if (moves[i]) moving.push_back(i);
  }
  for (const ShardMove& move : MovesToThoseWithLeast(shards, moving, servers)) {
    PlaceOn(move.to, shards[move.shard]);
  }
  return shards;
}

std::string DescribeRemade(absl::Span<const ShardPlacement> shards) {
  std::vector<size_t> remade;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (IsToBeMade(shards[i])) remade.push_back(i);
  }
  if (remade.size() == shards.size()) return "all shards";
  return absl::StrCat(remade.size() == 1 ? "shard " : "shards ", absl::StrJoin(remade, ", "));
}

}  // namespace millrace::coordinator
