// When the checkpoints of a job are due.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_POLICY_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_POLICY_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// A checkpoint is due at each multiple of the job's every_steps, and when the last one was begun a
// period ago. One that failed is tried again when the next is due, and not before half a minute has
// passed. Pure but for what it was told before: time is an argument. Not thread-safe.
class CheckpointPolicy {
 public:
  static constexpr absl::Duration kPauseAfterFailure = absl::Seconds(30);

  explicit CheckpointPolicy(const JobSpec& spec);

  // The newest checkpoint is of `step`, begun at `begun`. Where there is none: 0 and now.
  void Start(uint64_t step, absl::Time begun, absl::Time now);

  // One is due at once.
  void SetDue(absl::Time now) { next_time_ = now; }

  // Why one is due now that `step` steps are applied: "every 1000 steps", "every 10m". Empty: none.
  std::string WhyDue(uint64_t step, absl::Time now) const;

  // The step at which the next one is due; infinitely many where none is due by steps.
  uint64_t next_step() const { return next_step_; }

  // One is begun at `step`, for whatever reason; and one has failed.
  void Began(uint64_t step, absl::Time now);
  void Failed(absl::Time now) { not_before_ = now + kPauseAfterFailure; }

 private:
  void SetNextStep(uint64_t step);

  const uint64_t every_steps_;  // 0: not by steps.
  const absl::Duration period_;
  uint64_t next_step_ = 0;
  absl::Time next_time_ = absl::InfiniteFuture();
  absl::Time not_before_ = absl::InfinitePast();
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_CHECKPOINT_POLICY_H_
