// How much was needed of late.
#ifndef MILLRACE_PS_BLOCK_RECENT_PEAK_H_
#define MILLRACE_PS_BLOCK_RECENT_PEAK_H_

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"

namespace millrace::ps {

// What was needed in this time may be needed again. Cuts of large shards, while which a second copy
// lives, are almost so far apart.
constexpr absl::Duration kPeakWindow = absl::Minutes(2);

// When the present window ends. Not thread-safe.
class PeakWindow {
 public:
  // Whether it has ended; then another one begins.
  bool Roll(absl::Time now) {
    if (now < end_) return false;
    Restart(now);
    return true;
  }
  void Restart(absl::Time now) { end_ = now + kPeakWindow; }

 private:
  absl::Time end_ = absl::InfinitePast();
};

// The most that lived in the present window and in the one before. Not thread-safe.
class RecentPeak {
 public:
  void Note(size_t living) { present_ = std::max(present_, living); }
  // Another window begins.
  void Roll(size_t living) {
    last_ = present_;
    present_ = living;
  }
  // Less is needed from now on.
  void Forget() { present_ = last_ = 0; }
  size_t most() const { return std::max(present_, last_); }

 private:
  size_t present_ = 0;
  size_t last_ = 0;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_BLOCK_RECENT_PEAK_H_
