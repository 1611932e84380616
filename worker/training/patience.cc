#include "worker/training/patience.h"

#include <algorithm>

#include "glog/logging.h"

namespace millrace::worker {

absl::Status WaitPatiently(const Patience& patience, absl::FunctionRef<bool()> stop_early,
                           absl::FunctionRef<absl::Status(absl::Time until)> wait) {
  const absl::Time deadline = patience.clock->Now() + patience.timeout;
  absl::Duration turn = patience.notice;
  while (true) {
    const absl::Time until = std::min(deadline, patience.clock->Now() + turn);
    const absl::Status status = wait(until);
    if (!absl::IsDeadlineExceeded(status)) return status;
    const absl::Time now = patience.clock->Now();
    // now < until: not the time given here has run out, but one that `wait` knows of.
    if (now < until || now >= deadline || stop_early()) return status;
    LOG(WARNING) << patience.waiter << " waits: " << status.message();
    turn *= 2;
  }
}

}  // namespace millrace::worker
