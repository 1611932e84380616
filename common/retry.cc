#include "common/retry.h"

#include <algorithm>

namespace millrace {

Failure Classify(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return Failure::kNone;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
      return Failure::kPassing;
    case absl::StatusCode::kResourceExhausted:
      return Failure::kFull;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
      return Failure::kStale;
    default:
      return Failure::kFinal;
  }
}

bool IsTransient(absl::StatusCode code) {
  switch (Classify(code)) {
    case Failure::kNone:
    case Failure::kPassing:
    case Failure::kStale:
      return true;
    case Failure::kFull:
    case Failure::kFinal:
      break;
  }
  return false;
}

bool IsNoAnswerOfOurs(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return true;
    default:
      return false;
  }
}

bool IsBrokenConnection(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:  // The server has ended the stream.
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return IsNoAnswerOfOurs(code);
  }
}

Backoff::Backoff(absl::Duration first, absl::Duration longest)
    : first_(first), longest_(longest), next_(first) {}

absl::Duration Backoff::Next() {
  const absl::Duration pause = next_;
  next_ = std::min(2 * next_, longest_);
  return pause;
}

}  // namespace millrace
