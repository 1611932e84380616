// A call that may hang, on a thread of its own.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_BACKGROUND_CALL_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_BACKGROUND_CALL_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace millrace::coordinator {

// For work on file systems that may stop answering for as long as they like. Thread-safe.
class BackgroundCall {
 public:
  // Begins `call`, which must own all that it uses: it may outlive this object, and everybody.
  // Then `on_end` is called, on the same thread, unless this object has gone; it must not block.
  // Where the system has no thread left both are done here.
  explicit BackgroundCall(std::function<void()> call, std::function<void()> on_end = nullptr);
  // Does not wait for the call.
  ~BackgroundCall();
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  // Whether the call has ended; what it wrote can then be read.
  bool HasEnded() const;
  // Waits for that, `timeout` of the machine's clock at most; returns whether it has.
  bool AwaitFor(absl::Duration timeout) const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_BACKGROUND_CALL_H_
