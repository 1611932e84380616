// Whether gRPC still works in this process.
#ifndef MILLRACE_COMMON_NET_SELF_CHECK_H_
#define MILLRACE_COMMON_NET_SELF_CHECK_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/net/server.h"

namespace millrace {

// Calls the health service of an RpcServer over a connection of its own. Blocks for twice
// `patience` at most, whatever gRPC does. DEADLINE_EXCEEDED, UNAVAILABLE and what the server
// answers.
absl::Status AskHealth(const std::string& address, absl::Duration patience);

// After a passing lack of threads parts of gRPC 1.51 may stay without theirs for good: then calls
// fail or wait for ever, whomever they are to, and nobody is told. So a process asks itself every
// now and then: it has a server for that alone, on a port of the loopback, which neither names nor
// firewalls nor the load of other servers keep from answering; and waits on a thread that does not
// depend on gRPC. Where it has never answered, nothing follows from its silence. Thread-safe.
class SelfCheck {
 public:
  struct Options {
    absl::Duration period = absl::Seconds(10);
    absl::Duration patience = absl::Seconds(5);  // With one call.
    int tries = 12;                              // So many fail in a row where gRPC is broken.
    // Called once, with what the last call came to; then no more are made. Not called while no
    // thread can be started: a process that is started again would not be any better. By default
    // the process ends at once, with exit code 1: that is as safe as a crash, and a supervisor can
    // start it again.
    std::function<void(const absl::Status&)> on_broken = EndProcessWithoutGrpc;
    std::string address = {};  // For tests: who is asked in place of the server of its own.
  };

  // Where the server, or the thread, cannot be had, nothing is checked, and a warning says so.
  explicit SelfCheck(Options options);
  // Waits for a call that is under way.
  ~SelfCheck();

 private:
  static void EndProcessWithoutGrpc(const absl::Status& why);

  void CheckInLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false when no more calls are to be made.
  bool Pause() ABSL_LOCKS_EXCLUDED(mutex_);
  bool stopping() const ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  int failures_ = 0;  // Of the last calls. Only used by the thread, while there is one.
  std::unique_ptr<RpcServer> server_;
  std::string address_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_SELF_CHECK_H_
