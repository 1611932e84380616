// A version's mean gradient whose norm over all shards is wanted before it is applied.
#ifndef MILLRACE_PS_SHARD_CLIPPED_MEAN_H_
#define MILLRACE_PS_SHARD_CLIPPED_MEAN_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/exact_square_sum.h"
#include "ps/dense/running_sum.h"
#include "ps/dense/shard_state.h"
#include "ps/dense/staged_update.h"
#include "ps/shard/step_rule.h"

namespace millrace::ps {

// Measures the mean, waits until it is told the norm, and applies the mean times the factor that
// follows from it. The sum that it is made of is not changed, so that it can be kept and measured
// anew in another life. Statistics neither count nor are multiplied. As StepRule: guarded by the
// shard's lock, and what is computed is handed out as Work, a block at a time.
class ClippedMean {
 public:
  // `tools` must outlive it; `clip_norm` > 0. The mean is `sum` divided by `divisor`; nobody adds
  // to the sum any more.
  ClippedMean(const UpdateTools& tools, double clip_norm, std::shared_ptr<const RunningSum> sum,
              float divisor);

  bool is_measured() const { return phase_ != Phase::kMeasuring; }
  VersionMeasure Measure() const;
  // See StepRule.
  absl::Status SetNorm(double norm);

  // Something to compute, if there is. `state` is what the mean is applied to.
  absl::optional<Work> Next(const StatePtr& state);
  // `work`, one of Next's, is computed. Returns whether the update is complete.
  bool Done(const Work& work);

 private:
  enum class Phase { kMeasuring, kMeasured, kApplying };

  bool IsClipped(size_t block) const;
  Work MeasuringOf(size_t block);
  Work ApplyingOf(size_t block);

  const UpdateTools& tools_;
  const double clip_norm_;
  const std::shared_ptr<const RunningSum> sum_;
  const float divisor_;
  // Those that are pushed. Where there are none, one that stands for nothing is worked on.
  std::vector<size_t> blocks_;

  Phase phase_ = Phase::kMeasuring;
  size_t claimed_ = 0;   // Of blocks_, in this phase: those that were given out as work,
  size_t computed_ = 0;  // and those that are done.
  std::shared_ptr<std::vector<ExactSquareSum>> squares_;  // By block.
  ExactSquareSum total_;                                  // Of them.
  absl::optional<double> norm_;
  std::shared_ptr<StagedUpdate> update_;  // kApplying.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_CLIPPED_MEAN_H_
