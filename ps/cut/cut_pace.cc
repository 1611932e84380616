#include "ps/cut/cut_pace.h"

#include <algorithm>

namespace millrace::ps {
namespace {

constexpr absl::Duration kSoon = absl::Milliseconds(500);
constexpr absl::Duration kFirstInterval = absl::Seconds(1);
constexpr int kRestForEachWritten = 9;
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(30);

}  // namespace

CutPace::CutPace(absl::Duration period)
    : period_(period),
      interval_(std::min(kFirstInterval, period)),
      backoff_(kFirstPause, kLongestPause) {}

void CutPace::Changed(absl::Time now) { changed_ = std::min(changed_, now); }

void CutPace::Wrote(absl::Time begin, absl::Time end) {
  next_ = begin + interval_;
  interval_ = std::min(2 * interval_, period_);
  allowed_ = end + kRestForEachWritten * (end - begin);
  backoff_.Reset();
}

void CutPace::Failed(absl::Time now) { allowed_ = now + backoff_.Next(); }

absl::Time CutPace::due() const {
  if (changed_ == absl::InfiniteFuture()) return changed_;
  return std::max({changed_ + std::min(kSoon, period_), next_, allowed_});
}

}  // namespace millrace::ps
