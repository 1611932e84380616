#include "worker/parameters/retry.h"

#include <algorithm>

namespace millrace::worker {

bool IsBrokenConnection(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:  // The server has ended the stream.
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

absl::Duration Backoff::Next() {
  const absl::Duration pause = next_;
  next_ = std::min(2 * next_, absl::Seconds(1));
  return pause;
}

}  // namespace millrace::worker
