#include "testing/simulation/simulated_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/retry.h"
#include "coordinator/run/norm_exchange.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/merge_progress.h"

namespace millrace::simulation {
namespace {

using coordinator::BarrierState;
using coordinator::DecideAttach;
using coordinator::DecideReach;
using coordinator::Dispatcher;
using coordinator::ReachAction;

constexpr char kJob[] = "job";
constexpr absl::Duration kCall = absl::Seconds(10);
constexpr absl::Duration kPoll = absl::Seconds(1);
constexpr absl::Duration kSoon = absl::Milliseconds(200);

}  // namespace

// What goes with the process.
struct SimulatedCoordinator::Process final : public coordinator::Outbox {
  explicit Process(SimulatedCoordinator* owner)
      : owner(owner), dispatcher(this, {.clock = owner->world_->clock()}), cuts(absl::Seconds(5)) {}

  void Send(uint64_t member, const CoordinatorMessage& message) override {
    const auto found = members.find(member);
    if (found != members.end()) found->second.session->Send(message);
  }

  SimulatedCoordinator* const owner;
  std::map<uint64_t, Member> members;  // Before the dispatcher, which sends to them.
  Dispatcher dispatcher;
  coordinator::CutPlanner cuts;
  std::vector<uint64_t> located;  // The ps servers' incarnations when they were called.
  int losses = 0;                 // When the shards were asked for what the dispatcher began with,
  int losses_at_reach = 0;        // and last.
  int refused = 0;
  bool trains = false;
  uint64_t attach = 0;  // Its number: what belongs to an older one is of no interest.
  uint64_t looks = 0;   // Only the last one is followed by another.
  uint64_t epoch = 0;
  uint64_t barrier = 0;
  bool is_busy = false;  // A call of a barrier is under way.
  bool flushes = false;  // The job's end, or has flushed it.
  bool flushed = false;
  uint64_t version = 0;    // That the next norm is of.
  bool exchanges = false;  // Norms, now.
  bool polling = false;
  uint64_t pins = 0;
  uint64_t evaluations = 0;
  uint64_t newest_version = 0;
  absl::optional<Evaluation> evaluation;
};

SimulatedCoordinator::SimulatedCoordinator(World* world, Network* network, const JobShape* shape,
                                           std::vector<SimulatedPs*> servers)
    : world_(world),
      network_(network),
      shape_(*shape),
      servers_(std::move(servers)),
      heard_of_(servers_.size(), 0) {}

void SimulatedCoordinator::Start() {
  world_->Note("the coordinator starts");
  process_ = std::make_shared<Process>(this);
  if (journal_.ended) return RetireAll();
  Attach("it starts");
}

void SimulatedCoordinator::Kill() {
  if (process_ == nullptr) return;
  world_->Note("the coordinator is killed");
  for (auto& [id, member] : process_->members) member.session->Break();
  process_.reset();
  heard_of_.assign(servers_.size(), 0);
}

void SimulatedCoordinator::HearOfPs(uint32_t shard, uint64_t incarnation) {
  if (process_ == nullptr) return;
  heard_of_[shard] = incarnation;
  if (process_->trains && HasMoved()) Detach(absl::StrCat("ps-", shard, " went or came back"));
}

bool SimulatedCoordinator::HasMoved() const { return process_->located != heard_of_; }

template <typename Response>
void SimulatedCoordinator::CallAll(
    const std::function<void(SimulatedPs& ps, Answer<Response> answer)>& request,
    std::function<void(const AnswersOf<Response>&)> done) {
  const auto answers = std::make_shared<AnswersOf<Response>>(
      servers_.size(), absl::StatusOr<Response>(absl::UnknownError("not answered")));
  const auto missing = std::make_shared<size_t>(servers_.size());
  for (size_t shard = 0; shard < servers_.size(); ++shard) {
    network_->Call<Response>(servers_[shard], process_, kCall, request,
                             [answers, missing, shard, done](absl::StatusOr<Response> answer) {
                               (*answers)[shard] = std::move(answer);
                               if (--*missing == 0) done(*answers);
                             });
  }
}

template <typename Response>
absl::StatusOr<std::vector<Response>> SimulatedCoordinator::AllOf(
    const AnswersOf<Response>& answers) {
  std::vector<Response> all;
  absl::Status worst;
  for (const auto& answer : answers) {
    if (answer.ok()) {
      all.push_back(*answer);
    } else if (worst.ok() || DecideReach(answer.status(), 0) == ReachAction::kGiveUp) {
      worst = answer.status();
    }
  }
  if (!worst.ok()) return worst;
  return all;
}

void SimulatedCoordinator::BeginGeneration(uint64_t generation) {
  journal_.generation = generation;
}

void SimulatedCoordinator::Attach(const std::string& cause) {
  world_->Note(absl::StrCat("attaching: ", cause));
  process_->trains = false;
  process_->flushes = false;
  process_->evaluation.reset();
  process_->is_busy = false;
  process_->refused = 0;
  ++process_->attach;
  BeginGeneration(journal_.generation + 1);
  Reach();
}

// Calls every shard until all have answered, with no server leaving between the first and the last.
void SimulatedCoordinator::Reach() {
  if (std::count(heard_of_.begin(), heard_of_.end(), 0) > 0) {
    return world_->After(absl::Seconds(1), process_, [this] { Reach(); });
  }
  process_->located = heard_of_;
  process_->losses_at_reach = Losses();
  const uint64_t generation = journal_.generation;
  const bool made = journal_.made;
  CallAll<ShardStatus>(
      [generation, made](SimulatedPs& ps, SimulatedPs::Answer answer) {
        if (made) return ps.SetGeneration(generation, std::move(answer));
        ps.Create(generation, std::move(answer));
      },
      [this](const Answers& answers) { Reached(AllOf(answers)); });
}

void SimulatedCoordinator::Reached(const absl::StatusOr<Statuses>& statuses) {
  if (statuses.ok() && !HasMoved()) {
    journal_.made = true;
    return BringTogether(*statuses);
  }
  if (statuses.ok()) return Reach();
  world_->Note(absl::StrCat("not reached: ", std::string(statuses.status().message())));
  switch (DecideReach(statuses.status(), process_->refused)) {
    case ReachAction::kGiveUp:
      return world_->Fail(absl::StrCat("the job fails: ", statuses.status().ToString()));
    case ReachAction::kAskWhoIsNew:
      return AskWhoIsNew();
    default:
      if (coordinator::IsRefusal(statuses.status())) ++process_->refused;
      world_->After(kSoon, process_, [this] { Reach(); });
  }
}

void SimulatedCoordinator::AskWhoIsNew() {
  CallAll<ShardStatus>(
      [](SimulatedPs& ps, SimulatedPs::Answer answer) { ps.Get(std::move(answer)); },
      [this](const Answers& answers) {
        const auto statuses = AllOf(answers);
        if (statuses.ok()) {
          const auto next = coordinator::NextGeneration(*statuses, journal_.generation);
          if (!next.ok()) return world_->Fail(next.status().ToString());
          if (*next > journal_.generation + 1) {
            // Nobody else sets generations here.
            return world_->Fail(absl::StrCat("a shard is at generation ", *next - 1));
          }
        }
        ++process_->refused;
        world_->After(kSoon, process_, [this] { Reach(); });
      });
}

void SimulatedCoordinator::BringTogether(const Statuses& statuses) {
  const coordinator::AttachDecision decision = DecideAttach(statuses, shape_.replicas);
  if (!decision.step_back) return Train(statuses);
  world_->Note(absl::StrCat("all step back to version ", decision.cut.version(), " of epoch ",
                            decision.cut.epoch(), ", epoch ", decision.epoch,
                            " begins: ", decision.why));
  StepBackRequest request;
  request.set_generation(journal_.generation);
  *request.mutable_cut() = decision.cut;
  request.set_epoch(decision.epoch);
  CallAll<ShardStatus>(
      [request](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.StepBack(request, std::move(answer));
      },
      [this](const Answers& answers) {
        const auto stepped = AllOf(answers);
        if (!stepped.ok()) {
          world_->Note(absl::StrCat("not stepped back: ", std::string(stepped.status().message())));
          const absl::Status status = coordinator::AsStepBackRefusal(stepped.status());
          if (DecideReach(status, process_->refused) == ReachAction::kGiveUp) {
            return world_->Fail(absl::StrCat("no way back: ", status.ToString()));
          }
          if (coordinator::IsRefusal(status)) ++process_->refused;
          return world_->After(kSoon, process_, [this] {
            BeginGeneration(journal_.generation + 1);
            Reach();
          });
        }
        world_->Count("steps back");
        if (HasMoved()) return Reach();
        if (DecideAttach(*stepped, shape_.replicas).step_back) {
          return world_->After(kSoon, process_, [this] { Reach(); });
        }
        Train(*stepped);
      });
}

void SimulatedCoordinator::Train(const Statuses& statuses) {
  world_->Count("attached");
  const auto merged = coordinator::MergeProgress(statuses);
  if (!merged.ok()) return world_->Fail(merged.status().ToString());
  world_->Note(absl::StrCat("training goes on in generation ", journal_.generation, " with ",
                            merged->done.size(), " steps"));
  CheckNothingIsLost(merged->done);
  // The state at the end will be another one: see Evaluator::ForgetTheEnd.
  if (merged->done.watermark() < shape_.total_steps) journal_.evaluated.erase(shape_.total_steps);
  process_->trains = true;
  process_->flushes = false;
  process_->flushed = false;
  process_->epoch = statuses[0].epoch();
  process_->version = statuses[0].version();
  for (const ShardStatus& shard : statuses) {
    process_->version = std::min<uint64_t>(process_->version, shard.version());
  }
  process_->exchanges = false;
  process_->barrier = BarrierFrom(std::max<uint64_t>(merged->frontier, 1));
  process_->cuts.Start(statuses, process_->newest_version, world_->Now());
  process_->newest_version = coordinator::NewestVersion(statuses);
  SetRoute route;
  route.set_job_id(kJob);
  route.mutable_routing()->set_generation(journal_.generation);
  process_->dispatcher.Start({.total_steps = shape_.total_steps,
                              .replicas = shape_.replicas,
                              .staleness_bound = shape_.staleness_bound,
                              .backup = shape_.backup,
                              .pulls_ahead = shape_.pull_ahead},
                             route, merged->done, process_->barrier);
  Look();
}

int SimulatedCoordinator::Losses() const {
  int losses = 0;
  for (const SimulatedPs* const ps : servers_) losses += ps->losses();
  return losses;
}

// Unless a server lost its memory, since before the shards were asked the last time.
void SimulatedCoordinator::CheckNothingIsLost(const AppliedSet& done) {
  const int losses_before = std::exchange(process_->losses, process_->losses_at_reach);
  const AppliedSet reported = process_->dispatcher.DoneSteps(kJob);
  const uint64_t lost = coordinator::CountLost(reported, done);
  if (lost == 0 || Losses() > losses_before) return;
  world_->Fail(absl::StrCat("no server lost its memory, and of ", reported.size(),
                            " steps that were reported ", lost, " are lost"));
}

void SimulatedCoordinator::Detach(const std::string& cause) {
  process_->dispatcher.Pause(kJob);
  Attach(cause);
}

void SimulatedCoordinator::Join(const std::shared_ptr<Session>& session, const std::string& name) {
  // A worker has one stream.
  for (auto it = process_->members.begin(); it != process_->members.end();) {
    it = it->second.name == name ? process_->members.erase(it) : std::next(it);
  }
  const uint64_t member = ++last_member_;
  process_->members[member] = {session, name};
  session->Listen([this, member](const MemberMessage& message) { Receive(member, message); },
                  process_);
  SetWorkers();
  LookAfter(member);
}

// What has broken is seen some time later.
void SimulatedCoordinator::LookAfter(uint64_t member) {
  world_->After(world_->Between(absl::Milliseconds(100), absl::Seconds(6)), process_,
                [this, member] {
                  const auto found = process_->members.find(member);
                  if (found == process_->members.end()) return;
                  if (!found->second.session->broken()) return LookAfter(member);
                  process_->members.erase(found);
                  SetWorkers();
                });
}

void SimulatedCoordinator::SetWorkers() {
  std::vector<coordinator::WorkerCapacity> workers;
  for (const auto& [id, member] : process_->members) {
    workers.push_back({.worker = id, .slots = 1, .name = member.name});
  }
  process_->dispatcher.SetWorkers(workers);
}

void SimulatedCoordinator::Receive(uint64_t member, const MemberMessage& message) {
  if (!process_->members.contains(member)) return;
  Dispatcher& dispatcher = process_->dispatcher;
  if (message.has_job_prepared()) {
    dispatcher.SetPrepared(member, message.job_prepared());
  } else if (message.has_step_result()) {
    dispatcher.Done(member, message.step_result());
  } else if (message.has_lease_returned()) {
    dispatcher.GiveBack(member, message.lease_returned());
  } else if (message.has_evaluation_result()) {
    TakeEvaluation(member, message.evaluation_result());
  }
  if (process_->trains) Look();
}

uint64_t SimulatedCoordinator::BarrierFrom(uint64_t step) const {
  uint64_t period = shape_.evaluate_every;
  if (period == 0 || step >= shape_.total_steps) return shape_.total_steps;
  const uint64_t replicas = std::max<uint64_t>(shape_.replicas, 1);
  period = (period + replicas - 1) / replicas * replicas;
  uint64_t barrier = (step + period - 1) / period * period;
  while (journal_.evaluated.contains(barrier)) barrier += period;
  return std::min(barrier, shape_.total_steps);
}

void SimulatedCoordinator::Look() {
  const auto tick = process_->dispatcher.Tick(kJob);
  const uint64_t look = ++process_->looks;
  world_->After(std::clamp(tick.next - world_->Now(), absl::Milliseconds(50), absl::Seconds(30)),
                process_, [this, look] {
                  if (look == process_->looks && process_->trains) Look();
                });
  Poll();
  const auto progress = process_->dispatcher.GetProgress(kJob);
  if (AwaitsNorm(*progress)) return ExchangeNorms();
  if (progress->at_barrier && !process_->is_busy) PassBarrier();
}

// See NormExchange: all contributions to the next version were reported.
bool SimulatedCoordinator::AwaitsNorm(const Dispatcher::Progress& progress) const {
  const uint64_t replicas = shape_.replicas;
  if (!shape_.clips || process_->version * replicas >= shape_.total_steps) return false;
  return progress.watermark >= std::min((process_->version + 1) * replicas, shape_.total_steps);
}

void SimulatedCoordinator::ExchangeNorms() {
  if (std::exchange(process_->exchanges, true)) return;
  MeasureVersionRequest request;
  request.set_generation(journal_.generation);
  request.set_epoch(process_->epoch);
  request.set_version(process_->version);
  CallAll<MeasureVersionResponse>(
      [request](SimulatedPs& ps, Answer<MeasureVersionResponse> answer) {
        ps.MeasureVersion(request, std::move(answer));
      },
      [this, attach = process_->attach](const AnswersOf<MeasureVersionResponse>& answers) {
        if (attach != process_->attach) return;
        const auto measured = AllOf(answers);
        if (!measured.ok()) return AfterNormError(measured.status());
        const auto decision = coordinator::DecideNorm(*measured);
        if (!decision.ok()) return world_->Fail(decision.status().ToString());
        if (!decision->norm) return AfterNormError(absl::UnavailableError("not all is added up"));
        ApplyNorm(*decision->norm);
      });
}

void SimulatedCoordinator::ApplyNorm(double norm) {
  ApplyVersionRequest request;
  request.set_generation(journal_.generation);
  request.set_epoch(process_->epoch);
  request.set_version(process_->version);
  request.set_norm(norm);
  CallAll<ApplyVersionResponse>(
      [request](SimulatedPs& ps, Answer<ApplyVersionResponse> answer) {
        ps.ApplyVersion(request, std::move(answer));
      },
      [this, attach = process_->attach](const AnswersOf<ApplyVersionResponse>& answers) {
        if (attach != process_->attach) return;
        if (const auto applied = AllOf(answers); !applied.ok()) {
          return AfterNormError(applied.status());
        }
        world_->Count("norms exchanged");
        ++process_->version;
        process_->exchanges = false;
        Look();
      });
}

void SimulatedCoordinator::AfterNormError(const absl::Status& status) {
  const Failure failure = Classify(status.code());
  const bool detaches = failure == Failure::kStale || absl::IsOutOfRange(status);
  if (detaches) return Detach(std::string(status.message()));
  if (failure == Failure::kFinal) return world_->Fail(status.ToString());
  world_->After(kSoon, process_, [this, attach = process_->attach] {
    if (attach != process_->attach) return;
    process_->exchanges = false;
    if (process_->trains) Look();
  });
}

void SimulatedCoordinator::Poll() {
  if (process_->polling) return;
  process_->polling = true;
  PlanCutsRequest plan = process_->cuts.Plan(journal_.generation, world_->Now());
  const AppliedSet reported = process_->dispatcher.DoneSteps(kJob);
  const uint64_t attach = process_->attach;
  CallAll<ShardStatus>(
      [plan](SimulatedPs& ps, SimulatedPs::Answer answer) { ps.PlanCuts(plan, std::move(answer)); },
      [this, attach, reported](const Answers& answers) {
        if (attach == process_->attach && process_->trains) HandlePoll(answers, reported);
        world_->After(kPoll, process_, [this] {
          process_->polling = false;
          if (process_->trains) Poll();
        });
      });
}

void SimulatedCoordinator::HandlePoll(const Answers& answers, const AppliedSet& reported) {
  for (const auto& answer : answers) {
    const bool is_ours = answer.ok() ? answer->generation() == journal_.generation &&
                                           answer->epoch() == process_->epoch && !answer->closed()
                                     : !absl::IsFailedPrecondition(answer.status()) &&
                                           !absl::IsNotFound(answer.status());
    if (!is_ours) return Detach("a shard is not as it was left");
  }
  const auto statuses = AllOf(answers);
  if (!statuses.ok()) return;
  process_->newest_version =
      std::max(process_->newest_version, coordinator::NewestVersion(*statuses));
  process_->cuts.Observe(*statuses, world_->Now());
  const auto merged = coordinator::MergeProgress(*statuses);
  if (!merged.ok()) return world_->Fail(merged.status().ToString());
  // No worker lies here, and each shard is open, so what was reported before it was asked is there.
  if (coordinator::CountLost(reported, merged->done) > 0) {
    world_->Fail(absl::StrCat("of ", reported.size(), " steps that were reported shards have ",
                              merged->done.size()));
  }
}

// Returns whether all shards are at the barrier; otherwise it is tried again.
bool SimulatedCoordinator::AfterCheck(const Statuses& statuses, uint64_t barrier) {
  const coordinator::BarrierCheck check = coordinator::CheckBarrier(statuses, barrier);
  switch (check.state) {
    case BarrierState::kReached:
      return true;
    case BarrierState::kBeingApplied:
      world_->After(kSoon, process_, [this, attach = process_->attach] {
        if (attach != process_->attach) return;
        process_->is_busy = false;
        if (process_->trains) Look();
      });
      return false;
    case BarrierState::kMissing:
      Detach(absl::StrCat("shard ", check.shard, " lacks steps"));
      return false;
    case BarrierState::kBeyond:
      world_->Fail(absl::StrCat("shard ", check.shard, " is beyond the barrier at ", barrier));
      return false;
  }
  return false;
}

// Returns whether the call has worked; otherwise it is tried again, or the shards attached.
bool SimulatedCoordinator::AfterError(const absl::Status& status) {
  if (status.ok()) return true;
  if (absl::IsInvalidArgument(status) || absl::IsInternal(status)) {
    world_->Fail(absl::StrCat("the job fails: ", status.ToString()));
    return false;
  }
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    world_->After(kSoon, process_, [this, attach = process_->attach] {
      if (attach != process_->attach) return;
      process_->is_busy = false;
      if (process_->trains) Look();
    });
  } else {
    Detach(std::string(status.message()));
  }
  return false;
}

void SimulatedCoordinator::PassBarrier() {
  const bool at_the_end = process_->barrier == shape_.total_steps;
  if (process_->evaluation.has_value()) return;  // One after the other.
  if (at_the_end && !process_->flushed) return FlushTheEnd();
  if (!journal_.evaluated.contains(process_->barrier)) return BeginEvaluation(process_->barrier);
  if (at_the_end) return End();
  process_->barrier = BarrierFrom(process_->barrier + 1);
  process_->dispatcher.SetBarrier(kJob, process_->barrier);
}

void SimulatedCoordinator::FlushTheEnd() {
  process_->is_busy = true;
  process_->flushes = true;
  const uint64_t attach = process_->attach;
  const uint64_t generation = journal_.generation;
  CallAll<ShardStatus>(
      [generation](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.Flush(generation, std::move(answer));
      },
      [this, attach](const Answers& answers) {
        if (attach != process_->attach) return;
        const auto statuses = AllOf(answers);
        if (!AfterError(statuses.status()) || !AfterCheck(*statuses, shape_.total_steps)) return;
        process_->is_busy = false;
        process_->flushed = true;
        Look();
      });
}

void SimulatedCoordinator::BeginEvaluation(uint64_t steps) {
  process_->is_busy = true;
  const uint64_t attach = process_->attach;
  const uint64_t generation = journal_.generation;
  // See Evaluator: a name that does not come again, and the one before.
  const std::string other = absl::StrCat("evaluation-", process_->pins);
  const std::string cut_id = absl::StrCat("evaluation-", process_->pins + 1);
  const auto pinned = [this, attach, steps, cut_id, generation](const Answers& answers) {
    if (attach != process_->attach) return;
    const auto statuses = AllOf(answers);
    if (!AfterError(statuses.status()) || !AfterCheck(*statuses, steps)) return;
    process_->is_busy = false;
    Evaluation evaluation;
    evaluation.steps = steps;
    evaluation.request.set_job_id(kJob);
    evaluation.request.set_generation(generation);
    evaluation.request.set_evaluation_id(generation << 32 | ++process_->evaluations);
    evaluation.request.set_cut_id(cut_id);
    process_->evaluation = std::move(evaluation);
    SendEvaluation();
    if (steps == shape_.total_steps) return;
    process_->barrier = BarrierFrom(steps + 1);
    process_->dispatcher.SetBarrier(kJob, process_->barrier);
  };
  const auto pin = [this, attach, generation, cut_id, pinned](const Answers& answers) {
    if (attach != process_->attach || !AfterError(AllOf(answers).status())) return;
    ++process_->pins;
    CallAll<ShardStatus>(
        [generation, cut_id](SimulatedPs& ps, SimulatedPs::Answer answer) {
          ps.PinCut(generation, cut_id, std::move(answer));
        },
        pinned);
  };
  CallAll<ShardStatus>(
      [generation, other](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.UnpinCut(generation, other, std::move(answer));
      },
      pin);
}

void SimulatedCoordinator::SendEvaluation() {
  const bool is_out = process_->dispatcher.SendEvaluate(process_->evaluation->request).has_value();
  // Who does not answer is given up, and where there is nobody, somebody may come.
  SendEvaluationAgainAfter(is_out ? absl::Minutes(1) : absl::Seconds(1));
}

// Unless it has been sent again before, or has ended.
void SimulatedCoordinator::SendEvaluationAgainAfter(absl::Duration pause) {
  const uint64_t number = ++process_->evaluation->number;
  const uint64_t id = process_->evaluation->request.evaluation_id();
  world_->After(pause, process_, [this, id, number] {
    const auto& evaluation = process_->evaluation;
    const bool waits = process_->trains && evaluation.has_value() &&
                       evaluation->request.evaluation_id() == id && evaluation->number == number;
    if (waits) SendEvaluation();
  });
}

void SimulatedCoordinator::TakeEvaluation(uint64_t member, const EvaluationResult& result) {
  if (!process_->trains || !process_->evaluation.has_value()) return;
  const Evaluation& evaluation = *process_->evaluation;
  if (result.evaluation_id() != evaluation.request.evaluation_id()) return;
  if (!process_->dispatcher.HasEvaluation(member, kJob, result.evaluation_id())) return;
  if (result.code() != 0) {
    process_->dispatcher.TakeEvaluationBack(member, kJob);
    world_->Note(absl::StrCat("not evaluated: ", result.message()));
    return SendEvaluationAgainAfter(kSoon);
  }
  if (result.examples() != evaluation.steps) {
    return world_->Fail(absl::StrCat("the evaluation of the first ", evaluation.steps,
                                     " steps was of ", result.examples()));
  }
  world_->Note(absl::StrCat("evaluated at ", evaluation.steps));
  process_->dispatcher.EndEvaluation(kJob);
  journal_.evaluated.insert(evaluation.steps);
  world_->Count("evaluations");
  const std::string cut_id = evaluation.request.cut_id();
  const uint64_t generation = evaluation.request.generation();
  process_->evaluation.reset();
  CallAll<ShardStatus>(
      [generation, cut_id](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.UnpinCut(generation, cut_id, std::move(answer));
      },
      [](const Answers& /*answers*/) {});
}

void SimulatedCoordinator::End() {
  world_->Note("the job has SUCCEEDED");
  journal_.ended = true;
  process_->trains = false;
  ++process_->attach;
  process_->dispatcher.Remove(kJob);
  RetireAll();
}

// First the generation is set where it is not: a server was away at the end.
void SimulatedCoordinator::RetireAll() {
  const uint64_t generation = journal_.generation;
  const auto retire = [this, generation](const Answers& /*fenced*/) {
    CallAll<ShardStatus>(
        [generation](SimulatedPs& ps, SimulatedPs::Answer answer) {
          ps.Retire(generation, std::move(answer));
        },
        [this](const Answers& answers) {
          if (AllOf(answers).ok()) {
            retired_ = true;
          } else {
            world_->After(absl::Seconds(1), process_, [this] { RetireAll(); });
          }
        });
  };
  CallAll<ShardStatus>(
      [generation](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.SetGeneration(generation, std::move(answer));
      },
      retire);
}

bool SimulatedCoordinator::relies_on_disks() const {
  return journal_.ended || (process_ != nullptr && process_->flushes);
}

}  // namespace millrace::simulation
