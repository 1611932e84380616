// Which workers of an embedded cluster have joined it.
#ifndef MILLRACE_CLIENT_ARRIVALS_H_
#define MILLRACE_CLIENT_ARRIVALS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::client {

// Thread-safe.
class Arrivals {
 public:
  // `clock` is not owned.
  explicit Arrivals(Clock* clock) : clock_(clock) {}

  void Expect(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  // The coordinator has welcomed it, now or again.
  void Joined(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  // It is not to be waited for any more. OK: for want of a device, or since it was stopped; others:
  // what AwaitAll returns from then on.
  void Ended(const std::string& name, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until all that are expected have joined or ended. DEADLINE_EXCEEDED: some have not by
  // `deadline`, and which.
  absl::Status AwaitAll(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::string> missing_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);  // The first one.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_ARRIVALS_H_
