// A bidirectional gRPC stream of raw messages, open for many requests.
#ifndef MILLRACE_WORKER_PARAMETERS_STREAM_H_
#define MILLRACE_WORKER_PARAMETERS_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "worker/parameters/monitor.h"

namespace millrace::worker {

// Messages are queued without a limit and written one after the other; they refer to their values,
// so the queue is small. Lives, once started, until gRPC has called OnDone, whoever else holds it,
// and then until somebody clears Monitor::ended_streams. Thread-safe.
class Stream : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Stream(std::shared_ptr<grpc::Channel> channel, const char* method,
         std::shared_ptr<Monitor> monitor);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Starts the call; does not wait for the connection. REQUIRES: called once, `self` is this.
  void Start(std::shared_ptr<Stream> self) ABSL_LOCKS_EXCLUDED(mutex_);

  // Breaks the stream, here and at the server. Messages not yet written are dropped.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

  // The same; whoever waits for answers is told the reason now, and not when gRPC is done with the
  // stream: that may take until it gives up the connection.
  virtual void Break(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_) = 0;

  const grpc::Channel* channel() const { return channel_.get(); }

  // False from the moment that it is known to be broken on.
  bool open() const { return open_.load(std::memory_order_relaxed); }

  // Bytes of the messages that gRPC has not accepted yet.
  size_t queued_bytes() const { return queued_bytes_.load(std::memory_order_relaxed); }

 protected:
  ~Stream() override = default;

  struct Queued {
    uint64_t request;
    grpc::ByteBuffer message;
  };

  // Takes a message (it is swapped away). Returns whether the caller is to call StartWriting, once
  // it has let go of the lock. REQUIRES: the stream is open.
  bool EnqueueLocked(uint64_t request, grpc::ByteBuffer* message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWriting() ABSL_LOCKS_EXCLUDED(mutex_) { StartWrite(&writing_); }
  // Takes out the queued messages of a request. Their destruction may run code of their owners: it
  // is left to the caller, who does it without the lock.
  std::list<Queued> DropLocked(uint64_t request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // gRPC has accepted a message of request `written`, and those of `waiting` are nearer to their
  // turns. On gRPC's threads.
  virtual void OnWritten(uint64_t written, const std::vector<uint64_t>& waiting) = 0;
  // A message has come. One call at a time, on gRPC's threads. Returns false to break the stream.
  virtual bool OnMessage(const grpc::ByteBuffer& message) = 0;
  // The last call: the stream is broken.
  virtual void OnBroken(const grpc::Status& status) = 0;

  // Taken after Monitor::mutex and ServerConnections' lock.
  mutable Mutex mutex_;

 private:
  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);

  // The requests of `queue_`, each once.
  std::vector<uint64_t> WaitingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the next message to `writing_`. Returns false when there is none.
  bool NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true, once, when nobody outside gRPC's callbacks will start an operation any more.
  bool TakeHoldLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  const char* const method_;
  const std::shared_ptr<Monitor> monitor_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;     // Belongs to the read under way.
  grpc::ByteBuffer writing_;      // Belongs to the write under way.
  uint64_t written_request_ = 0;  // The same: whose message that is.
  std::shared_ptr<Stream> self_;  // From Start to OnDone.

  std::list<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  // These two change under the lock, and are looked at without it to choose a stream.
  std::atomic<size_t> queued_bytes_{0};  // With those of `writing_`.
  std::atomic<bool> open_{true};
  // A thread is in charge of writing: of `writing_` and of the calls to StartWrite.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  // gRPC waits for our RemoveHold before OnDone.
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_STREAM_H_
