// Simulated time: one event after another, and everything that is left to chance follows from a
// seed.
#ifndef MILLRACE_TESTING_SIMULATION_WORLD_H_
#define MILLRACE_TESTING_SIMULATION_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"

namespace millrace::simulation {

// Used by one thread.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  Clock* clock() { return &clock_; }
  absl::Time Now() { return clock_.Now(); }

  // Calls `event` when `delay` has passed; never while another event is under way.
  void After(absl::Duration delay, std::function<void()> event) {
    events_.emplace(std::make_pair(Now() + delay, ++last_event_), std::move(event));
  }
  // The same; but it does not happen where `life` has ended by then.
  void After(absl::Duration delay, std::weak_ptr<const void> life, std::function<void()> event);

  // Goes to the next event. False: there is none.
  bool Next();

  // Below `bound`, which is at least 1.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t times) { return Below(times) == 0; }
  // Mostly near `least`, now and then near `most`.
  absl::Duration Between(absl::Duration least, absl::Duration most);

  // Events that have not happened never will.
  void Clear() { events_.clear(); }

  // Something has happened of which there must be some in many simulations.
  void Count(const std::string& what) { ++counts_[what]; }
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

  // What happened, for whoever looks for why something went wrong; the last of it is kept.
  void Note(std::string line);
  std::vector<std::string> Notes() const { return {notes_.begin(), notes_.end()}; }

  // Something is wrong. What was first counts.
  void Fail(const std::string& what);
  const std::string& failure() const { return failure_; }

 private:
  SimulatedClock clock_;
  std::mt19937_64 random_;
  uint64_t last_event_ = 0;
  // By when they happen, and of those of one moment by which was planned first.
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> events_;
  std::deque<std::string> notes_;
  std::map<std::string, uint64_t> counts_;
  std::string failure_;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_WORLD_H_
