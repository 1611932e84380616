// How fast checkpoints are written, all of a process together.
#ifndef MILLRACE_PS_CHECKPOINT_BANDWIDTH_H_
#define MILLRACE_PS_CHECKPOINT_BANDWIDTH_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::ps {

// Whether something that takes long is to go on: OK, or what it ends with. Asked every now and
// then, on the thread that does it; does not block.
using MayGoOn = std::function<absl::Status()>;

// A bucket of tokens, one for each byte, which holds as many as flow into it in kBurst. Whoever
// takes more than it has waits, and those who come later wait behind. Thread-safe.
class Bandwidth {
 public:
  static constexpr absl::Duration kBurst = absl::Milliseconds(100);
  // From one look at MayGoOn to the next.
  static constexpr absl::Duration kPoll = absl::Milliseconds(100);

  // 0: no limit. `clock` must outlive it.
  Bandwidth(uint64_t bytes_per_second, Clock* clock);

  // Returns when so many bytes may be written, or the error of `may_go_on`.
  absl::Status Take(uint64_t bytes, const MayGoOn& may_go_on) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // When the turn of so many bytes is; they count as taken.
  absl::Time TakeTurn(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const uint64_t bytes_per_second_;
  Clock* const clock_;
  Mutex mutex_;
  CondVar never_;  // Signalled: only time ends a wait.
  // Until then all bytes are given out.
  absl::Time given_out_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CHECKPOINT_BANDWIDTH_H_
