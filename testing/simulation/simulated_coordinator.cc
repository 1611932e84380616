#include "testing/simulation/simulated_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/retry.h"
#include "coordinator/run/norm_exchange.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/merge_progress.h"
#include "testing/simulation/simulated_coordinator_internal.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kPoll = absl::Seconds(1);

}  // namespace

using coordinator::BarrierState;
using coordinator::Dispatcher;

SimulatedCoordinator::SimulatedCoordinator(World* world, Network* network, const JobShape* shape,
                                           const Oracle* oracle, SimulatedCheckpoints* checkpoints,
                                           std::vector<SimulatedPs*> servers)
    : world_(world),
      network_(network),
      shape_(*shape),
      oracle_(oracle),
      checkpoints_(checkpoints),
      servers_(std::move(servers)),
      heard_of_(servers_.size()) {
  journal_.placements.resize(shape_.shards);
  for (const SimulatedPs* const ps : servers_) {
    ShardPlacement& placement = journal_.placements[ps->number()];
    if (!placement.server().empty()) continue;
    placement.set_server(ps->name());
    placement.set_directory_id(ps->directory_id());
  }
}

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
  heard_of_.assign(servers_.size(), {});
}

void SimulatedCoordinator::Write(std::function<void(Journal& journal)> change,
                                 std::function<void()> then) {
  world_->After(world_->Between(absl::Milliseconds(1), absl::Seconds(1)), process_,
                [this, change = std::move(change), then = std::move(then)] {
                  change(journal_);
                  world_->After(world_->Between(absl::Milliseconds(1), absl::Seconds(1)), process_,
                                then);
                });
}

void SimulatedCoordinator::HearOfPs(size_t server, const Registration& registration) {
  if (process_ == nullptr) return;
  heard_of_[server] = registration;
  DropIfStray(server);
  if (process_->trains && HasMoved()) {
    Detach(absl::StrCat(servers_[server]->name(), " went or came back"));
  }
}

// By the directories in which they are to be.
std::vector<SimulatedCoordinator::Located> SimulatedCoordinator::Locate() const {
  std::vector<Located> located(shape_.shards);
  for (size_t server = 0; server < servers_.size(); ++server) {
    const Registration& heard = heard_of_[server];
    const uint32_t shard = servers_[server]->number();
    if (heard.incarnation == 0) continue;
    if (heard.directory_id != journal_.placements[shard].directory_id()) continue;
    located[shard] = {static_cast<int>(server), heard.incarnation};
  }
  return located;
}

bool SimulatedCoordinator::HasMoved() const { return process_->located != Locate(); }

SimulatedPs* SimulatedCoordinator::ServerOf(uint32_t shard) const {
  return ServerNamed(journal_.placements[shard].server());
}

SimulatedPs* SimulatedCoordinator::ServerNamed(const std::string& name) const {
  const auto is_it = [&](const SimulatedPs* ps) { return ps->name() == name; };
  return *std::find_if(servers_.begin(), servers_.end(), is_it);
}

bool SimulatedCoordinator::MayBeDropped(const SimulatedPs& ps) const {
  const ShardPlacement& placement = journal_.placements[ps.number()];
  if (placement.directory_id() != ps.directory_id()) return true;
  if (placement.making() == ShardPlacement::TO_BE_DROPPED) return true;
  // A late call may have made it after that one was dropped which was there.
  const auto from = journal_.made_from.find(ps.number());
  return placement.making() == ShardPlacement::TO_BE_MADE && from != journal_.made_from.end() &&
         ps.shard()->generation() < from->second;
}

void SimulatedCoordinator::Detach(const std::string& cause) {
  process_->dispatcher.Pause(kJob);
  process_->trains = false;
  process_->evaluation.reset();
  // One whose manifest is about to be there becomes one, unless it is that of an evaluation, which
  // does not count.
  const auto& checkpoint = process_->checkpoint;
  const bool becomes_one = checkpoint.has_value() && checkpoint->commits && checkpoint->pin.empty();
  if (checkpoint.has_value() && !becomes_one) GiveUpCheckpoint(cause);
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
  if (!progress->at_barrier && process_->frontier <= process_->barrier &&
      !process_->evaluation.has_value() && WantsToMove()) {
    process_->barrier =
        process_->dispatcher.SetBarrierHere(kJob, process_->frontier, process_->barrier);
  }
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
  AdvanceCheckpoints(*statuses);  // Before the shards are told which cuts may go.
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
  if (!at_the_end && WantsToMove()) return LeaveServers();
  if (at_the_end && !process_->flushed) return FlushTheEnd();
  // Another barrier is one at which shards were to move.
  const bool is_evaluated = at_the_end || BarrierFrom(process_->barrier) == process_->barrier;
  if (is_evaluated && !journal_.evaluated.contains(process_->barrier)) {
    return BeginEvaluation(process_->barrier);
  }
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
  // See Evaluator: a name that does not come again, and the two before.
  const std::string last = absl::StrCat("evaluation-", process_->pins);
  const std::string before = absl::StrCat("evaluation-", process_->pins - 1);
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
      [generation, last, before](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.UnpinCut(generation, before, [](const absl::StatusOr<ShardStatus>& /*status*/) {});
        ps.UnpinCut(generation, last, std::move(answer));
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
                       evaluation->request.evaluation_id() == id && evaluation->number == number &&
                       !evaluation->answered;
    if (waits) SendEvaluation();
  });
}

void SimulatedCoordinator::TakeEvaluation(uint64_t member, const EvaluationResult& result) {
  if (!process_->trains || !process_->evaluation.has_value()) return;
  Evaluation& evaluation = *process_->evaluation;
  if (evaluation.answered) return;
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
  evaluation.answered = true;
  // A better one becomes rarer.
  const bool is_best = shape_.keeps_best && world_->OneIn(2 + journal_.evaluated.size() / 4);
  if (!is_best || (process_->checkpoint && !process_->checkpoint->waits_for_cut)) {
    return ConcludeEvaluation();
  }
  // The best one is saved before it counts.
  process_->cuts.Want(0);
  process_->checkpoint.emplace();
  process_->checkpoint->pin = evaluation.request.cut_id();
  process_->checkpoint->exact_step = evaluation.steps;
  BeginCheckpoint();
}

void SimulatedCoordinator::ConcludeEvaluation() {
  const Evaluation& evaluation = *process_->evaluation;
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
  SetGenerations(std::vector<bool>(shape_.shards, true), retire);
}

bool SimulatedCoordinator::relies_on_disks() const {
  return journal_.ended || (process_ != nullptr && process_->flushes);
}

}  // namespace millrace::simulation
