// Synchronous versions whose gradients are clipped by their norm over all shards: when they are
// made, and with which norm.
#ifndef MILLRACE_COORDINATOR_RUN_NORM_EXCHANGE_H_
#define MILLRACE_COORDINATOR_RUN_NORM_EXCHANGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/retry.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/job/job.h"
#include "coordinator/shards/shard_group.h"
#include "protos/job.pb.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// What the shards' answers to MeasureVersion make: the norm to tell them, or nothing, and a shard
// that has not got it yet.
struct NormDecision {
  absl::optional<double> norm;
  uint32_t shard = 0;
  MeasureVersionResponse::State state = MeasureVersionResponse::INCOMPLETE;  // Of `shard`.
};

// A pure function. Where a shard has made the version already, the norm is the one that it was made
// with. INTERNAL: two shards have made it with different ones, or a sum makes no sense.
absl::StatusOr<NormDecision> DecideNorm(absl::Span<const MeasureVersionResponse> shards);

// Of a job that needs no such norms nothing is ever due. Used by one thread.
class NormExchange {
 public:
  // `clock` is not owned.
  NormExchange(const JobSpec& spec, uint64_t total_steps, Clock* clock);

  // Goes on from what the shards say, in one generation and epoch: with the version that the last
  // of them is at. REQUIRES: they are one version apart at most.
  void Start(absl::Span<const ShardStatus> shards);

  // When all steps before this are done, the next exchange is due. ~0: none is.
  uint64_t due_at() const { return due_at_; }

  // Whether one is due, and may be tried now. While it is, the version is not made.
  bool IsDue(uint64_t watermark) const { return watermark >= due_at_; }
  bool MayTry() const { return clock_->Now() >= next_try_; }
  absl::Time next_try() const { return next_try_; }

  // Asks all shards, and tells all of them. Blocks: see ShardGroup; meanwhile `job` says for whom
  // it waits. OK: the version is made everywhere, or is about to be. UNAVAILABLE and the other
  // statuses that pass: to be tried again later; any other: the calls'. REQUIRES: it is due.
  absl::Status Try(ShardGroup& shards, Job& job);

  // For whom the version waits since an exchange has failed; see Dispatcher::FindStall.
  const absl::optional<Dispatcher::Stall>& stall() const { return stall_; }

 private:
  absl::Status Exchange(ShardGroup& shards, Job& job);
  void SetVersion(uint64_t version);
  void WaitFor(const std::string& whom);

  const bool is_needed_;
  const uint64_t replicas_;
  const uint64_t total_steps_;
  Clock* const clock_;

  uint64_t generation_ = 0;
  uint64_t epoch_ = 0;
  uint64_t version_ = 0;
  uint64_t due_at_;
  absl::Time next_try_ = absl::InfinitePast();
  Backoff backoff_;
  absl::optional<Dispatcher::Stall> stall_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_NORM_EXCHANGE_H_
