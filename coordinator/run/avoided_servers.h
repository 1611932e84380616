// Ps servers that a job is not placed on for a while.
#ifndef MILLRACE_COORDINATOR_RUN_AVOIDED_SERVERS_H_
#define MILLRACE_COORDINATOR_RUN_AVOIDED_SERVERS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "coordinator/run/runner_environment.h"
#include "coordinator/run/runner_inbox.h"
#include "coordinator/shards/move_plan.h"

namespace millrace::coordinator {

// By their directories. Used by the runner's thread.
class AvoidedServers {
 public:
  // One without room for a shard is not asked again for this long, where there are others;
  static constexpr absl::Duration kFull = absl::Seconds(10);
  // one to which a copy has failed, be it for its source: longer than the first pause between
  // tries;
  static constexpr absl::Duration kCopyFailed = absl::Seconds(20);
  // and one that did not get on with it, or could not be called.
  static constexpr absl::Duration kHangs = absl::Hours(12);

  // Not owned.
  explicit AvoidedServers(Clock* clock) : clock_(clock) {}

  void Avoid(const std::string& directory_id, absl::Duration period) {
    until_[directory_id] = clock_->Now() + period;
  }
  bool Contains(const std::string& directory_id) const {
    const auto until = until_.find(directory_id);
    return until != until_.end() && clock_->Now() < until->second;
  }
  void Clear() { until_.clear(); }
  // Of those that are avoided for longer than kFull: they may be well by now.
  void ClearHanging() {
    const absl::Time soon = clock_->Now() + kFull;
    std::erase_if(until_, [soon](const auto& avoided) { return avoided.second > soon; });
  }

 private:
  Clock* const clock_;
  std::map<std::string, absl::Time> until_;
};

// Calls the ps servers that are members and not avoided, one after the other, and avoids those for
// kFull that do not answer: it may be we who cannot call anybody. Returns whether one answers; or
// what the run must end with.
absl::StatusOr<bool> AvoidSilentServers(const RunnerEnvironment& environment,
                                        const std::string& job_id, RunnerInbox* inbox,
                                        AvoidedServers* avoided);

// Those that shards may go to: there, not evacuated and not avoided.
std::vector<TargetServer> TargetServers(const RunnerEnvironment& environment,
                                        const AvoidedServers& avoided);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_AVOIDED_SERVERS_H_
