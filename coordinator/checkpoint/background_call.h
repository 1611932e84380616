// A call that may hang, on a thread of its own.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_BACKGROUND_CALL_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_BACKGROUND_CALL_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/start_thread.h"

namespace millrace::coordinator {

// For work on file systems that may stop answering for as long as they like. Thread-safe.
class BackgroundCall {
 public:
  // Begins `call`, which must own all that it uses: it may outlive this object, and everybody.
  // Then `on_end` is called, on the same thread, unless this object has gone; it must not block.
  // Where the system has no thread left the call is not made, since whoever begins it must not hang
  // with it: it counts as ended, status() says so, and `on_end` is called here.
  explicit BackgroundCall(std::function<void()> call, std::function<void()> on_end = nullptr,
                          const ThreadStarter& start_thread = StartThread);
  // Does not wait for the call.
  ~BackgroundCall();
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  // UNAVAILABLE: it was not made. It may be tried again.
  const absl::Status& status() const { return status_; }

  // Whether the call has ended; what it wrote can then be read.
  bool HasEnded() const;
  // Waits for that, `timeout` of the machine's clock at most; returns whether it has.
  bool AwaitFor(absl::Duration timeout) const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
  absl::Status status_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_BACKGROUND_CALL_H_
