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
#include "worker/parameters/retried_calls.h"

namespace millrace::worker {

// Pieces are sent as they are added and kept, so that Wait can push a shard again when that fails.
// Thread-safe.
class PushOperation final : public ParameterClient::Push, private RetriedCalls {
 public:
  PushOperation(std::shared_ptr<ClientCore> core, uint64_t step, uint32_t examples);
  ~PushOperation() override { CloseAll(); }

  void AddFirst(size_t variable, size_t count, EncodedNumbers gradient,
                std::shared_ptr<const void> owner) override;
  void AddRows(size_t variable, std::shared_ptr<const VariableRows> rows, EncodedNumbers gradient,
               std::shared_ptr<const void> owner) override;
  void Commit() override;
  absl::Status Wait(absl::Time deadline) override;
  absl::optional<uint32_t> FirstUnanswered() const override {
    return RetriedCalls::FirstUnanswered();
  }

 private:
  // What is there of a shard's share; a part of the call, too.
  struct Share {
    // All that were added. Those with rows leave as such or, to a server that does not know rows,
    // with all elements.
    std::vector<OutgoingPiece> pieces;
    std::vector<uint64_t> added;           // Elements that they stand for, by slice.
    uint64_t unadded = 0;                  // Elements to come, of all slices.
    size_t sent = 0;                       // Of `pieces`, in the current attempt.
    size_t unsent_elements = 0;            // That the pieces from `sent` on stand for.
    std::shared_ptr<PushAttempt> attempt;  // The part's.
    bool rows_refused = false;             // An attempt was refused that contained rows.
  };

  // Makes pieces, one for each block, of what is new of a slice and of its variable's first `count`
  // elements, once they fill a block or are the slice's last. What was added twice does not count.
  void AddPieces(const SliceLocation& location, size_t count, EncodedNumbers gradient,
                 const std::shared_ptr<const void>& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);

  // All of a slice.
  void AddRowPieces(const SliceLocation& location, std::vector<OutgoingPiece> pieces)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);

  // Sends what is due of a shard, with a new attempt if there is none.
  void Send(size_t shard) override;
  void OnFailed(size_t shard, Attempt::Again again) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);

  bool IsDue(size_t shard) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  // How many of the shard's pieces may leave now.
  size_t Sendable(const Share& share) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->monitor()->mutex);
  PushRequest MakeHeader(size_t shard);

  const uint64_t step_;
  const uint32_t examples_;
  std::vector<Share> shares_ ABSL_GUARDED_BY(core_->monitor()->mutex);  // One for each shard.
  bool committed_ ABSL_GUARDED_BY(core_->monitor()->mutex) = false;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PUSH_OPERATION_H_
