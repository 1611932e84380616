// A worker whose steps take no computing.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_WORKER_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_WORKER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "common/wire/tensor_codec.h"
#include "protos/cluster.pb.h"
#include "testing/simulation/network.h"
#include "testing/simulation/oracle.h"
#include "testing/simulation/simulated_ps.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// One stream between a worker and a coordinator. What was sent before it broke may yet arrive.
class Session {
 public:
  using ToWorker = std::function<void(const CoordinatorMessage& message)>;
  using ToCoordinator = std::function<void(const MemberMessage& message)>;

  Session(World* world, Network* network) : down_(world, network), up_(world, network) {}

  // Who listens; nothing is heard after the listener has gone.
  void Listen(ToWorker to_worker, std::weak_ptr<const void> worker) {
    to_worker_ = std::move(to_worker);
    worker_ = std::move(worker);
  }
  void Listen(ToCoordinator to_coordinator, std::weak_ptr<const void> coordinator) {
    to_coordinator_ = std::move(to_coordinator);
    coordinator_ = std::move(coordinator);
  }

  void Send(const CoordinatorMessage& message) {
    if (broken_) return;
    down_.Send([this_session = self_.lock(), message] {
      if (!this_session->worker_.expired()) this_session->to_worker_(message);
    });
  }
  void Send(const MemberMessage& message) {
    if (broken_) return;
    up_.Send([this_session = self_.lock(), message] {
      if (!this_session->coordinator_.expired()) this_session->to_coordinator_(message);
    });
  }

  void Break() { broken_ = true; }
  bool broken() const { return broken_; }

  static std::shared_ptr<Session> Make(World* world, Network* network) {
    auto session = std::make_shared<Session>(world, network);
    session->self_ = session;
    return session;
  }

 private:
  Pipe down_;
  Pipe up_;
  std::weak_ptr<Session> self_;
  ToWorker to_worker_;
  ToCoordinator to_coordinator_;
  std::weak_ptr<const void> worker_;
  std::weak_ptr<const void> coordinator_;
  bool broken_ = false;
};

// Does what a worker does by docs/protocol.md: pulls the step's values, pushes its gradient to all
// shards in pieces over several streams, again under another push_id where that breaks off, and
// reports the step. It checks each value that it is given.
class SimulatedWorker {
 public:
  struct Surroundings {
    World* world = nullptr;
    Network* network = nullptr;
    const Oracle* oracle = nullptr;
    const JobShape* shape = nullptr;
    std::vector<SimulatedPs*> servers;  // All that there are.
    // A new stream, or none: there is no coordinator.
    std::function<std::shared_ptr<Session>(SimulatedWorker* worker)> connect;
  };
  SimulatedWorker(const Surroundings& surroundings, std::string name)
      : around_(surroundings), world_(surroundings.world), name_(std::move(name)) {}
  ~SimulatedWorker() { Kill(); }

  const std::string& name() const { return name_; }
  bool running() const { return process_ != nullptr; }
  void Start();
  void Kill();
  // Its stream to the coordinator breaks; it goes on with what it has until it notices.
  void BreakStream();

 private:
  struct Step {
    Lease lease;
    uint64_t step = 0;
    std::vector<absl::optional<PulledState>> pulled;
    std::vector<bool> pushed;
    bool has_turn = false;
    bool over = false;
  };
  using StepPtr = std::shared_ptr<Step>;
  struct Process {
    std::shared_ptr<Session> session;
    std::deque<Lease> leases;
    StepPtr computes;  // Pulls, or computes.
    int pushing = 0;   // Steps that come after that.
    StepPtr ahead;     // Whose pull has begun before its turn.
    uint64_t generation = 0;
    std::vector<SimulatedPs*> route;  // By shard.
  };

  void Connect();
  // Lost where there is no stream.
  void Tell(const MemberMessage& message);
  void Receive(const CoordinatorMessage& message);
  void TakeRoute(const Routing& routing);
  void Evaluate(const ::millrace::Evaluate& evaluate);
  void Next();
  static StepPtr FirstOf(const Lease& lease);
  void PullAhead();
  void PullAll(const StepPtr& step);
  void CheckPulled(const Step& step);
  void ComputeIfReady(const StepPtr& step);
  void PushAll(const StepPtr& step);
  void PushTo(const StepPtr& step, uint32_t shard, int tries);
  void Fail(const StepPtr& step, const absl::Status& status);
  void Finish(const StepPtr& step);
  void Leave(const StepPtr& step);

  // A pull of a shard; `done` is called once if this process lives.
  using Pulled = std::function<void(absl::StatusOr<PulledState>)>;
  void Pull(uint32_t shard, const PullRequest& request, Pulled done);
  void PullParts(uint32_t shard, PullRequest request, Pulled done);
  // One try of a push.
  void Push(const Step& step, uint32_t shard, std::function<void(absl::Status)> done);
  void Stream(uint32_t shard, std::vector<DecodedPush> messages,
              const std::function<void(absl::Status)>& end);

  const Surroundings around_;
  World* const world_;
  const std::string name_;
  std::shared_ptr<Process> process_;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_WORKER_H_
