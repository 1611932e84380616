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
#include "coordinator/journal/job_record.pb.h"
#include "coordinator/membership/outbox.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/cut_planner.h"
#include "coordinator/shards/move_plan.h"
#include "protos/checkpoint.pb.h"
#include "protos/cluster.pb.h"
#include "testing/simulation/network.h"
#include "testing/simulation/oracle.h"
#include "testing/simulation/simulated_checkpoints.h"
#include "testing/simulation/simulated_ps.h"
#include "testing/simulation/simulated_worker.h"
#include "testing/simulation/world.h"

namespace millrace::simulation {

// The decisions are the real ones: who gets which step (Dispatcher), whether shards go on or step
// back, and to where (DecideAttach), what they have (MergeProgress), which cuts they take
// (CutPlanner), whether they are at a barrier (CheckBarrier), what to make of an error
// (DecideReach), where shards go that are made again or move (PlaceAgain, PlanMoves), which cut a
// checkpoint is of (OldestCommonCut) and whether it is one state (MergeAnswers). What asks, waits,
// and attaches again (Attacher, Remaker, Relocator, Trainer, Evaluator, Checkpointer) is a model. A
// change of the journal takes a moment, and who dies before that has not made it.
class SimulatedCoordinator {
 public:
  // None is owned. `servers`: those that have place for a shard stand together, and the first of
  // them has it in the beginning.
  SimulatedCoordinator(World* world, Network* network, const JobShape* shape, const Oracle* oracle,
                       SimulatedCheckpoints* checkpoints, std::vector<SimulatedPs*> servers);
  ~SimulatedCoordinator() { Kill(); }

  bool running() const { return process_ != nullptr; }
  void Start();
  void Kill();

  // The job has ended, and all shards are retired.
  bool done() const { return journal_.ended && retired_; }
  // Whether it has been told that disks have the job's last state.
  bool relies_on_disks() const;
  // From now on shards are to move away from the server's directory, or may go there again.
  void Evacuate(const SimulatedPs& ps, bool is_evacuated);
  // No server is evacuated any more.
  void UndoEvacuations() { journal_.evacuated.clear(); }

  // Where the shard is to be.
  SimulatedPs* ServerOf(uint32_t shard) const;

  // Whether that is not where a shard is that was made, or is being made.
  bool MayBeDropped(const SimulatedPs& ps) const;

  // What a ps server says of itself when it comes. Incarnation 0: it is gone.
  struct Registration {
    uint64_t incarnation = 0;
    std::string directory_id = {};
    bool has_shard = false;
  };
  // What it hears of its members, sooner or later. `server`: its place in `servers`.
  void HearOfPs(size_t server, const Registration& registration);
  // A worker's new stream.
  void Join(const std::shared_ptr<Session>& session, const std::string& name);

 private:
  using ShardPlacement = coordinator::ShardPlacement;
  // What is written before anybody hears of it.
  struct Journal {
    uint64_t generation = 0;
    std::vector<ShardPlacement> placements;
    // By shard: the generation from which on it is made again, where what was there is gone.
    std::map<size_t, uint64_t> made_from;
    bool made = false;  // All shards have been, once.
    bool ended = false;
    std::set<uint64_t> evaluated;     // Barriers.
    std::set<std::string> evacuated;  // Directories.
    uint64_t checkpoint_step = 0;     // Of the newest checkpoint.
    uint64_t checkpoint = 0;          // Its number.
  };
  struct Member {
    std::shared_ptr<Session> session;
    std::string name;
  };
  struct Evaluation {
    uint64_t steps = 0;
    ::millrace::Evaluate request;
    uint64_t number = 0;  // Of the last wait.
    bool answered = false;
  };
  struct Process;
  using Statuses = std::vector<ShardStatus>;
  template <typename Response>
  using AnswersOf = std::vector<absl::StatusOr<Response>>;
  using Answers = AnswersOf<ShardStatus>;

  // Which server has a shard, and which life of it. `server` -1: none.
  struct Located {
    int server = -1;
    uint64_t incarnation = 0;
    friend bool operator==(const Located& a, const Located& b) {
      return a.server == b.server && a.incarnation == b.incarnation;
    }
  };
  struct Worst {
    absl::Status status;
    uint32_t shard = 0;
  };

  // Asks all shards, or those of `wanted`; `done` is called when the last has answered. Of the
  // others the answers are OK, and empty.
  template <typename Response = ShardStatus>
  using ShardRequest =
      std::function<void(uint32_t shard, SimulatedPs& ps, Answer<Response> answer)>;
  template <typename Response = ShardStatus>
  void CallSome(const std::vector<bool>& wanted, const ShardRequest<Response>& request,
                std::function<void(const AnswersOf<Response>&)> done,
                absl::Duration timeout = absl::Seconds(10), bool is_rare = false);
  template <typename Response = ShardStatus>
  void CallAll(const std::function<void(SimulatedPs& ps, Answer<Response> answer)>& request,
               std::function<void(const AnswersOf<Response>&)> done,
               absl::Duration timeout = absl::Seconds(10));
  // The worst error, if there is one: one that does not pass, or the first.
  template <typename Response>
  static Worst WorstOf(const AnswersOf<Response>& answers);
  // The answers, or the worst error.
  template <typename Response>
  static absl::StatusOr<std::vector<Response>> AllOf(const AnswersOf<Response>& answers);
  // The shard's, for what is in its own directory, in this generation.
  template <typename Request>
  Request InDirectory(uint32_t shard) const {
    Request request;
    request.set_generation(journal_.generation);
    request.set_directory_id(journal_.placements[shard].directory_id());
    return request;
  }
  template <typename Request>
  std::vector<Request> AllInDirectories() const {
    std::vector<Request> requests;
    for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
      requests.push_back(InDirectory<Request>(shard));
    }
    return requests;
  }
  // SetGeneration of those of `wanted`.
  void SetGenerations(const std::vector<bool>& wanted, std::function<void(const Answers&)> done);
  // Changes the journal in a moment, and goes on then.
  void Write(std::function<void(Journal& journal)> change, std::function<void()> then);

  std::vector<Located> Locate() const;
  bool HasMoved() const;
  SimulatedPs* ServerNamed(const std::string& name) const;
  void DropIfStray(size_t server);

  void Attach(const std::string& cause);
  void BeginGeneration(std::function<void()> then);
  void Reach();
  void DropFirst();
  void Bring();
  void Create(const Statuses& brought);
  void Reached(const Statuses& statuses);
  void AfterReachError(const Worst& worst);
  void ReachSoon(const absl::Status& status);
  void AskWhoIsNew();
  void BringTogether(const Statuses& statuses);
  void StepBack(const coordinator::AttachDecision& decision);
  void AfterStepBackError(const Worst& worst);
  void GoOn(const Statuses& statuses);
  void Train(const Statuses& statuses);
  int Losses() const;
  void CheckNothingIsLost(const AppliedSet& done);

  // See Remaker. Those that return whether they did something have placed shards again, and attach.
  bool ReplaceMissing(const std::vector<Located>& located);
  bool ReplaceFailed(const Worst& worst);
  bool ReplaceByFurther(uint64_t steps);
  bool MakeAgain(std::vector<bool> lost, const std::vector<bool>& moves, const std::string& cause,
                 bool drops_what_was_made = false);
  void PlaceShards(std::vector<ShardPlacement> placements, const std::string& cause);
  std::vector<coordinator::TargetServer> ServersFor(uint32_t shard) const;
  std::vector<bool> ThoseToBe(bool (*is_it)(const ShardPlacement& placement)) const;
  void CheckRemade(const Statuses& statuses);

  // See Relocator.
  std::vector<coordinator::ShardMove> PlanMoves() const;
  bool WantsToMove() const;
  void LeaveServers();
  void Move(const Statuses& statuses);
  void CopyShards(const std::vector<coordinator::ShardMove>& moves, const Statuses& statuses);
  void Settle(const std::vector<coordinator::ShardMove>& moves);
  void MoveInVain(const std::string& why);
  void HasPerhaps(const std::string& directory_id);

  // See Checkpointer.
  void AdvanceCheckpoints(const Statuses& statuses);
  void BeginCheckpoint();
  void FillCheckpoint();
  void Commit(const std::vector<WriteCheckpointResponse>& answers);
  void CommitManifest(const CheckpointManifest& manifest);
  void CheckWritten(const SimulatedCheckpoints::Found& found);
  bool IsUnderWay(uint64_t attempt) const;
  void EndCheckpoint();
  void GiveUpCheckpoint(const std::string& why);

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
  void ConcludeEvaluation();
  bool AfterError(const absl::Status& status);
  bool AfterCheck(const Statuses& statuses, uint64_t barrier);
  void End();
  void RetireAll();

  World* const world_;
  Network* const network_;
  const JobShape& shape_;
  const Oracle* const oracle_;
  SimulatedCheckpoints* const checkpoints_;
  const std::vector<SimulatedPs*> servers_;
  Journal journal_;
  bool retired_ = false;
  uint64_t last_member_ = 0;
  int remakes_ = 0;                     // By all processes.
  std::vector<Registration> heard_of_;  // Of each ps server.
  std::shared_ptr<Process> process_;
};

}  // namespace millrace::simulation

#endif  // MILLRACE_TESTING_SIMULATION_SIMULATED_COORDINATOR_H_
