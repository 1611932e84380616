// Whether a server can still be reached.
#ifndef MILLRACE_COMMON_NET_SELF_CHECK_H_
#define MILLRACE_COMMON_NET_SELF_CHECK_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace {

// Calls the health service of an RpcServer over a connection of its own. Blocks for twice
// `patience` at most, whatever gRPC does. DEADLINE_EXCEEDED, UNAVAILABLE and what the server
// answers.
absl::Status AskHealth(const std::string& address, absl::Duration patience);

// After a passing lack of threads parts of gRPC 1.51 may stay without theirs for good: then calls
// fail or wait for ever, and nobody is told. So a server asks itself every now and then, and
// waits on a thread that does not depend on gRPC. Thread-safe.
class SelfCheck {
 public:
  struct Options {
    std::string address;  // Of an RpcServer in this process.
    absl::Duration period = absl::Seconds(10);
    absl::Duration patience = absl::Seconds(5);  // With one call.
    int tries = 12;                              // So many fail in a row where it is deaf.
    // Called once, and then no more calls are made. Not called while no thread can be started: a
    // process that is started again would not be any better. By default the process ends at once,
    // with exit code 1: that is as safe as a crash, and a supervisor can start it again.
    std::function<void()> on_deaf = EndDeafProcess;
  };

  explicit SelfCheck(Options options);
  // Waits for a call that is under way. Before the server is shut down.
  ~SelfCheck();

 private:
  static void EndDeafProcess();

  void CheckInLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false when no more calls are to be made.
  bool Pause() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_SELF_CHECK_H_
