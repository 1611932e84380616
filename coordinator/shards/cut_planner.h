// Which cuts the shards of a synchronous job are to take, and which they must keep.
#ifndef MILLRACE_COORDINATOR_SHARDS_CUT_PLANNER_H_
#define MILLRACE_COORDINATOR_SHARDS_CUT_PLANNER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Versions from one cut to the next, so that they are `target` apart at most: a power of two.
// `version_time` is what a version takes; 0: not known.
uint64_t EveryVersions(absl::Duration version_time, absl::Duration target);

// Pure but for what it was told before: time is an argument. Not thread-safe.
class CutPlanner {
 public:
  // `period`: the job's.
  explicit CutPlanner(absl::Duration period) : period_(period) {}

  // Training goes on from what the shards say. The first cuts come soon, and the time between them
  // grows up to the period. `catch_up`: the highest version that there was before shards were lost;
  // a cut is asked for when it is reached again. 0: none.
  void Start(absl::Span<const ShardStatus> shards, uint64_t catch_up, absl::Time now);

  // What all shards say of themselves now.
  void Observe(absl::Span<const ShardStatus> shards, absl::Time now);

  // A cut is wanted at this version too, which some shard may have passed; 0: at no other. One
  // that lies nearer goes first.
  void Want(uint64_t version) { wanted_ = version; }
  // Somebody reads this common cut, or is about to: it stays, although newer ones are common.
  // Unset: nobody does.
  void Hold(const absl::optional<CutName>& cut) { held_ = cut; }
  // A version at which all shards can take a cut: they hear of it before they have it.
  uint64_t VersionAhead() const;
  // That some shard has.
  uint64_t newest_version() const { return newest_; }

  // The request for each shard, but for the job and the shard.
  PlanCutsRequest Plan(uint64_t generation, absl::Time now) const;

 private:
  void SeeVersions(absl::Span<const ShardStatus> shards);
  void AskIfOverdue(absl::Time now);
  absl::Duration Target(absl::Time now) const;

  const absl::Duration period_;
  absl::Time started_;
  uint64_t asked_ = 0;   // For a cut at this version.
  uint64_t wanted_ = 0;  // See Want.
  absl::optional<CutName> held_;

  uint64_t version_ = 0;  // That all shards have.
  uint64_t newest_ = 0;   // That some shard has.
  absl::Time version_at_;
  absl::Duration version_time_;
  absl::Duration cut_duration_;
  CutName common_;
  absl::Time common_at_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_CUT_PLANNER_H_
