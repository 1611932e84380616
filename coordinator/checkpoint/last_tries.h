// The tries to save a job's last state.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_LAST_TRIES_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_LAST_TRIES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/retry.h"
#include "protos/parameter_server.pb.h"

namespace millrace::coordinator {

// Nothing comes after it, so it is tried for a minute; one in a directory that is another run's is
// tried once. Pure but for what it was told before: time is an argument. Not thread-safe.
class LastTries {
 public:
  static constexpr absl::Duration kPatience = absl::Minutes(1);

  // All shards have that state; of a synchronous job in `cut`.
  void Begin(const absl::optional<CutName>& cut, absl::Time now);
  // It is not the last state any more, perhaps.
  void Stop() { begun_ = false; }
  bool begun() const { return begun_; }
  const absl::optional<CutName>& cut() const { return cut_; }

  // Nothing else is being written: whether it is to be tried now. What there is of time begins with
  // the first of these calls, since whatever is written before has its own.
  bool IsDue(absl::Time now);
  void Failed(const absl::Status& status, absl::Time now);
  // Whether it is not to be tried again.
  bool IsHopeless(absl::Time now) const;
  // In words, where it was another's at the last try: for good, or held for then. Empty: it was
  // not.
  const std::string& whose_directory() const { return whose_directory_; }

 private:
  bool begun_ = false;
  absl::optional<CutName> cut_;
  bool was_due_ = false;  // At some time, whatever became of it.
  absl::Time since_;
  absl::Time due_;  // InfiniteFuture: the directory is another run's.
  std::string whose_directory_;
  Backoff backoff_{absl::Seconds(2), absl::Seconds(20)};
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_LAST_TRIES_H_
