// One attempt to push one step to one shard: everything sent under one push_id.
#ifndef MILLRACE_WORKER_PARAMETERS_PUSH_ATTEMPT_H_
#define MILLRACE_WORKER_PARAMETERS_PUSH_ATTEMPT_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "worker/parameters/call_stream.h"
#include "worker/parameters/monitor.h"
#include "worker/parameters/server_connections.h"

namespace millrace::worker {

// Thread-safe.
class PushAttempt final : public PendingCall<PushAnswer>,
                          public std::enable_shared_from_this<PushAttempt> {
 public:
  // `header`: all but the pieces. `connections` must outlive the calls to Send.
  PushAttempt(PushRequest header, ServerConnections* connections, std::shared_ptr<Monitor> monitor);

  // Sends pieces in as many messages as it takes, spread over the connections. Does nothing once
  // the attempt has ended.
  void Send(absl::Span<const OutgoingPiece> pieces) ABSL_LOCKS_EXCLUDED(monitor_->mutex);

  // For those who hold the monitor's lock under another name.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(monitor_->mutex) {}

  // The server has answered, or a stream is broken.
  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return ended_; }
  // OK: applied or held. REQUIRES: ended().
  const absl::Status& status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    return status_;
  }
  // The failure is worth another attempt. REQUIRES: ended().
  bool retriable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return retriable_; }

  // The last call. Sends nothing more; and unless the server has answered, breaks the streams that
  // carried a part, so that the server forgets the parts that it has. (Were only one of them
  // broken, parts that arrive later on the others would stay there until those end.)
  void Close() ABSL_LOCKS_EXCLUDED(monitor_->mutex);

 private:
  void OnAnswer(PushAnswer answer) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);
  void OnBroken(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(monitor_->mutex);

  void SendMessage(grpc::ByteBuffer message) ABSL_LOCKS_EXCLUDED(monitor_->mutex);
  // Returns false when nothing more is to be sent.
  bool Use(const std::shared_ptr<PushStream>& stream) ABSL_LOCKS_EXCLUDED(monitor_->mutex);
  void Leave(PushStream* stream, bool answered);

  const PushRequest header_;
  ServerConnections* const connections_;
  const std::shared_ptr<Monitor> monitor_;

  bool ended_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool answered_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool retriable_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool closed_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  absl::Status status_ ABSL_GUARDED_BY(monitor_->mutex);
  std::vector<std::shared_ptr<PushStream>> streams_ ABSL_GUARDED_BY(monitor_->mutex);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_PUSH_ATTEMPT_H_
