// When the next cut of a shard is written: a pure function of what was written, and when.
#ifndef MILLRACE_PS_CUT_CUT_PACE_H_
#define MILLRACE_PS_CUT_CUT_PACE_H_

#include "absl/time/time.h"
#include "common/retry.h"

namespace millrace::ps {

// The first cut comes soon after the first change, so that a server that is killed again and again
// gets on; those that follow a second after, then two, then four, up to the period. Whatever the
// period, the next one begins no sooner than nine times as long after the last one as that took:
// cuts have a tenth of the disk's time at most. After a failure there is a pause, which grows.
class CutPace {
 public:
  // `period`: above 0.
  explicit CutPace(absl::Duration period);

  // There is something new to write; or what there is is taken to be written.
  void Changed(absl::Time now);
  void Taken() { changed_ = absl::InfiniteFuture(); }

  // It was written, or could not be.
  void Wrote(absl::Time begin, absl::Time end);
  void Failed(absl::Time now);

  // When the next one may begin, should there be something to write.
  absl::Time allowed() const { return allowed_; }
  // When the next one begins; InfiniteFuture: nothing has changed.
  absl::Time due() const;

 private:
  absl::Duration period_;
  absl::Duration interval_;  // From the begin of the last cut to that of the next.
  Backoff backoff_;          // After failures.
  absl::Time changed_ = absl::InfiniteFuture();
  absl::Time next_ = absl::InfinitePast();     // By the interval.
  absl::Time allowed_ = absl::InfinitePast();  // By the cost.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_PACE_H_
