// How the simulated coordinator has shards move away from servers that are evacuated: see
// Relocator.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/shards/attach_decision.h"
#include "coordinator/shards/move_plan.h"
#include "testing/simulation/simulated_coordinator_internal.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kPauseAfterVain = absl::Seconds(3);

}  // namespace

using coordinator::AreOfOneState;
using coordinator::CheckTogether;
using coordinator::ShardMove;

void SimulatedCoordinator::Evacuate(const SimulatedPs& ps, bool is_evacuated) {
  if (process_ == nullptr) return;
  world_->Count("evacuations");
  world_->Note(absl::StrCat(ps.directory_id(), is_evacuated ? " is evacuated" : " is open again"));
  if (is_evacuated) {
    journal_.evacuated.insert(ps.directory_id());
  } else {
    journal_.evacuated.erase(ps.directory_id());
  }
  if (process_->trains) Look();
}

// One by one: each server has place for one certain shard.
std::vector<ShardMove> SimulatedCoordinator::PlanMoves() const {
  std::vector<ShardMove> moves;
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    const std::vector<ShardMove> planned = coordinator::PlanMoves(
        {&journal_.placements[shard], 1},
        [this](const std::string& directory) { return journal_.evacuated.contains(directory); },
        ServersFor(shard));
    for (const ShardMove& move : planned) moves.push_back({shard, move.to});
  }
  return moves;
}

bool SimulatedCoordinator::WantsToMove() const {
  return world_->Now() >= process_->move_after && !PlanMoves().empty();
}

// The shards' own word counts: what was reported may still be being applied.
void SimulatedCoordinator::LeaveServers() {
  process_->is_busy = true;
  CallAll<ShardStatus>(
      [](SimulatedPs& ps, SimulatedPs::Answer answer) { ps.Get(std::move(answer)); },
      [this, attach = process_->attach](const Answers& answers) {
        if (attach != process_->attach) return;
        const auto statuses = AllOf(answers);
        if (!AfterError(statuses.status()) || !AfterCheck(*statuses, process_->barrier)) return;
        process_->moves = true;
        Detach("shards are to move");
      });
}

void SimulatedCoordinator::Move(const Statuses& statuses) {
  const std::vector<ShardMove> moves = PlanMoves();
  if (moves.empty()) return Train(statuses);
  if (shape_.replicas == 0) return CopyShards(moves, statuses);
  const absl::Status together = CheckTogether(statuses);
  if (!together.ok()) return MoveInVain(std::string(together.message()));
  const uint64_t generation = journal_.generation;
  CallAll<ShardStatus>(
      [generation](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.Flush(generation, std::move(answer));
      },
      [this, moves, attach = process_->attach](const Answers& answers) {
        if (attach != process_->attach) return;
        const auto flushed = AllOf(answers);
        if (!flushed.ok()) return MoveInVain(std::string(flushed.status().message()));
        if (!CheckTogether(*flushed).ok())
          return MoveInVain("shards are not at one version any more");
        CopyShards(moves, *flushed);
      });
}

void SimulatedCoordinator::CopyShards(const std::vector<ShardMove>& moves,
                                      const Statuses& statuses) {
  const auto answers = std::make_shared<Answers>(moves.size(), absl::UnknownError(""));
  const auto missing = std::make_shared<size_t>(moves.size());
  const uint64_t attach = process_->attach;
  const auto end = [this, attach, answers, moves, statuses] {
    if (attach != process_->attach) return;
    const auto copies = AllOf(*answers);
    if (!copies.ok()) return MoveInVain(std::string(copies.status().message()));
    for (size_t i = 0; i < moves.size(); ++i) {
      if (AreOfOneState((*copies)[i], statuses[moves[i].shard])) continue;
      return world_->Fail(absl::StrCat("the copy of shard ", moves[i].shard, " is of version ",
                                       (*copies)[i].version(), " instead of ",
                                       statuses[moves[i].shard].version()));
    }
    Settle(moves);
  };
  for (size_t i = 0; i < moves.size(); ++i) {
    const uint32_t shard = moves[i].shard;
    CopyShardRequest request;
    request.set_generation(journal_.generation + 1);
    request.set_source_generation(journal_.generation);
    request.set_directory_id(moves[i].to.directory_id);
    request.set_source_directory_id(journal_.placements[shard].directory_id());
    SimulatedPs* const source = ServerOf(shard);
    SimulatedPs* const target = ServerNamed(moves[i].to.name);
    HasPerhaps(moves[i].to.directory_id);
    network_->Call<ShardStatus>(
        target, process_, kShortCall,
        [request, source](SimulatedPs& ps, SimulatedPs::Answer answer) {
          ps.CopyFrom(request, source, std::move(answer));
        },
        [answers, missing, i, end](absl::StatusOr<ShardStatus> answer) {
          (*answers)[i] = std::move(answer);
          if (--*missing == 0) end();
        },
        /*is_rare=*/true);
  }
}

// From the journal's write on the shards are there, and what is left behind may go.
void SimulatedCoordinator::Settle(const std::vector<ShardMove>& moves) {
  const auto settle = [this, moves, generation = journal_.generation + 1](Journal& journal) {
    for (const ShardMove& move : moves) {
      HasPerhaps(journal.placements[move.shard].directory_id());
      coordinator::PlaceOn(move.to, journal.placements[move.shard]);
    }
    journal.generation = generation;
    world_->Count("moves settled");
    world_->Note("shards have moved");
  };
  Write(settle, [this] {
    for (size_t server = 0; server < servers_.size(); ++server) DropIfStray(server);
    Attach("shards have moved");
  });
}

// They go on where they are. A copy that is still under way is refused from the next generation on.
void SimulatedCoordinator::MoveInVain(const std::string& why) {
  world_->Count("moves in vain");
  world_->Note(absl::StrCat("shards stay: ", why));
  process_->move_after = world_->Now() + kPauseAfterVain;
  process_->drops_copies = true;
  Attach("shards were to move, and stay");
}

// What is there and not placed there is dropped when the server is looked at next.
void SimulatedCoordinator::HasPerhaps(const std::string& directory_id) {
  for (Registration& heard : heard_of_) {
    if (heard.incarnation != 0 && heard.directory_id == directory_id) heard.has_shard = true;
  }
}

}  // namespace millrace::simulation
