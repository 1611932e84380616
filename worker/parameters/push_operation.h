// ParameterClient::Push.
#ifndef MILLRACE_WORKER_PARAMETERS_PUSH_OPERATION_H_
#define MILLRACE_WORKER_PARAMETERS_PUSH_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/wire/tensor_codec.h"
#include "worker/parameters/client_core.h"
#include "worker/parameters/parameter_client.h"
#include "worker/parameters/push_attempt.h"
#include "worker/parameters/retry.h"

namespace millrace::worker {

// Pieces are sent as they are added and kept, so that Wait can push a shard again when that fails
// (retries happen in Wait only: there is no thread of its own). Thread-safe.
class PushOperation final : public ParameterClient::Push {
 public:
  PushOperation(std::shared_ptr<ClientCore> core, uint64_t step, uint32_t examples);
  ~PushOperation() override;

  void Add(size_t variable, absl::Span<const float> gradient,
           std::shared_ptr<const void> owner) override;
  void Commit() override;
  absl::Status Wait(absl::Time deadline) override;

 private:
  // A shard's share; guarded by the monitor.
  struct Shard {
    std::vector<OutgoingPiece> pieces;  // All that were added.
    uint64_t unadded = 0;               // Elements to come.
    size_t sent = 0;                    // Of `pieces`, in the current attempt.
    size_t unsent_elements = 0;         // In the pieces from `sent` on.
    bool committed = false;             // The last piece may go too.
    std::shared_ptr<PushAttempt> attempt;
    bool done = false;
    absl::Time retry_at = absl::InfinitePast();
    Backoff backoff;
    absl::Status last_failure;
  };

  // What a look at the shards found to be done, without the lock.
  struct Work {
    std::vector<std::shared_ptr<PushAttempt>> to_close;
    std::vector<size_t> to_send;
    absl::Time wake = absl::InfiniteFuture();
    bool all_done = true;
  };

  // Sends what is due of a shard, with a new attempt if there is none.
  void Flush(size_t shard);
  // Takes note of what has become of the shards' attempts. Fails when one was refused.
  absl::Status LookAtShards(absl::Time now, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status LookAtShard(size_t index, absl::Time now, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  absl::Status LookAtAttempt(size_t index, absl::Time now, Work* work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  bool FlushIsDue(const ShardLayout& layout, const Shard& shard) const;
  // How many of the shard's pieces may leave now.
  static size_t Sendable(const Shard& shard);
  PushRequest MakeHeader(size_t shard);
  absl::Status DeadlineExceeded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);

  const std::shared_ptr<ClientCore> core_;
  const uint64_t step_;
  const uint32_t examples_;
  std::vector<Shard> shards_ ABSL_GUARDED_BY(core_->monitor()->mutex);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PUSH_OPERATION_H_
