// What becomes of messages under way.
#ifndef MILLRACE_TESTING_SIMULATION_NETWORK_H_
#define MILLRACE_TESTING_SIMULATION_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/parameter_server.pb.h"
#include "testing/simulation/simulated_ps.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

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
  // yet arrive: at the server's next process, too.
  using Answer = SimulatedPs::Answer;
  using Request = std::function<void(SimulatedPs& ps, Answer answer)>;
  void Call(SimulatedPs* ps, std::weak_ptr<const void> caller, absl::Duration timeout,
            Request request, Answer done);

 private:
  bool IsHit() { return troubled_ && world_->OneIn(one_in_); }

  World* const world_;
  const uint64_t one_in_;
  bool troubled_ = false;
};

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
