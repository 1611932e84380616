// gRPC's completion queues, with one thread each.
//
// gRPC's callback interface serves all streams of a process by a few threads that wait for each
// other: a small message costs several turns of the processors. A thread that has a queue to itself
// finds what the network brings for it by itself (docs/performance.md, "The wire").
//
// One set for the process: gRPC's channels are the process's too, and its threads never end.
#ifndef MILLRACE_COMMON_NET_COMPLETION_THREADS_H_
#define MILLRACE_COMMON_NET_COMPLETION_THREADS_H_

#include <atomic>

#include "grpcpp/completion_queue.h"

namespace millrace {

// What hears of an operation's completion. May be used for one operation after the other.
class Completion {
 public:
  // What the operation is to be started with.
  void* tag() {
    started_.store(true, std::memory_order_release);
    return this;
  }

  // Called on the queue's thread.
  void Run(bool ok) {
    // What was done before the start is seen after it. gRPC sees to that, but ThreadSanitizer does
    // not see into gRPC.
    started_.load(std::memory_order_acquire);
    Complete(ok);
  }

 protected:
  Completion() = default;
  ~Completion() = default;

 private:
  // The queue's thread serves nobody else meanwhile: must not block.
  virtual void Complete(bool ok) = 0;

  std::atomic<bool> started_ = false;
};

// Calls a method of its owner's.
template <typename Owner>
class MemberCompletion final : public Completion {
 public:
  MemberCompletion(Owner* owner, void (Owner::*method)(bool ok)) : owner_(owner), method_(method) {}
  MemberCompletion(const MemberCompletion&) = delete;
  MemberCompletion& operator=(const MemberCompletion&) = delete;

 private:
  void Complete(bool ok) override { (owner_->*method_)(ok); }

  Owner* const owner_;
  void (Owner::*const method_)(bool ok);
};

// For calls to servers: one of the process's queues, in turn; its thread serves it until the
// process ends. One for each two processors, 8 at most. Not owned. All tags must be those of
// completions. Does not block. Thread-safe.
grpc::CompletionQueue* NextClientQueue();

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_COMPLETION_THREADS_H_
