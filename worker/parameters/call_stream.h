// A stream whose answers find the requests that they belong to.
#ifndef MILLRACE_WORKER_PARAMETERS_CALL_STREAM_H_
#define MILLRACE_WORKER_PARAMETERS_CALL_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/wire/tensor_codec.h"
#include "worker/parameters/stream.h"

namespace millrace::worker {

// A request that awaits answers on one or more streams. Called without locks: on gRPC's threads,
// and OnBroken also on that of somebody else who gives up the connection.
template <typename Answer>
class PendingCall {
 public:
  virtual ~PendingCall() = default;

  // An answer with the request's id.
  virtual void OnAnswer(Answer answer) = 0;

  // A message of the request has left, or is nearer to its turn.
  virtual void OnWritten() = 0;

  // A stream that the request was sent on is broken; nothing more comes on it.
  virtual void OnBroken(const absl::Status& status) = 0;
};

template <typename Answer>
class CallStream;

// The messages of the two services, and what makes their streams busy.
struct PushAnswer {
  PushResponse header;
  static constexpr char kMethod[] = "/millrace.ParameterServer/Push";
  static absl::StatusOr<PushAnswer> Decode(const grpc::ByteBuffer& message);
  uint64_t id() const { return header.push_id(); }
  static size_t Load(const CallStream<PushAnswer>& stream);
};

struct PullAnswer {
  DecodedPull pull;
  static constexpr char kMethod[] = "/millrace.ParameterServer/Pull";
  static absl::StatusOr<PullAnswer> Decode(const grpc::ByteBuffer& message);
  uint64_t id() const { return pull.header.pull_id(); }
  static size_t Load(const CallStream<PullAnswer>& stream);
};

// Thread-safe.
template <typename Answer>
class CallStream final : public Stream {
 public:
  using Call = PendingCall<Answer>;

  // `clock` must outlive this object, which may outlive its client
  // (ParameterClientOptions::stream_patience).
  CallStream(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<Monitor> monitor, Clock* clock)
      : Stream(std::move(channel), Answer::kMethod, std::move(monitor)), clock_(clock) {}

  // Queues a message of request `id` (it is swapped away); `call` will hear of the answers and of
  // the stream's end until Forget. Returns false, with nothing changed, when the stream is broken.
  bool Send(uint64_t id, std::shared_ptr<Call> call, grpc::ByteBuffer* message) {
    bool write;
    {
      MutexLock lock(&mutex_);
      if (!open()) return false;
      calls_[id] = std::move(call);
      count_ = calls_.size();
      write = EnqueueLocked(id, message);
    }
    if (write) StartWriting();
    return true;
  }

  // Drops what is queued of a request and its call; one OnAnswer, OnWritten or OnBroken may be
  // under way still.
  void Forget(uint64_t id) {
    std::shared_ptr<Call> call;
    std::list<Queued> dropped;
    MutexLock lock(&mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    call = std::move(found->second);
    calls_.erase(found);
    count_ = calls_.size();
    dropped = DropLocked(id);
  }

  void Break(const absl::Status& reason) override {
    this->Cancel();
    for (const auto& [id, call] : TakeCalls()) call->OnBroken(reason);
  }

  // Requests that await answers.
  size_t calls() const { return count_.load(std::memory_order_relaxed); }

  // When an answer came last.
  absl::Time heard() const {
    return absl::FromUnixNanos(heard_nanos_.load(std::memory_order_relaxed));
  }

  // How much it has to do; to compare streams with.
  size_t load() const { return Answer::Load(*this); }

 private:
  void OnWritten(uint64_t written, const std::vector<uint64_t>& waiting) override {
    std::vector<std::shared_ptr<Call>> calls;
    {
      MutexLock lock(&mutex_);
      const auto add = [&](uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const auto found = calls_.find(id);
        if (found != calls_.end()) calls.push_back(found->second);
      };
      add(written);
      for (const uint64_t id : waiting) {
        if (id != written) add(id);
      }
    }
    for (const auto& call : calls) call->OnWritten();
  }

  bool OnMessage(const grpc::ByteBuffer& message) override {
    heard_nanos_.store(absl::ToUnixNanos(clock_->Now()), std::memory_order_relaxed);
    absl::StatusOr<Answer> answer = Answer::Decode(message);
    if (!answer.ok()) {
      MutexLock lock(&mutex_);
      failure_ = answer.status();
      return false;
    }
    std::shared_ptr<Call> call;
    {
      MutexLock lock(&mutex_);
      const auto found = calls_.find(answer->id());
      if (found != calls_.end()) call = found->second;
    }
    if (call != nullptr) call->OnAnswer(*std::move(answer));
    return true;
  }

  void OnBroken(const grpc::Status& status) override {
    absl::Status reason = FromGrpcStatus(status);
    {
      MutexLock lock(&mutex_);
      if (!failure_.ok()) reason = failure_;
    }
    for (const auto& [id, call] : TakeCalls()) call->OnBroken(reason);
  }

  using Calls = absl::flat_hash_map<uint64_t, std::shared_ptr<Call>>;

  // Nobody else will tell them anything.
  Calls TakeCalls() {
    Calls calls;
    MutexLock lock(&mutex_);
    calls.swap(calls_);
    count_ = 0;
    return calls;
  }

  Clock* const clock_;
  std::atomic<int64_t> heard_nanos_{std::numeric_limits<int64_t>::min()};
  Calls calls_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};  // Of calls_; looked at without the lock to choose a stream.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // Why we have broken the stream.
};

using PushStream = CallStream<PushAnswer>;
using PullStream = CallStream<PullAnswer>;

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_CALL_STREAM_H_
