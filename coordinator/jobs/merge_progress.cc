#include "coordinator/jobs/merge_progress.h"

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

// A shard keeps its newest version and the one before. (Stepping all shards back to a version that
// each of them has in its database would go here.)
absl::Status CheckVersions(absl::Span<const ShardStatus> shards) {
  const auto [oldest, newest] = std::minmax_element(
      shards.begin(), shards.end(),
      [](const ShardStatus& a, const ShardStatus& b) { return a.version() < b.version(); });
  if (newest->version() - oldest->version() <= 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "shard ", oldest->shard(), " came back with version ", oldest->version(), ", but shard ",
      newest->shard(), " is at version ", newest->version(), " and has none before ",
      newest->version() - 1,
      "; a synchronous job cannot go on from shards that are more than one version apart"));
}

}  // namespace

absl::StatusOr<MergedProgress> MergeProgress(absl::Span<const ShardStatus> shards,
                                             uint32_t replicas) {
  CHECK(!shards.empty());
  if (replicas > 0) MILLRACE_RETURN_IF_ERROR(CheckVersions(shards));
  MergedProgress merged;
  for (size_t i = 0; i < shards.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(AppliedSet steps, StepsOf(shards[i]));
    const uint64_t frontier =
        steps.above().empty() ? steps.watermark() : *steps.above().rbegin() + 1;
    merged.frontier = std::max(merged.frontier, frontier);
    merged.done = i == 0 ? std::move(steps) : AppliedSet::Intersection(merged.done, steps);
  }
  return merged;
}

}  // namespace millrace::coordinator
