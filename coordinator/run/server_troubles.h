// Which ps servers are in trouble, and for how long without a break.
#ifndef MILLRACE_COORDINATOR_RUN_SERVER_TROUBLES_H_
#define MILLRACE_COORDINATOR_RUN_SERVER_TROUBLES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"

namespace millrace::coordinator {

// By their directories. Used by the runner's thread.
class ServerTroubles {
 public:
  // Looks that begin as long after the one before as this do not show one trouble: something else
  // took its time between them, or we stood still.
  static constexpr absl::Duration kNotInARow = absl::Minutes(1);

  // Not owned.
  explicit ServerTroubles(Clock* clock) : clock_(clock) {}

  // These are in trouble, as a look at all of them has shown that began then; others are not.
  void Note(const std::vector<std::string>& directories, absl::Time began) {
    const absl::Time now = clock_->Now();
    const std::map<std::string, Trouble> before = std::exchange(troubles_, {});
    for (const std::string& directory : directories) {
      const auto known = before.find(directory);
      const bool goes_on = known != before.end() && began - known->second.last < kNotInARow;
      troubles_[directory] = {goes_on ? known->second.since : now, now};
    }
  }

  // How long this one has been, by now. 0: it is not.
  absl::Duration Of(const std::string& directory) const {
    const auto known = troubles_.find(directory);
    return known == troubles_.end() ? absl::ZeroDuration() : clock_->Now() - known->second.since;
  }

 private:
  struct Trouble {
    absl::Time since;
    absl::Time last;
  };

  Clock* const clock_;
  std::map<std::string, Trouble> troubles_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_RUN_SERVER_TROUBLES_H_
