#include "ps/checkpoint/bandwidth.h"

#include <algorithm>

#include "common/status_macros.h"

namespace millrace::ps {

Bandwidth::Bandwidth(uint64_t bytes_per_second, Clock* clock)
    : bytes_per_second_(bytes_per_second), clock_(clock) {}

absl::Time Bandwidth::TakeTurn(uint64_t bytes) {
  MutexLock lock(&mutex_);
  given_out_ = std::max(given_out_, clock_->Now() - kBurst) +
               absl::Seconds(static_cast<double>(bytes) / static_cast<double>(bytes_per_second_));
  return given_out_;
}

absl::Status Bandwidth::Take(uint64_t bytes, const MayGoOn& may_go_on) {
  MILLRACE_RETURN_IF_ERROR(may_go_on());
  if (bytes_per_second_ == 0) return absl::OkStatus();
  const absl::Time turn = TakeTurn(bytes);
  while (true) {
    {
      MutexLock lock(&mutex_);
      const absl::Time now = clock_->Now();
      if (now >= turn) return absl::OkStatus();
      clock_->WaitUntil(&never_, &mutex_, std::min(turn, now + kPoll));
    }
    MILLRACE_RETURN_IF_ERROR(may_go_on());
  }
}

}  // namespace millrace::ps
