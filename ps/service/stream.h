// What push and pull streams have in common: reading one message at a time, a queue of messages to
// write, and one end.
#ifndef MILLRACE_PS_SERVICE_STREAM_H_
#define MILLRACE_PS_SERVICE_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace::ps {

class StreamRegistry;

// Keeps itself alive until gRPC is done with it, and others that hold it may use it even after
// that. One read and one write are outstanding at most. The protected calls may come from any
// thread.
//
// gRPC never runs a reaction within the call that starts its operation, so operations are started
// under the lock: what else would keep a stream from being finished, and gone, between the check
// and the start.
class Stream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
               public std::enable_shared_from_this<Stream> {
 public:
  // Starts serving; for the handler to return. Ends at once when the registry is stopped.
  static Stream* Start(std::shared_ptr<Stream> stream, StreamRegistry* registry);

  // Ends the stream with `status`: after the write under way, without those that wait. The first
  // call counts.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  void OnReadDone(bool ok) final;
  void OnWriteDone(bool ok) final;
  void OnCancel() final;
  void OnDone() final;

 protected:
  Stream() = default;

  // A message came. Call ReadNext for another one.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // The client has no more messages.
  virtual void OnLastMessage() = 0;
  // All that was sent is written.
  virtual void OnIdle() {}
  // The stream is about to end early; called once at most, before OnEnded.
  virtual void OnEnding() {}
  // The last call.
  virtual void OnEnded() {}

  void ReadNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but where many messages wait to be written, when they are: a client that does not
  // read its answers is not given ever more of them.
  void ReadNextWhenWritten() ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops the message when the stream is ending.
  void Send(grpc::ByteBuffer message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends with OK when all that was sent is written.
  void EndWhenWritten() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::shared_ptr<Stream> self_;        // Until OnDone.
  StreamRegistry* registry_ = nullptr;  // Set once, in Start.

  grpc::ByteBuffer incoming_;  // The read's.
  grpc::ByteBuffer outgoing_;  // The write's.

  Mutex mutex_;
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_when_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool end_when_written_ ABSL_GUARDED_BY(mutex_) = false;
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// The streams that are open. Thread-safe.
class StreamRegistry {
 public:
  // False when it is stopped.
  bool Add(Stream* stream, const std::shared_ptr<Stream>& owner) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all streams, and those that start from now on, with UNAVAILABLE.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<Stream*, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

// A message as its bytes.
grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_SERVICE_STREAM_H_
