// Which cuts the shards of a synchronous job are to take, and which they must keep.
#ifndef MILLRACE_COORDINATOR_SHARDS_CUT_PLANNER_H_
#define MILLRACE_COORDINATOR_SHARDS_CUT_PLANNER_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Versions from one cut to the next, a power of two: cuts are `target` apart at most, but `least`
// at least, and then up to twice that. `version_time` is what a version takes; 0: not known.
uint64_t EveryVersions(absl::Duration version_time, absl::Duration target, absl::Duration least);

// Pure but for what it was told before: time is an argument. Not thread-safe.
class CutPlanner {
 public:
  // `period`: the job's.
  explicit CutPlanner(absl::Duration period) : period_(period) {}

  // Training goes on from what the shards say. A first cut is asked for soon, others follow, and
  // the time between them grows up to the period. `catch_up`: the highest version that there was
  // before shards were lost; a cut is asked for when it is reached again. 0: none.
  void Start(absl::Span<const ShardStatus> shards, uint64_t catch_up, absl::Time now);

  // What all shards say of themselves now. Returns whether the plan has something new that they are
  // to hear of at once: where room for cuts is, or at which version one is asked for.
  bool Observe(absl::Span<const ShardStatus> shards, absl::Time now);

  // Whether shards are worth asking often, since no cut has become common since the start: they are
  // for a few seconds.
  bool AwaitsFirstCommon(absl::Time now) const;

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
  void SeeShards(absl::Span<const ShardStatus> shards);
  void MeasureVersions(uint64_t before, absl::Time now);
  // Returns whether it asks.
  bool AskIfOverdue(absl::Time now);
  // For a version that is ahead of all shards.
  void Ask(absl::Time now);
  absl::Duration Patience(absl::Time now) const;
  // `first`, and twice as long after each time that was asked since a cut became common.
  absl::Duration DoubledEachTime(absl::Duration first) const;
  // What cuts may be apart at most, and must be at least.
  absl::Duration Target(absl::Time now) const;
  absl::Duration Least() const;
  absl::Duration SlowestCut() const;
  uint64_t VersionsIn(absl::Duration time) const;

  const absl::Duration period_;
  absl::Time started_;
  uint64_t catch_up_ = 0;  // See Start.
  uint64_t wanted_ = 0;    // See Want.
  absl::optional<CutName> held_;

  uint64_t asked_ = 0;           // For a cut at this version, so that one becomes common.
  int asked_since_common_ = 0;   // So many times.
  absl::Time patient_from_;      // When one was asked for, or became common.
  bool has_new_common_ = false;  // Since the start.

  uint64_t version_ = 0;  // That all shards have.
  uint64_t newest_ = 0;   // That some shard has.
  bool moves_ = false;    // Whether there were new versions since the start.
  absl::Time version_at_;
  absl::Duration version_time_;
  std::vector<absl::Duration> cut_durations_;  // The newest ones that are known, by shard.
  CutName common_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_CUT_PLANNER_H_
