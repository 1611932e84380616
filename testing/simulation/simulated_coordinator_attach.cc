// How the simulated coordinator brings the shards into one generation and one state: see Attacher.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/merge_progress.h"
#include "testing/simulation/simulated_coordinator_internal.h"

namespace millrace::simulation {

using coordinator::DecideAttach;
using coordinator::DecideReach;
using coordinator::ReachAction;

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

}  // namespace millrace::simulation
