// Where fake members are held until a test lets them go.
#ifndef MILLRACE_COORDINATOR_TESTING_GATE_H_
#define MILLRACE_COORDINATOR_TESTING_GATE_H_

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "glog/logging.h"

namespace millrace::coordinator {

// Closed at first. Waits of more than a minute end the test. It must outlive the fake members that
// stand at it: a test makes it before its cluster. Thread-safe.
class Gate {
 public:
  // Blocks until the gate is open.
  void Pass() {
    const absl::Time deadline = Deadline();
    MutexLock lock(&mutex_);
    ++waiting_;
    changed_.SignalAll();
    while (!open_) {
      CHECK(!Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) << "nobody opens the gate";
    }
  }

  // Blocks until somebody has come to Pass.
  void AwaitSomebody() {
    const absl::Time deadline = Deadline();
    MutexLock lock(&mutex_);
    while (waiting_ == 0) {
      CHECK(!Clock::Real()->WaitUntil(&changed_, &mutex_, deadline)) << "nobody comes to the gate";
    }
  }

  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }

 private:
  static absl::Time Deadline() { return Clock::Real()->Now() + absl::Seconds(60); }

  Mutex mutex_;
  CondVar changed_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_GATE_H_
