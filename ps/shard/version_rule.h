// Synchronous training: a version is made of the contributions of `replicas` steps.
#ifndef MILLRACE_PS_SHARD_VERSION_RULE_H_
#define MILLRACE_PS_SHARD_VERSION_RULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/types/optional.h"
#include "ps/dense/running_sum.h"
#include "ps/shard/clipped_mean.h"
#include "ps/shard/step_rule.h"

namespace millrace::ps {

// Steps [begin, end) are the contributions to `version`.
struct VersionSteps {
  uint64_t begin = 0;
  uint64_t end = 0;
};
VersionSteps StepsOfVersion(uint64_t version, uint64_t replicas, uint64_t total_steps);

// Holds contributions until a version has all of them. The gradient of a version with contributions
// g_0 .. g_{n-1}, which are means over e_0 .. e_{n-1} examples (0 counts as 1), is
//
//   (g_0 + w_1 g_1 + ... + w_{n-1} g_{n-1}) / ((e_0 + ... + e_{n-1}) / e_0),  w_i = e_i / e_0,
//
// element by element in float32, added from the left: the mean over all their examples. The result
// is the same bit for bit in whatever order and pieces they came. With one contribution it is g_0.
//
// A complete contribution is added as soon as all before it are, while others are under way; its
// received bytes are released then. So what is left to do when the last one comes is, mostly, that
// one; and what is kept are the sum and the contributions that came before their turn.
//
// With a norm to clip by, the last contribution is added like the others, and is held like them as
// soon as the mean is measured. The version then waits for SetNorm (see ClippedMean).
class VersionRule final : public StepRule {
 public:
  // `tools` must outlive it. `held`: contributions to the current version, from an earlier life, as
  // Held() gave them. `global_clip_norm`: see OptimizerSpec. REQUIRES: replicas >= 1.
  VersionRule(const UpdateTools& tools, uint64_t replicas, uint64_t total_steps,
              const std::vector<PushPtr>& held,
              absl::optional<double> global_clip_norm = absl::nullopt);

  absl::Status Admit(const ShardState& state, uint64_t step) const override;
  bool Wants(const ShardState& state, uint64_t step) const override;
  void Started(const PushPtr& /*push*/) override {}
  void Completed(const ShardState& state, const PushPtr& push,
                 std::vector<Answered>* answered) override;
  void Discarded(const PushPtr& /*push*/) override {}
  std::vector<PushPtr> Fence() override { return {}; }
  std::vector<PushPtr> GiveUp() override;
  absl::optional<Work> Next(const StatePtr& state, std::vector<Answered>* answered) override;
  absl::optional<Computed> Done(const Work& work) override;
  std::vector<PushPtr> Held() const override;
  AppliedSet HeldSteps() const override;
  VersionMeasure Measure(const ShardState& state) const override;
  absl::Status SetNorm(double norm) override;

 private:
  // What is done with the pieces of the contribution at hand.
  struct Addition {
    std::shared_ptr<RunningSum> sum;
    std::shared_ptr<StagedUpdate> update;  // nullptr: it is not the last one.
    bool first = false;
    float weight = 1;
    float divisor = 1;
  };

  static void Add(const Addition& addition, const WirePiece& piece);
  // Whether all contributions to the version after `state` are in the sum.
  bool HasWholeSum(const ShardState& state) const;
  // By which the sum is divided. REQUIRES: all contributions are held.
  float Divisor() const;
  // Takes the next contribution in order, if it is there.
  void BeginAddition(const StatePtr& state);
  absl::optional<Work> NextOfMean(const StatePtr& state, std::vector<Answered>* answered);
  // The version is made.
  Computed Finish();

  const UpdateTools tools_;
  const uint64_t replicas_;
  const uint64_t total_steps_;
  const absl::optional<double> global_clip_norm_;
  // Complete contributions, by step; all of the version under way. The first `added_` of them are
  // in the sum, and have no pieces any more.
  absl::btree_map<uint64_t, PushPtr> held_;
  size_t added_ = 0;
  std::shared_ptr<RunningSum> sum_;  // nullptr: nothing was added.
  PushPtr last_;                     // The one that completed the version: it waits for its answer.

  // With a norm to clip by: the sum is whole.
  absl::optional<ClippedMean> mean_;

  // The contribution that is being added.
  absl::optional<Addition> addition_;
  std::vector<PushPieces> pieces_;  // Of those, the first `claimed_` were given out as work,
  size_t claimed_ = 0;
  uint64_t computed_elements_ = 0;  // and so many elements are done.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_VERSION_RULE_H_
