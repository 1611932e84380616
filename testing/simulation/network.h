// What becomes of messages under way.
#ifndef MILLRACE_TESTING_SIMULATION_NETWORK_H_
#define MILLRACE_TESTING_SIMULATION_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "testing/simulation/simulated_ps.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// Calls `done` the first time that it is called, if `life` has not ended by then.
template <typename Result>
std::function<void(Result)> Once(std::weak_ptr<const void> life, std::function<void(Result)> done) {
  const auto open = std::make_shared<std::function<void(Result)>>(std::move(done));
  return [open, life = std::move(life)](Result result) {
    if (*open == nullptr) return;
    const auto once = std::exchange(*open, nullptr);
    if (!life.expired()) once(std::move(result));
  };
}

// In good times a message takes a moment. In bad ones it takes that mostly, and seconds now and
// then, so that what was sent later overtakes it; it is lost, or comes twice where it may.
class Network {
 public:
  // In bad times one message in so many is lost, late, or repeated.
  Network(World* world, uint64_t one_in) : world_(world), one_in_(one_in) {}

  void SetTroubled(bool troubled) { troubled_ = troubled; }

  absl::Duration Travel() {
    return world_->Between(absl::Microseconds(50),
                           IsHit() ? absl::Seconds(30) : absl::Milliseconds(20));
  }
  bool Loses() { return IsHit(); }
  bool Repeats() { return IsHit(); }

  // A call to a ps server's admin service. `done` is called once, if the caller lives: with the
  // answer; or with UNAVAILABLE or DEADLINE_EXCEEDED, whatever becomes of the request, which may
  // yet arrive: at the server's next process, too, but not where that has an older disk. There a
  // late SetGeneration would open a shard that lacks steps before the coordinator has seen it.
  // Of calls that are rare more are hit: a third comes late, and half of these not in time as well.
  template <typename Response>
  void Call(SimulatedPs* ps, std::weak_ptr<const void> caller, absl::Duration timeout,
            std::function<void(SimulatedPs& ps, Answer<Response> answer)> request,
            Answer<Response> done, bool is_rare = false);

 private:
  bool IsHit() { return troubled_ && world_->OneIn(one_in_); }

  World* const world_;
  const uint64_t one_in_;
  bool troubled_ = false;
};

template <typename Response>
void Network::Call(SimulatedPs* ps, std::weak_ptr<const void> caller, absl::Duration timeout,
                   std::function<void(SimulatedPs& ps, Answer<Response> answer)> request,
                   Answer<Response> done, bool is_rare) {
  const Answer<Response> end = Once(std::move(caller), std::move(done));
  const absl::Status broken = absl::UnavailableError("the connection broke");
  const auto answer = [this, end, broken](absl::StatusOr<Response> result) {
    if (Loses()) result = broken;
    world_->After(Travel(), [end, result = std::move(result)] { end(result); });
  };
  const auto arrive = [this, ps, request = std::move(request), answer, end, broken,
                       disks = ps->disks()] {
    if (ps->running() && ps->disks() == disks) return request(*ps, answer);
    world_->After(Travel(), [end, broken] { end(broken); });
  };
  world_->After(timeout, [end] { end(absl::DeadlineExceededError("no answer")); });
  const bool is_hit = is_rare && troubled_ && world_->OneIn(3);
  if (is_hit || Repeats()) {
    world_->After(is_hit ? world_->Below(30) * absl::Seconds(1) : Travel(), arrive);
  }
  if (Loses() || (is_hit && world_->OneIn(2))) {
    world_->After(Travel(), [end, broken] { end(broken); });
  } else {
    world_->After(Travel(), arrive);
  }
}

// Messages of one direction of a stream: none overtakes another.
class Pipe {
 public:
  Pipe(World* world, Network* network) : world_(world), network_(network) {}

  void Send(std::function<void()> arrive) {
    last_ = std::max(last_, world_->Now() + network_->Travel());
    world_->After(last_ - world_->Now(), std::move(arrive));
  }

 private:
  World* const world_;
  Network* const network_;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_NETWORK_H_
