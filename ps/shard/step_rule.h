// How the pushes of a shard become versions: the difference between asynchronous and synchronous
// training. One file for each.
#ifndef MILLRACE_PS_SHARD_STEP_RULE_H_
#define MILLRACE_PS_SHARD_STEP_RULE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "common/exact_square_sum.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/push_assembly.h"
#include "ps/dense/shard_state.h"
#include "ps/dense/staged_update.h"

namespace millrace::ps {

// Enough for a thread to be busy with, and little enough for others to share in.
constexpr uint64_t kWorkElements = kBlockElements;

// A part of an update that one thread computes, without locks. Abandoning it is safe: the rule no
// longer counts on it once the update is dropped.
struct Work {
  std::shared_ptr<StagedUpdate> update;  // nullptr: it only prepares one.
  std::function<void()> compute;
  uint64_t elements = 0;  // That `compute` is through with.
};

// A push that has its answer.
struct Answered {
  PushPtr push;
  PushResponse::Outcome outcome = PushResponse::REFUSED;
};

// The steps of an update that is computed, and the pushes that brought them.
struct Computed {
  std::vector<uint64_t> steps;
  std::vector<Answered> answered;
};

// How far the version under way has come, where its update waits for a norm.
struct VersionMeasure {
  MeasureVersionResponse::State state = MeasureVersionResponse::INCOMPLETE;
  ExactSquareSum squares = {};  // MEASURED: of the shard's part of the mean gradient.
  double norm = 0;              // NORM_KNOWN.
};

// Guarded by the shard's lock, all of it; never computes. `state` is always the published one, and
// changes only after Done returned something.
class StepRule {
 public:
  virtual ~StepRule() = default;

  // OK, or why a push of `step` cannot be taken now. `step` is below the job's end.
  virtual absl::Status Admit(const ShardState& state, uint64_t step) const = 0;

  // Whether a push of `step` could still change anything, so that its data must be kept.
  virtual bool Wants(const ShardState& state, uint64_t step) const = 0;

  // A push began; it has no pieces yet.
  virtual void Started(const PushPtr& push) = 0;

  // The last pieces of a push are there.
  virtual void Completed(const ShardState& state, const PushPtr& push,
                         std::vector<Answered>* answered) = 0;

  // An unfinished push is no more.
  virtual void Discarded(const PushPtr& push) = 0;

  // Forgets what it has of pushes that were not published, and returns those that were complete.
  // What was acknowledged as held stays, and so does the version that follows from it alone.
  virtual std::vector<PushPtr> Fence() = 0;

  // Complete pushes whose answers are still to come; the rule is of no more use afterwards.
  virtual std::vector<PushPtr> GiveUp() { return Fence(); }

  // Something to compute, if there is. Each call gives other work.
  virtual absl::optional<Work> Next(const StatePtr& state, std::vector<Answered>* answered) = 0;

  // `work` is computed. Returns what is to be published when it was the last of its update.
  virtual absl::optional<Computed> Done(const Work& work) = 0;

  // Complete pushes that wait for others of their version, by step. The first one's pieces may
  // stand for several: those that follow without pieces are in them. REQUIRES: no work is under
  // way.
  virtual std::vector<PushPtr> Held() const { return {}; }
  virtual AppliedSet HeldSteps() const { return {}; }

  // Of a rule whose versions await norms. SetNorm lets the version be made; ABORTED: it is not
  // measured; FAILED_PRECONDITION: it was told another norm.
  virtual VersionMeasure Measure(const ShardState& /*state*/) const { return {}; }
  virtual absl::Status SetNorm(double /*norm*/) {
    return absl::AbortedError("no version waits for a norm");
  }

  // What the rule has no more use for: to be freed without the lock, since it may be large.
  using Released = std::vector<std::shared_ptr<const void>>;
  Released TakeReleased() { return std::exchange(released_, {}); }

 protected:
  void Release(std::shared_ptr<const void> what) {
    if (what != nullptr) released_.push_back(std::move(what));
  }

 private:
  Released released_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SHARD_STEP_RULE_H_
