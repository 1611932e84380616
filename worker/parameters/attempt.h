// One attempt of a call to a shard: everything sent under one id, and what has become of it.
#ifndef MILLRACE_WORKER_PARAMETERS_ATTEMPT_H_
#define MILLRACE_WORKER_PARAMETERS_ATTEMPT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/retry.h"
#include "grpcpp/support/byte_buffer.h"
#include "worker/parameters/call_stream.h"
#include "worker/parameters/monitor.h"
#include "worker/parameters/server_connections.h"

namespace millrace::worker {

// What RetriedCalls sees of an attempt. Thread-safe.
class Attempt {
 public:
  // What is to follow on a failure.
  enum class Again {
    kNever,
    kAtOnce,  // The server only waited as long as it was asked to.
    kAfterPause,
    kWithItsShard,  // After a pause; what the other parts of the shard have brought is of no use
                    // either.
  };

  Attempt(uint64_t id, std::shared_ptr<Monitor> monitor, Clock* clock)
      : id_(id), monitor_(std::move(monitor)), clock_(clock), progress_(clock->Now()) {}
  virtual ~Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  uint64_t id() const { return id_; }

  // For those who hold the monitor's lock under another name.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(monitor_->mutex) {}

  // The server has said its last word, or a stream is broken.
  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return ended_; }
  // REQUIRES: ended().
  const absl::Status& status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    return status_;
  }
  // REQUIRES: ended(), with an error.
  Again again() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return again_; }
  // Whose fault a failure may be. For the network's there are as many tries as there is time.
  enum class Fault { kNetwork, kServer };
  // REQUIRES: ended(), with an error.
  Fault fault() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return fault_; }
  // When something was last sent, received, or nearer to be sent.
  absl::Time progress() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { return progress_; }
  // The longest time that passed, while something was awaited, until something was received, or was
  // nearer to be sent.
  absl::Duration longest_silence() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    return longest_silence_;
  }

  // What becomes of what the server may still have or send.
  enum class Rest {
    kDropped,  // The streams are broken: it forgets what it has, and sends no more.
    kSilent,   // The same; and the connections are given up, if nothing comes on them at all.
    kIgnored,  // Nothing is left there, or it does no harm.
  };

  // The last call. Sends nothing more, and nothing is done with answers that come later. Blocks for
  // no longer than it takes to copy a message.
  virtual void Close(Rest rest) ABSL_LOCKS_EXCLUDED(monitor_->mutex) = 0;

 protected:
  void EndLocked(absl::Status status, Again again, Fault fault = Fault::kNetwork)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    ProgressLocked();
    ended_ = true;
    status_ = std::move(status);
    again_ = again;
    fault_ = fault;
    monitor_->changed.SignalAll();
  }
  // Something is asked for: what was before is no silence of the server's.
  void AskedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { progress_ = clock_->Now(); }
  void ProgressLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    const absl::Time now = clock_->Now();
    longest_silence_ = std::max(longest_silence_, now - progress_);
    progress_ = now;
  }

  const uint64_t id_;
  const std::shared_ptr<Monitor> monitor_;
  Clock* const clock_;

 private:
  bool ended_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  Again again_ ABSL_GUARDED_BY(monitor_->mutex) = Again::kNever;
  Fault fault_ ABSL_GUARDED_BY(monitor_->mutex) = Fault::kNetwork;
  absl::Status status_ ABSL_GUARDED_BY(monitor_->mutex);
  absl::Time progress_ ABSL_GUARDED_BY(monitor_->mutex);
  absl::Duration longest_silence_ ABSL_GUARDED_BY(monitor_->mutex);
};

// An attempt whose messages go out on the streams of one server, each on the one that will be idle
// first. Derived classes say what an answer means.
template <typename Answer>
class StreamAttempt : public Attempt,
                      public PendingCall<Answer>,
                      public std::enable_shared_from_this<StreamAttempt<Answer>> {
 public:
  // `connections` must outlive the calls to Send and Close.
  StreamAttempt(uint64_t id, ServerConnections* connections, std::shared_ptr<Monitor> monitor,
                Clock* clock)
      : Attempt(id, std::move(monitor), clock), connections_(connections) {}

  void Close(Rest rest) final ABSL_LOCKS_EXCLUDED(monitor_->mutex) {
    std::vector<std::shared_ptr<CallStream<Answer>>> streams;
    absl::Time since;
    {
      MutexLock lock(&monitor_->mutex);
      closed_ = true;
      if (settled_) rest = Rest::kIgnored;
      // What is sent only now has not been silent.
      rest_ = rest == Rest::kSilent ? Rest::kDropped : rest;
      since = this->progress();
      while (busy_) monitor_->changed.Wait(&monitor_->mutex);
      streams.swap(streams_);
    }
    for (const auto& stream : streams) {
      Leave(stream.get(), rest);
      if (rest == Rest::kSilent) connections_->GiveUp(*stream, since);
    }
  }

 protected:
  // Sends a message (it is swapped away). A stream may break between being chosen and being used.
  void SendMessage(grpc::ByteBuffer message) ABSL_LOCKS_EXCLUDED(monitor_->mutex) {
    for (int i = 0; i < kMaxStreamTries; ++i) {
      const std::shared_ptr<CallStream<Answer>> stream =
          connections_->template LeastLoaded<Answer>();
      if (stream->Send(id_, this->shared_from_this(), &message)) return Remember(stream);
    }
    OnBroken(absl::UnavailableError("streams break as soon as they are opened"));
  }

  // What follows on a broken connection.
  virtual Attempt::Again AfterBreak() const { return Again::kAfterPause; }

  // An answer is of no interest any more.
  bool over_locked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    return ended() || closed_;
  }
  // The server has said its last word: it has nothing more of this attempt, and sends no more.
  void SettleLocked(absl::Status status, Again again, Fault fault = Fault::kNetwork)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    settled_ = true;
    this->EndLocked(std::move(status), again, fault);
  }
  // Between the two, Close waits.
  void BeginTakingLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) { busy_ = true; }
  void EndTakingLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex) {
    busy_ = false;
    if (closed_) monitor_->changed.SignalAll();
  }

 private:
  static constexpr int kMaxStreamTries = 3;

  // On a slow network a message waits for those before it; what counts is that these move.
  void OnWritten() final ABSL_LOCKS_EXCLUDED(monitor_->mutex) {
    MutexLock lock(&monitor_->mutex);
    this->ProgressLocked();
  }

  void OnBroken(const absl::Status& status) final ABSL_LOCKS_EXCLUDED(monitor_->mutex) {
    MutexLock lock(&monitor_->mutex);
    if (over_locked()) return;
    this->EndLocked(WhyBroken(status), AfterBreak(),
                    IsBrokenConnection(status.code()) ? Fault::kNetwork : Fault::kServer);
  }

  static absl::Status WhyBroken(const absl::Status& status) {
    if (status.ok()) return absl::UnavailableError("the server has ended the stream");
    return IsNoAnswerOfOurs(status.code()) ? absl::UnavailableError(status.message()) : status;
  }

  // After the message was sent: Close may have been there between, and has left this stream to us.
  void Remember(const std::shared_ptr<CallStream<Answer>>& stream)
      ABSL_LOCKS_EXCLUDED(monitor_->mutex) {
    Rest rest;
    {
      MutexLock lock(&monitor_->mutex);
      this->AskedLocked();
      if (!closed_) {
        if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
          streams_.push_back(stream);
        }
        return;
      }
      rest = rest_;
    }
    Leave(stream.get(), rest);
  }

  void Leave(CallStream<Answer>* stream, Rest rest) {
    stream->Forget(id_);
    if (rest == Rest::kDropped) stream->Cancel();
  }

  ServerConnections* const connections_;
  bool closed_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool settled_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  bool busy_ ABSL_GUARDED_BY(monitor_->mutex) = false;
  Rest rest_ ABSL_GUARDED_BY(monitor_->mutex) = Rest::kDropped;  // Once closed.
  std::vector<std::shared_ptr<CallStream<Answer>>> streams_ ABSL_GUARDED_BY(monitor_->mutex);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_ATTEMPT_H_
