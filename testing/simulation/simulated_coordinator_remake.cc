// How the simulated coordinator has shards made again from a checkpoint: see Remaker.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/shard_placement.h"
#include "coordinator/shards/remake_plan.h"
#include "testing/simulation/simulated_coordinator_internal.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kRestoreGrace = absl::Seconds(20);
constexpr absl::Duration kLookForFilesAgain = absl::Seconds(10);

}  // namespace

using coordinator::IsToBeMade;
using coordinator::PlaceAgain;
using coordinator::TargetServer;

std::vector<bool> SimulatedCoordinator::ThoseToBe(
    bool (*is_it)(const ShardPlacement& placement)) const {
  std::vector<bool> those;
  for (const ShardPlacement& placement : journal_.placements) those.push_back(is_it(placement));
  return those;
}

// Those that are back with other directories, when all that are missing are; and those that are
// gone for too long.
bool SimulatedCoordinator::ReplaceMissing(const std::vector<Located>& located) {
  const absl::Time now = world_->Now();
  const auto before = std::exchange(process_->missing_since, {});
  const auto is_served_otherwise = [this](const ShardPlacement& placement) {
    for (size_t server = 0; server < servers_.size(); ++server) {
      const bool is_it = servers_[server]->name() == placement.server();
      if (is_it && heard_of_[server].incarnation != 0) return true;
    }
    return false;
  };
  std::vector<bool> lost(shape_.shards);
  std::vector<bool> moves(shape_.shards);
  bool only_directories_are_lost = true;
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    if (located[shard].server >= 0) continue;
    const ShardPlacement& placement = journal_.placements[shard];
    moves[shard] = true;
    only_directories_are_lost &= is_served_otherwise(placement);
    const auto known = before.find(placement.directory_id());
    const absl::Time since = known == before.end() ? now : known->second;
    process_->missing_since[placement.directory_id()] = since;
    lost[shard] = now - since >= kRestoreGrace;
    if (ServersFor(shard).empty()) process_->avoided.clear();
  }
  if (only_directories_are_lost) lost = moves;
  if (std::find(lost.begin(), lost.end(), true) == lost.end()) return false;
  if (now < process_->look_again) return false;
  const std::string cause =
      only_directories_are_lost ? "data directories are gone" : "servers are gone for too long";
  if (!MakeAgain(lost, moves, cause)) return false;
  world_->Count(only_directories_are_lost ? "made again for lost disks"
                                          : "made again for gone servers");
  return true;
}

bool SimulatedCoordinator::ReplaceFailed(const Worst& worst) {
  const ShardPlacement& placement = journal_.placements[worst.shard];
  const std::vector<bool> none(shape_.shards);
  std::vector<bool> failed = none;
  failed[worst.shard] = true;
  if (!IsToBeMade(placement)) {
    const bool is_gone = absl::IsDataLoss(worst.status) || absl::IsNotFound(worst.status);
    return is_gone && MakeAgain(failed, none, "a shard is not there any more");
  }
  if (absl::IsDeadlineExceeded(worst.status)) {
    process_->avoided.insert(placement.directory_id());
    if (!ServersFor(worst.shard).empty()) return MakeAgain(failed, failed, "it hangs");
    process_->avoided.clear();
    return false;
  }
  if (absl::IsAlreadyExists(worst.status)) {  // It is not what is to be made.
    world_->Count("leftovers dropped");
    std::vector<ShardPlacement> after = journal_.placements;
    after[worst.shard].set_making(ShardPlacement::TO_BE_DROPPED);
    PlaceShards(std::move(after), "what is there is to be dropped");
    return true;
  }
  // Its checkpoint was removed.
  if (world_->Now() < process_->look_again) return false;
  process_->look_again = world_->Now() + kLookForFilesAgain;
  const auto found = checkpoints_->Furthest();
  const bool is_another =
      found.has_value() && found->manifest.checksum() != placement.restore().manifest_checksum();
  return is_another && MakeAgain(failed, none, "the checkpoint was removed");
}

// Of all shards: where a checkpoint is further than the newest cut that all of them have.
bool SimulatedCoordinator::ReplaceByFurther(uint64_t steps) {
  if (steps > 0 && journal_.checkpoint_step <= steps) return false;
  const auto found = checkpoints_->Furthest();
  if (!found.has_value() || found->manifest.step() <= steps) return false;
  world_->Count("checkpoints further than cuts");
  const std::vector<bool> all(shape_.shards, true);
  return MakeAgain(all, std::vector<bool>(shape_.shards), "a checkpoint is further",
                   /*drops_what_was_made=*/true);
}

bool SimulatedCoordinator::MakeAgain(std::vector<bool> lost, const std::vector<bool>& moves,
                                     const std::string& cause, bool drops_what_was_made) {
  const auto found = checkpoints_->Furthest();
  if (!found.has_value()) {
    process_->look_again = world_->Now() + kLookForFilesAgain;
    world_->Note(absl::StrCat(cause, ", and there is no checkpoint"));
    return false;
  }
  if (shape_.replicas > 0) lost.assign(lost.size(), true);
  // One by one: each server has place for one certain shard.
  const std::vector<bool> none(shape_.shards);
  std::vector<ShardPlacement> placements = journal_.placements;
  for (ShardPlacement& placement : placements) {
    if (drops_what_was_made) placement.set_making(ShardPlacement::MADE);
  }
  placements = PlaceAgain(std::move(placements), lost, none, found->reference, {});
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    if (!moves[shard] || !IsToBeMade(placements[shard])) continue;
    const std::vector<TargetServer> servers = ServersFor(shard);
    if (servers.empty()) {
      process_->look_again = world_->Now() + kLookForFilesAgain;
      return false;
    }
    std::vector<bool> this_one = none;
    this_one[shard] = true;
    placements = PlaceAgain(std::move(placements), none, this_one, found->reference, servers);
  }
  PlaceShards(std::move(placements),
              absl::StrCat(cause, ": shards are made of checkpoint ", found->manifest.number(),
                           " at step ", found->manifest.step()));
  return true;
}

void SimulatedCoordinator::PlaceShards(std::vector<ShardPlacement> placements,
                                       const std::string& cause) {
  world_->Note(cause);
  const auto place = [this, placements](Journal& journal) {
    world_->Count("placed again");
    ++remakes_;
    for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
      const ShardPlacement& after = placements[shard];
      if (IsToBeMade(after) && checkpoints_->HasCounted(after.restore()) == nullptr) {
        world_->Fail(absl::StrCat("shard ", shard, " is to be made of no checkpoint"));
      }
      const std::string& before = journal.placements[shard].directory_id();
      for (size_t server = 0; server < servers_.size(); ++server) {
        const bool leaves =
            before != after.directory_id() && heard_of_[server].directory_id == before;
        if (leaves) heard_of_[server].has_shard = true;
      }
    }
    journal.placements = placements;
  };
  Write(place, [this] {
    for (size_t server = 0; server < servers_.size(); ++server) DropIfStray(server);
    Attach("shards were placed again");
  });
}

std::vector<TargetServer> SimulatedCoordinator::ServersFor(uint32_t shard) const {
  std::vector<TargetServer> servers;
  for (size_t server = 0; server < servers_.size(); ++server) {
    const Registration& heard = heard_of_[server];
    if (servers_[server]->number() != shard || heard.incarnation == 0) continue;
    if (process_->avoided.contains(heard.directory_id)) continue;
    if (journal_.evacuated.contains(heard.directory_id)) continue;
    servers.push_back({heard.directory_id, servers_[server]->name(), "", world_->Below(3)});
  }
  return servers;
}

// What a server has of a shard that is placed elsewhere goes. A shard that is made there again, of
// a greater generation, does not.
void SimulatedCoordinator::DropIfStray(size_t server) {
  const Registration& heard = heard_of_[server];
  const ShardPlacement& placement = journal_.placements[servers_[server]->number()];
  const bool is_stray =
      heard.incarnation != 0 && heard.has_shard && heard.directory_id != placement.directory_id();
  if (!is_stray) return;
  DropShardRequest request;
  request.set_generation(journal_.generation);
  request.set_directory_id(heard.directory_id);
  network_->Call<ShardStatus>(
      servers_[server], process_, kMaking,
      [request](SimulatedPs& ps, SimulatedPs::Answer answer) {
        ps.Drop(request, std::move(answer));
      },
      [this, server, incarnation = heard.incarnation](const absl::StatusOr<ShardStatus>& dropped) {
        Registration& now = heard_of_[server];
        if (now.incarnation != incarnation) return;
        if (dropped.ok()) {
          world_->Count("strays dropped");
          now.has_shard = false;
        } else if (absl::IsUnavailable(dropped.status()) ||
                   absl::IsDeadlineExceeded(dropped.status())) {
          world_->After(absl::Seconds(2), process_, [this, server] { DropIfStray(server); });
        }
      },
      /*is_rare=*/true);
}

// Nobody has pushed to it yet: it has what the checkpoint has, and nothing else.
void SimulatedCoordinator::CheckRemade(const Statuses& statuses) {
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    const ShardPlacement& placement = journal_.placements[shard];
    if (!IsToBeMade(placement) || ServerOf(shard)->disks() > 0) continue;
    const CheckpointManifest* const made_of = checkpoints_->HasCounted(placement.restore());
    const CheckpointShard& expected = made_of->shards(static_cast<int>(shard));
    const ShardStatus& status = statuses[shard];
    const auto is_the_same = [&](const StepSet& applied) {
      return *AppliedSet::FromProto(applied) == *AppliedSet::FromProto(expected.applied());
    };
    const bool holds = status.held().watermark() > 0 || !status.held().above().empty();
    if (status.version() == expected.version() && is_the_same(status.applied()) && !holds) continue;
    return world_->Fail(absl::StrCat("shard ", shard, " was made of checkpoint ", made_of->number(),
                                     ", of version ", expected.version(), ", and has version ",
                                     status.version()));
  }
}

}  // namespace millrace::simulation
