// A coordinator with one job, whose processes come and go.
#ifndef MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_H_
#define MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/applied_set.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/membership/outbox.h"
#include "coordinator/shards/cut_planner.h"
#include "protos/cluster.pb.h"
#include "testing/simulation/network.h"
#include "testing/simulation/oracle.h"
#include "testing/simulation/simulated_ps.h"
#include "testing/simulation/simulated_worker.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// The decisions are the real ones: who gets which step (Dispatcher), whether shards go on or step
// back, and to where (DecideAttach), what they have (MergeProgress), which cuts they take
// (CutPlanner), whether they are at a barrier (CheckBarrier), and what to make of an error
// (DecideReach). What asks, waits, and attaches again (Attacher, Trainer, Evaluator) is a model.
class SimulatedCoordinator {
 public:
  // None is owned.
  SimulatedCoordinator(World* world, Network* network, const JobShape* shape,
                       std::vector<SimulatedPs*> servers);
  ~SimulatedCoordinator() { Kill(); }

  bool running() const { return process_ != nullptr; }
  void Start();
  void Kill();

  // The job has ended, and all shards are retired.
  bool done() const { return journal_.ended && retired_; }
  // Whether it has been told that disks have the job's last state.
  bool relies_on_disks() const;

  // What it hears of its members, sooner or later. 0: it is gone.
  void HearOfPs(uint32_t shard, uint64_t incarnation);
  // A worker's new stream.
  void Join(const std::shared_ptr<Session>& session, const std::string& name);

 private:
  // What is written before anybody hears of it.
  struct Journal {
    uint64_t generation = 0;
    bool made = false;  // All shards are.
    bool ended = false;
    std::set<uint64_t> evaluated;  // Barriers.
  };
  struct Member {
    std::shared_ptr<Session> session;
    std::string name;
  };
  struct Evaluation {
    uint64_t steps = 0;
    ::millrace::Evaluate request;
    uint64_t number = 0;  // Of the last wait.
  };
  struct Process;
  using Statuses = std::vector<ShardStatus>;
  template <typename Response>
  using AnswersOf = std::vector<absl::StatusOr<Response>>;
  using Answers = AnswersOf<ShardStatus>;

  // Asks all shards; `done` is called when the last has answered.
  template <typename Response = ShardStatus>
  void CallAll(const std::function<void(SimulatedPs& ps, Answer<Response> answer)>& request,
               std::function<void(const AnswersOf<Response>&)> done);
  // The answers, or the worst error: one that does not pass, or the first.
  template <typename Response>
  static absl::StatusOr<std::vector<Response>> AllOf(const AnswersOf<Response>& answers);
  bool HasMoved() const;

  void BeginGeneration(uint64_t generation);
  void Attach(const std::string& cause);
  void Reach();
  void Reached(const absl::StatusOr<Statuses>& statuses);
  void AskWhoIsNew();
  void BringTogether(const Statuses& statuses);
  void Train(const Statuses& statuses);
  int Losses() const;
  void CheckNothingIsLost(const AppliedSet& done);

  void Receive(uint64_t member, const MemberMessage& message);
  void LookAfter(uint64_t member);
  void SetWorkers();
  void Detach(const std::string& cause);
  void Look();
  void Poll();
  void HandlePoll(const Answers& answers, const AppliedSet& reported);
  uint64_t BarrierFrom(uint64_t step) const;
  bool AwaitsNorm(const coordinator::Dispatcher::Progress& progress) const;
  void ExchangeNorms();
  void ApplyNorm(double norm);
  void AfterNormError(const absl::Status& status);
  void PassBarrier();
  void FlushTheEnd();
  void BeginEvaluation(uint64_t steps);
  void SendEvaluation();
  void SendEvaluationAgainAfter(absl::Duration pause);
  void TakeEvaluation(uint64_t member, const EvaluationResult& result);
  bool AfterError(const absl::Status& status);
  bool AfterCheck(const Statuses& statuses, uint64_t barrier);
  void End();
  void RetireAll();

  World* const world_;
  Network* const network_;
  const JobShape& shape_;
  const std::vector<SimulatedPs*> servers_;
  Journal journal_;
  bool retired_ = false;
  uint64_t last_member_ = 0;
  std::vector<uint64_t> heard_of_;  // Of each ps server: its incarnation.
  std::shared_ptr<Process> process_;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_H_
