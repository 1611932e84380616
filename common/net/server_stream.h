// A server's end of a bidirectional stream of raw messages, and all such streams of a service.
//
// Locks. Under a stream's lock no operation of gRPC is started, no message is freed and nobody is
// called back. To start an operation may be to write to the socket, and that frees messages, of any
// stream of the connection; and a message may refer to values of others, whose owners take locks.
// So who sends or ends a stream holds no lock that those owners take. gRPC never runs a reaction
// within the call that starts its operation.
//
// Writing. One thread at a time is in charge of it (`busy_`). A thread that queues a message while
// another one is in charge leaves it at that. One that finds nobody in charge takes charge: it
// takes the next message under the lock, and starts to write it without the lock. The reaction to
// the write goes on in charge, until it finds nothing more to start. Thus messages are written in
// the order in which they were queued.
//
// Reading. One message at a time. The first read is started with the stream, all others by
// reactions; gRPC's last call waits for these. Another thread may finish the stream just before
// such a read is started: it fails.
//
// The end. To finish the stream is one more operation. Who is in charge starts it, when nothing is
// being written, and then stays in charge for ever: nothing is started after it but such a read.
// gRPC makes its last call when the stream is finished and all reactions have returned, so never
// while somebody has yet to start what he took charge of.
//
// Life. A stream keeps itself alive from its start to gRPC's last call, and whoever else holds it
// may use it even after that.
//
// Queues. Messages to be written are queued without a limit of the stream's own: which of them
// could be spared, only its users know. They read no more until their answers are written
// (ReadNextWhenWritten), or end a stream whose queue grows (Send says how long it is).
//
// Threads. Public and protected methods may be called from any thread, and in callbacks, but for
// those that say otherwise. None blocks. Callbacks come on gRPC's threads, or on that of a call of
// End (OnEnding), without locks of the stream's, and must not block.
#ifndef MILLRACE_COMMON_NET_SERVER_STREAM_H_
#define MILLRACE_COMMON_NET_SERVER_STREAM_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {

class StreamRegistry;

// One stream, of a method of the raw callback API.
class ServerStream : private grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                     public std::enable_shared_from_this<ServerStream> {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // For ReadNextWhenWritten.
  static constexpr size_t kManyMessages = 1024;

  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  // Starts serving, and reads the first message; for the method's handler to return. Ends at once
  // where the registry is stopped. `registry` must outlive the server.
  static Reactor* Start(std::shared_ptr<ServerStream> stream, StreamRegistry* registry);

  // Queues a message (it is swapped away). Returns how many wait for their turn now; 0 also where
  // the stream is ending, which drops the message.
  size_t Send(grpc::ByteBuffer&& message) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the stream with `status`: after the write under way, without those that wait. The first
  // call counts. Where the client does not read, that write waits for it, or for the connection or
  // the server to end.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 protected:
  ServerStream() = default;
  ~ServerStream() override = default;

  // OnMessage, OnLastMessage and OnEnded come one after the other.

  // A message came, perhaps while the stream is ending. Call ReadNext for another one.
  virtual void OnMessage(const grpc::ByteBuffer& message) = 0;
  // The client has no more messages, or is gone.
  virtual void OnLastMessage() = 0;
  // All that was sent by then is written.
  virtual void OnIdle() {}
  // End ends the stream, called by somebody or because the client is gone; what EndWhenWritten has
  // ended does not come here. Called once at most, and has returned before OnEnded is called.
  virtual void OnEnding() {}
  // The last call.
  virtual void OnEnded() {}

  // Nothing where the stream is ending. REQUIRES, of both: called by OnMessage or OnIdle, once for
  // each message.
  void ReadNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but where kManyMessages or more wait to be written, when none does: a client that
  // does not read its answers is not given ever more of them.
  void ReadNextWhenWritten() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends with OK when all that was sent is written. Nothing where the stream is ending.
  void EndWhenWritten() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Operation { kNone, kWrite, kFinish };

  void OnReadDone(bool ok) final;
  void OnWriteDone(bool ok) final ABSL_LOCKS_EXCLUDED(mutex_);
  void OnCancel() final;
  void OnDone() final ABSL_LOCKS_EXCLUDED(mutex_);

  // What the thread in charge is to start; none: nobody is in charge any more.
  Operation NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, where nobody is in charge; none: somebody is, or there is nothing to start.
  Operation TakeChargeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartOperation(Operation operation) ABSL_LOCKS_EXCLUDED(mutex_);

  std::shared_ptr<ServerStream> self_;  // From Start to OnDone.
  StreamRegistry* registry_ = nullptr;  // Set once, in Start.
  grpc::ByteBuffer incoming_;           // Belongs to the read under way.
  grpc::ByteBuffer outgoing_;           // Belongs to the thread in charge.

  Mutex mutex_;  // Guards what follows. No other one is taken under it.
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // A thread is in charge of writing.
  bool read_when_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool end_when_written_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;               // Nothing is queued or read any more.
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);  // Set when it may finish.
};

// The streams of a service that are open. Thread-safe.
class StreamRegistry {
 public:
  // `when_stopped`: what Stop ends streams with.
  explicit StreamRegistry(absl::Status when_stopped) : when_stopped_(std::move(when_stopped)) {}

  // Ends all streams, and those that start from now on. Does not wait for their ends. More calls do
  // nothing more.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Called by streams, while they keep themselves alive. Add fails where the registry is stopped,
  // with what the stream is to end with.
  absl::Status Add(ServerStream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(ServerStream* stream) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const absl::Status when_stopped_;
  Mutex mutex_;  // No other one is taken under it.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<ServerStream*> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_SERVER_STREAM_H_
