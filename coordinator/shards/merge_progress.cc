#include "coordinator/shards/merge_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

absl::StatusOr<AppliedSet> StepsOf(const ShardStatus& shard) {
  const auto applied = AppliedSet::FromProto(shard.applied());
  const auto held = AppliedSet::FromProto(shard.held());
  for (const auto* set : {&applied, &held}) {
    if (set->ok()) continue;
    return absl::InternalError(absl::StrCat("shard ", shard.shard(), " reports no set of steps: ",
                                            std::string(set->status().message())));
  }
  return AppliedSet::Union(*applied, *held);
}

}  // namespace

absl::StatusOr<MergedProgress> MergeProgress(absl::Span<const ShardStatus> shards) {
  CHECK(!shards.empty());
  MergedProgress merged;
  for (size_t i = 0; i < shards.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(AppliedSet steps, StepsOf(shards[i]));
    const uint64_t frontier =
        steps.above().empty() ? steps.watermark() : *steps.above().rbegin() + 1;
    if (frontier > merged.frontier) {
      merged.frontier = frontier;
      merged.furthest = shards[i].shard();
    }
    merged.done = i == 0 ? std::move(steps) : AppliedSet::Intersection(merged.done, steps);
  }
  return merged;
}

uint64_t NewestVersion(absl::Span<const ShardStatus> shards) {
  uint64_t newest = 0;
  for (const ShardStatus& shard : shards) newest = std::max(newest, shard.version());
  return newest;
}

}  // namespace millrace::coordinator
