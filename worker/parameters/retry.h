// Which failures are worth another try, and when.
#ifndef MILLRACE_WORKER_PARAMETERS_RETRY_H_
#define MILLRACE_WORKER_PARAMETERS_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace::worker {

// A stream that ended so may do better when it is opened again: the server or the network went
// away, whatever gRPC makes of it. The others say that the request itself is refused.
bool IsBrokenConnection(absl::StatusCode code);

// Grows from 20 ms to 1 s. A value type.
class Backoff {
 public:
  // The pause before the next try.
  absl::Duration Next();

 private:
  absl::Duration next_ = absl::Milliseconds(20);
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_PARAMETERS_RETRY_H_
