// How long the shards of a job may write a checkpoint before it is given up.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_WRITE_PATIENCE_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_WRITE_PATIENCE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace millrace::coordinator {

// A disk may hang for as long as it likes. It may also be slow, or shared by many jobs: what has
// been seen of it counts. A value type.
class WritePatience {
 public:
  // `bytes`: of the job's variables and slots; 0: nobody knows.
  explicit WritePatience(uint64_t bytes)
      : at_slowest_(absl::Seconds(static_cast<double>(bytes) / kSlowestDisk)) {}

  // `least`, several times as long as the newest one took, or as long as a slow disk takes for the
  // job: what is longest.
  absl::Duration AtLeast(absl::Duration least) const {
    return std::max({least, kTimesAsLong * newest_took_, at_slowest_});
  }

  // Where nobody waits for it. After one that was given up the next has twice the time.
  absl::Duration Usual() const { return std::max(AtLeast(absl::Minutes(10)), 2 * in_vain_for_); }

  // From here on people are told that they still write.
  absl::Duration UntilTold() const { return std::max(absl::Minutes(5), 2 * newest_took_); }

  // How long the newest one took, as its manifest says.
  void SetNewest(absl::Duration took) { newest_took_ = took; }
  // One was written, and took so long.
  void Wrote(absl::Duration took) {
    newest_took_ = took;
    in_vain_for_ = absl::ZeroDuration();
  }
  // One was given up that nobody waited for, after its shards had written for so long.
  void GaveUp(absl::Duration after) { in_vain_for_ = after; }

 private:
  static constexpr int kTimesAsLong = 4;
  static constexpr double kSlowestDisk = 1 << 20;  // Bytes a second.

  absl::Duration at_slowest_;
  absl::Duration newest_took_;  // 0: nobody knows.
  absl::Duration in_vain_for_;  // Since the last one that worked; 0: none was given up.
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_WRITE_PATIENCE_H_
