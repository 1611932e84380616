// Which states of a shard become cuts in synchronous mode, and what is known of those that did.
#ifndef MILLRACE_PS_SHARD_CUT_PLAN_H_
#define MILLRACE_PS_SHARD_CUT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_state.h"

namespace millrace::ps {

// What the database has of a shard, for its status.
struct CutReport {
  std::vector<CutName> cuts;  // The oldest first, without version 0.
  uint64_t flushed_version = 0;
  std::string trouble;  // See ShardStatus.trouble.
  absl::Duration took;  // Writing the newest one.
};

// A state that is to become a cut.
struct CapturedCut {
  uint64_t epoch = 0;
  StatePtr state;
};

// Captures the states of chosen versions at the moment of their publication, so that every shard of
// a job has cuts of the same versions. Not thread-safe.
class CutPlan {
 public:
  // See PlanCutsRequest. A version that is there already is not captured any more.
  void Set(uint64_t every_versions, uint64_t also_at) {
    every_versions_ = every_versions;
    also_at_ = also_at;
  }

  // With false, only `also_at` is captured: the disk is busy, or has enough cuts.
  void Allow(bool allowed) { allowed_ = allowed; }

  // `state` was published. Returns whether it was captured: where one is captured already, only
  // `also_at` is, in its place.
  bool Published(uint64_t epoch, const StatePtr& state);

  // What is captured, which is not returned again; one at a time. As Allow(false) where there is
  // something: whoever writes it says when there is room for the next one.
  absl::optional<CapturedCut> Take();

  // The shard has stepped back: what was captured is not of its history any more. Returns it.
  StatePtr Forget();

 private:
  uint64_t every_versions_ = 0;
  uint64_t also_at_ = 0;
  bool allowed_ = true;
  CapturedCut captured_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_CUT_PLAN_H_
