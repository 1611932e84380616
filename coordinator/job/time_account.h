// What the time of a job goes into: each moment is counted once.
#ifndef MILLRACE_COORDINATOR_JOB_TIME_ACCOUNT_H_
#define MILLRACE_COORDINATOR_JOB_TIME_ACCOUNT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

// See the fields of TimeSpent.
enum class TimeUse {
  kTraining,
  kRunningAgain,
  kRecovering,
  kEvaluating,
  kCheckpointing,
  kWaiting,
};

// Counts nothing before Start and after End. In whole nanoseconds, so that the parts add up to the
// wall time exactly. A clock that goes back stands still here. A value type.
class TimeAccount {
 public:
  // The job starts.
  void Start(absl::Time now);

  // The job goes on that has spent so much since `started`; what passed since then was spent
  // waiting for `whom`: nothing, where the clock shows less than that.
  void Resume(const TimeSpent& before, absl::Time started, absl::Time now, const std::string& whom);

  bool running() const { return running_; }

  // From now on. `whom`: of kWaiting.
  void Begin(absl::Time now, TimeUse use, const std::string& whom = "");
  // What passed since the last call went into what was said there.
  void Count(absl::Time now);
  // From now on, and what passed since the last call went into that as well.
  void Settle(absl::Time now, TimeUse use, const std::string& whom = "");
  // The same, of waiting for somebody: for `whom`, as far as is known yet.
  void SettleGuess(absl::Time now, const std::string& whom);
  // The same, for `whom` surely; and so was since `since` what was guessed to be for others, unless
  // anything else was counted between.
  void SettleWaiting(absl::Time now, const std::string& whom, absl::Time since);

  void End(absl::Time now);

  TimeSpent At(absl::Time now) const;

 private:
  struct Nanoseconds {
    int64_t parts[5] = {};  // By TimeUse, but kWaiting.
    std::map<std::string, int64_t> waiting;
  };

  // Returns the name that it is counted by, where it was spent waiting.
  static std::string Add(int64_t nanoseconds, TimeUse use, const std::string& whom,
                         Nanoseconds& to);
  int64_t Since(absl::Time now) const;
  // Returns what Add does.
  std::string Close(absl::Time now, TimeUse use, const std::string& whom);

  bool running_ = false;
  int64_t last_ = 0;  // Counted up to here, in nanoseconds since the epoch.
  TimeUse use_ = TimeUse::kTraining;
  std::string whom_;
  Nanoseconds spent_;
  // Of spent_.waiting, what may have been for others: intervals in nanoseconds since the epoch.
  struct Guess {
    std::string name;
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::deque<Guess> guesses_;  // The newest of them.
};

// "ps-1 (127.0.0.1:2223), gone" -> "ps-1".
std::string WhomInShort(absl::string_view whom);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOB_TIME_ACCOUNT_H_
