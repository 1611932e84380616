// What a job goes on from, decided from what its shards say. Pure functions.
#ifndef MILLRACE_COORDINATOR_SHARDS_ATTACH_DECISION_H_
#define MILLRACE_COORDINATOR_SHARDS_ATTACH_DECISION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/applied_set.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// A generation is below this on every shard, and in the number of a lease.
inline constexpr uint64_t kGenerationLimit = uint64_t{1} << 32;

// The newest cut that all shards have. Where there is no other: the initial values, version 0.
// REQUIRES: shards is not empty.
CutName NewestCommonCut(absl::Span<const ShardStatus> shards);

struct AttachDecision {
  bool step_back = false;  // Otherwise the shards go on as they are.
  // Where they step back: to which cut, and the epoch that begins.
  CutName cut;
  uint64_t steps = 0;  // That the cut has.
  uint64_t epoch = 0;
  std::string why;  // For people.
};

// `replicas`: contributions of a synchronous version; 0: asynchronous, which never steps back.
// REQUIRES: shards is not empty; all have answered under one generation.
AttachDecision DecideAttach(absl::Span<const ShardStatus> shards, uint32_t replicas);

// After a call to all shards under a new generation.
enum class ReachAction {
  kReached,
  kRetry,        // Soon.
  kAskWhoIsNew,  // A shard refuses the generation: see NextGeneration.
  kGiveUp,       // The job fails with the error.
};

// `refused_before`: answers in a row before this one that may become right by themselves, but not
// for ever (a shard that is not there, or no memory for it).
ReachAction DecideReach(const absl::Status& status, int refused_before);
// Whether an answer counts as such.
bool IsRefusal(const absl::Status& status);

// StepBack's INVALID_ARGUMENT says that a shard's epoch has grown since it was asked (by a call
// that was given up): as a refusal it is no reason to give up at once.
absl::Status AsStepBackRefusal(const absl::Status& status);

// The generation to try after `ours`, which a shard refused: above those of all shards, since
// somebody else has set a newer one. FAILED_PRECONDITION: there is none above; the message names
// the shard. REQUIRES: ours is below kGenerationLimit - 1.
absl::StatusOr<uint64_t> NextGeneration(absl::Span<const ShardStatus> shards, uint64_t ours);

// Whether a shard has applied the steps before a barrier, and none after.
enum class BarrierState {
  kReached,
  kBeingApplied,  // The last contributions are held, and the version is being computed.
  kMissing,
  kBeyond,
};
BarrierState StateAtBarrier(const ShardStatus& shard, uint64_t barrier);

// The state of the job, and a shard that is in it: the worst one of all.
struct BarrierCheck {
  BarrierState state = BarrierState::kReached;
  uint32_t shard = 0;
};
BarrierCheck CheckBarrier(absl::Span<const ShardStatus> shards, uint64_t barrier);

// Whether they are of one epoch and version, with the same steps.
bool AreOfOneState(const ShardStatus& a, const ShardStatus& b);
// ABORTED: not all shards are of one state, or one of them holds contributions.
absl::Status CheckTogether(absl::Span<const ShardStatus> shards);

// How many steps of `before` are not in `after`.
uint64_t CountLost(const AppliedSet& before, const AppliedSet& after);

// How a shard came back, for people: "from its cut of version 120".
std::string DescribeOrigin(const ShardStatus& shard);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_ATTACH_DECISION_H_
