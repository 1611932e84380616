// How the simulated coordinator brings the shards into one generation and one state: see Attacher.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/merge_progress.h"
#include "coordinator/shards/shard_servers.h"
#include "testing/simulation/simulated_coordinator_internal.h"

namespace millrace::simulation {

namespace {

// Some shards take longer to be made.
constexpr absl::Duration kCreate = absl::Seconds(12);

}  // namespace

using coordinator::DecideAttach;
using coordinator::DecideReach;
using coordinator::IsToBeMade;
using coordinator::ReachAction;

void SimulatedCoordinator::BeginGeneration(std::function<void()> then) {
  Write([](Journal& journal) { ++journal.generation; }, std::move(then));
}

void SimulatedCoordinator::Attach(const std::string& cause) {
  world_->Note(absl::StrCat("attaching: ", cause));
  process_->trains = false;
  process_->flushes = false;
  process_->evaluation.reset();
  process_->is_busy = false;
  process_->refused = 0;
  ++process_->attach;
  const std::vector<bool> remade = ThoseToBe(IsToBeMade);
  if (std::find(remade.begin(), remade.end(), true) == remade.end()) {
    process_->missing_since.clear();
    process_->avoided.clear();
  }
  BeginGeneration([this] { Reach(); });
}

// Calls every shard until all have answered, with no server leaving between the first and the last.
void SimulatedCoordinator::Reach() {
  const std::vector<Located> located = Locate();
  const auto is_missing = [](const Located& each) { return each.server < 0; };
  if (std::any_of(located.begin(), located.end(), is_missing)) {
    if (journal_.made && ReplaceMissing(located)) return;
    return world_->After(absl::Seconds(1), process_, [this] { Reach(); });
  }
  process_->missing_since.clear();
  process_->located = located;
  process_->losses_at_reach = Losses();
  DropFirst();
}

// What is to be made again goes first. A call that was given up may arrive yet, and must not drop
// what is made next.
void SimulatedCoordinator::DropFirst() {
  const auto is_to_be_dropped = [](const ShardPlacement& placement) {
    return placement.making() == ShardPlacement::TO_BE_DROPPED;
  };
  const std::vector<bool> wanted = ThoseToBe(is_to_be_dropped);
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return Bring();
  const auto mark = [wanted](Journal& journal) {
    for (size_t shard = 0; shard < wanted.size(); ++shard) {
      if (!wanted[shard]) continue;
      journal.placements[shard].set_making(ShardPlacement::TO_BE_MADE);
      journal.made_from[shard] = journal.generation;
    }
  };
  const auto requests = AllInDirectories<DropShardRequest>();
  CallSome<ShardStatus>(
      wanted,
      [requests](uint32_t shard, SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.Drop(requests[shard], std::move(answer));
      },
      [this, mark](const Answers& answers) {
        const absl::Status dropped = WorstOf(answers).status;
        if (dropped.ok()) {
          return BeginGeneration([this, mark] { Write(mark, [this] { Bring(); }); });
        }
        switch (DecideReach(dropped, process_->refused)) {
          case ReachAction::kGiveUp:
            return world_->Fail(absl::StrCat("the job fails: ", dropped.ToString()));
          case ReachAction::kAskWhoIsNew:
            return AskWhoIsNew();
          default:
            ReachSoon(dropped);
        }
      },
      kShortCall, /*is_rare=*/true);
}

void SimulatedCoordinator::Bring() {
  std::vector<bool> wanted = ThoseToBe(IsToBeMade);
  for (size_t shard = 0; shard < wanted.size(); ++shard) {
    wanted[shard] = journal_.made && !wanted[shard];
  }
  SetGenerations(wanted, [this](const Answers& answers) {
    const auto brought = AllOf(answers);
    if (!brought.ok()) return AfterReachError(WorstOf(answers));
    Create(*brought);
  });
}

void SimulatedCoordinator::SetGenerations(const std::vector<bool>& wanted,
                                          std::function<void(const Answers&)> done) {
  const auto requests = AllInDirectories<SetGenerationRequest>();
  CallSome<ShardStatus>(
      wanted,
      [requests](uint32_t shard, SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.SetGeneration(requests[shard], std::move(answer));
      },
      std::move(done), kShortCall, /*is_rare=*/true);
}

// Those that are there already.
void SimulatedCoordinator::Create(const Statuses& brought) {
  std::vector<bool> wanted = ThoseToBe(IsToBeMade);
  if (!journal_.made) wanted.assign(wanted.size(), true);
  std::vector<CreateShardRequest> requests(shape_.shards);
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    const ShardPlacement& placement = journal_.placements[shard];
    requests[shard].set_generation(journal_.generation);
    requests[shard].set_directory_id(placement.directory_id());
    *requests[shard].mutable_spec() = oracle_->SpecOf(shard);
    if (!placement.has_restore()) continue;
    *requests[shard].mutable_spec()->mutable_restore() = placement.restore();
  }
  CallSome<ShardStatus>(
      wanted,
      [requests](uint32_t shard, SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.Create(requests[shard], std::move(answer));
      },
      [this, wanted, brought](const Answers& answers) {
        const auto created = AllOf(answers);
        if (!created.ok()) return AfterReachError(WorstOf(answers));
        Statuses statuses = brought;
        for (size_t shard = 0; shard < wanted.size(); ++shard) {
          if (wanted[shard]) statuses[shard] = (*created)[shard];
        }
        Reached(statuses);
      },
      kCreate, /*is_rare=*/true);
}

void SimulatedCoordinator::Reached(const Statuses& statuses) {
  if (HasMoved()) return Reach();
  journal_.made = true;
  CheckRemade(statuses);
  BringTogether(statuses);
}

void SimulatedCoordinator::AfterReachError(const Worst& worst) {
  const absl::Status& status = worst.status;
  const bool makes = journal_.made && IsToBeMade(journal_.placements[worst.shard]);
  // What it reads hangs there, and perhaps not elsewhere.
  const bool hangs = makes && absl::IsDeadlineExceeded(status);
  const ReachAction action = hangs ? ReachAction::kGiveUp : DecideReach(status, process_->refused);
  const bool is_leftover = makes && absl::IsAlreadyExists(status);
  const bool gives_up = action == ReachAction::kGiveUp;
  if ((is_leftover || gives_up) && journal_.made && ReplaceFailed(worst)) return;
  if (action == ReachAction::kAskWhoIsNew) return AskWhoIsNew();
  const bool may_come = makes || absl::IsNotFound(status);
  if (gives_up && !may_come) {
    return world_->Fail(absl::StrCat("the job fails: ", status.ToString()));
  }
  ReachSoon(status);
}

void SimulatedCoordinator::ReachSoon(const absl::Status& status) {
  world_->Note(absl::StrCat("not reached: ", std::string(status.message())));
  if (coordinator::IsRefusal(status)) ++process_->refused;
  world_->After(kSoon, process_, [this] { Reach(); });
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
        ReachSoon(absl::FailedPreconditionError("a shard refuses the generation"));
      });
}

void SimulatedCoordinator::BringTogether(const Statuses& statuses) {
  const coordinator::AttachDecision decision = DecideAttach(statuses, shape_.replicas);
  if (!decision.step_back) return GoOn(statuses);
  if (ReplaceByFurther(decision.steps)) return;
  StepBack(decision);
}

void SimulatedCoordinator::StepBack(const coordinator::AttachDecision& decision) {
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
        if (!stepped.ok()) return AfterStepBackError(WorstOf(answers));
        world_->Count("steps back");
        if (HasMoved()) return Reach();
        if (DecideAttach(*stepped, shape_.replicas).step_back) {
          return world_->After(kSoon, process_, [this] { Reach(); });
        }
        GoOn(*stepped);
      });
}

void SimulatedCoordinator::AfterStepBackError(const Worst& worst) {
  world_->Note(absl::StrCat("not stepped back: ", std::string(worst.status.message())));
  const absl::Status status = coordinator::AsStepBackRefusal(worst.status);
  if (DecideReach(status, process_->refused) == ReachAction::kGiveUp) {
    // No cut is left that all of them can read: a shard is there, and has lost it.
    if (ReplaceFailed({absl::DataLossError(status.message()), worst.shard})) return;
    return world_->Fail(absl::StrCat("no way back: ", status.ToString()));
  }
  if (coordinator::IsRefusal(status)) ++process_->refused;
  world_->After(kSoon, process_, [this] { BeginGeneration([this] { Reach(); }); });
}

void SimulatedCoordinator::GoOn(const Statuses& statuses) {
  const bool moves = std::exchange(process_->moves, false);
  const std::vector<bool> remade = ThoseToBe(IsToBeMade);
  if (std::find(remade.begin(), remade.end(), true) == remade.end()) {
    return moves ? Move(statuses) : Train(statuses);
  }
  const auto mark = [](Journal& journal) {
    for (ShardPlacement& placement : journal.placements) {
      placement.set_making(ShardPlacement::MADE);
    }
  };
  Write(mark, [this, statuses] { Train(statuses); });
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
  process_->frontier = std::max<uint64_t>(merged->frontier, 1);
  process_->barrier = BarrierFrom(process_->frontier);
  process_->cuts.Start(statuses, process_->newest_version, world_->Now());
  process_->newest_version = coordinator::NewestVersion(statuses);
  SetRoute route;
  route.set_job_id(kJob);
  *route.mutable_routing() = coordinator::RoutingOf(journal_.placements, journal_.generation);
  process_->dispatcher.Start({.total_steps = shape_.total_steps,
                              .replicas = shape_.replicas,
                              .staleness_bound = shape_.staleness_bound,
                              .backup = shape_.backup,
                              .pulls_ahead = shape_.pull_ahead},
                             route, merged->done, process_->barrier);
  if (std::exchange(process_->drops_copies, false)) {
    for (size_t server = 0; server < servers_.size(); ++server) DropIfStray(server);
  }
  if (HasMoved()) return Detach("a server went or came back while the journal was written");
  Look();
}

int SimulatedCoordinator::Losses() const {
  int losses = remakes_;
  for (const SimulatedPs* const ps : servers_) losses += ps->losses();
  return losses;
}

// Unless a server lost its memory or its disk, or its shard was made again, since before the shards
// were asked the last time.
void SimulatedCoordinator::CheckNothingIsLost(const AppliedSet& done) {
  const int losses_before = std::exchange(process_->losses, process_->losses_at_reach);
  const AppliedSet reported = process_->dispatcher.DoneSteps(kJob);
  const uint64_t lost = coordinator::CountLost(reported, done);
  if (lost == 0 || Losses() > losses_before) return;
  world_->Fail(absl::StrCat("no server lost its memory, and of ", reported.size(),
                            " steps that were reported ", lost, " are lost"));
}

}  // namespace millrace::simulation
