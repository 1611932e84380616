// Which errors mean "try again" and which end a job.
#ifndef MILLRACE_COORDINATOR_JOBS_RETRYABLE_H_
#define MILLRACE_COORDINATOR_JOBS_RETRYABLE_H_

#include "absl/status/status.h"

namespace millrace::coordinator {

// Errors of calls to servers, that come from members coming, going and changing generations. What
// is not found may be just that too: another server at an address where the shard's used to be.
inline bool IsRetryable(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kNotFound:
      return true;
    default:
      return false;
  }
}

// What a worker says of its own work: one that has not enough memory may leave it to another one.
inline bool IsRetryableElsewhere(absl::StatusCode code) {
  return IsRetryable(code) || code == absl::StatusCode::kResourceExhausted;
}

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOBS_RETRYABLE_H_
