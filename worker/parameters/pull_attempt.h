// One attempt to pull a part of one shard: a request and its answers.
#ifndef MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_
#define MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "protos/parameter_server.pb.h"
#include "worker/parameters/call_stream.h"
#include "worker/parameters/monitor.h"
#include "worker/parameters/server_connections.h"

namespace millrace::worker {

// Copies the values from the received slices to where they belong, on gRPC's threads. Thread-safe.
class PullAttempt final : public PendingCall<PullAnswer>,
                          public std::enable_shared_from_this<PullAttempt> {
 public:
  // `destinations`: one span for each slice of the shard; it and they must outlive Abandon.
  PullAttempt(PullRequest request, const std::vector<absl::Span<float>>* destinations,
              std::shared_ptr<Monitor> monitor);

  void Send(ServerConnections* connections) ABSL_LOCKS_EXCLUDED(monitor_->mutex);

  // For those who hold the monitor's lock under another name.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(monitor_->mutex) {}

  // All answers have come, or one that says why not, or the stream is broken.
  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return ended_; }
  // REQUIRES: ended().
  const absl::Status& status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    return status_;
  }
  // The failure is worth another attempt. REQUIRES: ended().
  bool retriable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return retriable_; }
  // The server has only waited as long as it was asked to. REQUIRES: ended().
  bool waited() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return waited_; }
  // Values that have come.
  uint64_t elements() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return elements_; }

  // The last call: nothing is written to the destinations after it. Unless all answers have come,
  // breaks the stream, so that the server sends no more of them; other requests on the stream are
  // sent again. Blocks for no longer than it takes to copy a message.
  void Abandon() ABSL_LOCKS_EXCLUDED(monitor_->mutex);

 private:
  void OnAnswer(PullAnswer answer) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);
  void OnBroken(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);

  // Copies the pieces; returns how many elements they have.
  absl::StatusOr<uint64_t> Copy(const std::vector<WirePiece>& pieces) const;
  void EndLocked(absl::Status status, bool retriable)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);

  const PullRequest request_;
  const std::vector<absl::Span<float>>* const destinations_;
  const std::shared_ptr<Monitor> monitor_;

  bool ended_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool abandoned_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool copying_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool retriable_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool waited_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  uint64_t elements_ ABSL_GUARDED_BY(monitor_->mutex) = 0;
  absl::Status status_ ABSL_GUARDED_BY(monitor_->mutex);
  std::shared_ptr<PullStream> stream_ ABSL_GUARDED_BY(monitor_->mutex);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PULL_ATTEMPT_H_
