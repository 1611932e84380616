// The tries to save the state of the best evaluation.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_BEST_TRIES_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_BEST_TRIES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/retry.h"
#include "protos/events.pb.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// Training waits for it, so a directory that is full or hangs must not cost each evaluation that is
// better as long a wait: one is tried for a minute; after one that could not be saved the next ones
// fail at once for a minute, and after each further one, which is tried once, for twice as long, up
// to a quarter of an hour. A directory that is another run's is tried once from the beginning.
// Pure but for what it was told before: time is an argument. Not thread-safe.
class BestTries {
 public:
  static constexpr absl::Duration kPatience = absl::Minutes(1);

  // All shards have pinned the state of `evaluation` as `cut_id`. REQUIRES: !under_way().
  void Begin(const BestEvaluation& evaluation, const std::string& cut_id, absl::Time now);
  // Nobody waits for it any more, nor for its result.
  void Drop() { best_.reset(); }
  // Something has changed: the next one is tried, whatever became of the one before.
  void ForgetPause() { not_before_ = absl::InfinitePast(); }

  // One is to be saved, and has no result yet.
  bool under_way() const { return best_.has_value() && !best_->result; }
  // What that is, and since when. REQUIRES: under_way().
  const BestEvaluation& evaluation() const { return best_->evaluation; }
  const std::string& cut_id() const { return best_->cut_id; }
  absl::Time since() const { return best_->since; }

  // Whether it is to be tried now.
  bool IsDue(absl::Time now) const { return under_way() && now >= best_->due; }
  // A try has failed; perhaps it has its result with that. REQUIRES: under_way().
  void Failed(const absl::Status& status, absl::Time now);
  // REQUIRES: under_way().
  void End(absl::StatusOr<CheckpointInfo> result, absl::Time now);

  // Its result, once. Nothing: there is none yet, or none is to be saved.
  absl::optional<absl::StatusOr<CheckpointInfo>> TakeResult();

 private:
  struct Best {
    BestEvaluation evaluation;
    std::string cut_id;
    absl::Time since;
    absl::Time due;
    Backoff backoff{absl::Seconds(1), absl::Seconds(10)};
    absl::optional<absl::StatusOr<CheckpointInfo>> result;
  };
  absl::optional<Best> best_;

  // Why the one before could not be saved, and until when none is tried. OK: it was.
  absl::Status failure_;
  absl::Time not_before_ = absl::InfinitePast();
  Backoff pause_{absl::Minutes(1), absl::Minutes(15)};
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_BEST_TRIES_H_
