// How the simulated server takes over a shard from another one: see ShardStore::Copy.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testing/simulation/simulated_ps.h"

namespace millrace::simulation {
namespace {

// Until the first bytes come, and until the last.
constexpr absl::Duration kQuickTravel = absl::Milliseconds(1);
constexpr absl::Duration kUsualTravel = absl::Milliseconds(300);
constexpr absl::Duration kSlowTravel = absl::Seconds(5);
constexpr uint64_t kOneInBreaks = 20;
constexpr absl::Duration kMakeAgain = absl::Milliseconds(100);

absl::Status LinkBroke() { return absl::UnavailableError("the connection between servers broke"); }

}  // namespace

// See SendShard.
absl::StatusOr<SimulatedPs::Snapshot> SimulatedPs::ReadAt(uint64_t generation,
                                                          const std::string& directory_id) const {
  if (process_ == nullptr || world_->OneIn(kOneInBreaks)) return LinkBroke();
  if (directory_id != this->directory_id()) {
    return absl::UnavailableError("the server has another data directory");
  }
  if (process_->shard == nullptr) return absl::NotFoundError("the source has no such shard");
  if (const absl::Status serves = process_->shard->CheckServes(generation); !serves.ok()) {
    return serves;
  }
  Snapshot snapshot = {process_->shard->plan().spec, process_->shard->Contents()};
  const bool is_at_rest = !snapshot.contents.is_computing && snapshot.contents.held.empty();
  if (process_->shard->retired() || !is_at_rest) {
    return absl::FailedPreconditionError("the shard is not at rest");
  }
  return snapshot;
}

absl::StatusOr<SimulatedPs::ShardPtr> SimulatedPs::FindCopy(uint64_t generation) const {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) {
    const absl::Status status = process_->to_come->CheckNotOlder(Key(), generation);
    return status.ok() ? absl::StatusOr<ShardPtr>(nullptr) : status;
  }
  if (const absl::Status status = shard->CheckNotOlder(generation); !status.ok()) return status;
  if (shard->generation() != generation) return nullptr;
  if (const absl::Status status = shard->CheckServes(generation); !status.ok()) return status;
  return shard;
}

void SimulatedPs::CopyFrom(const CopyShardRequest& request, SimulatedPs* source, Answer answer) {
  if (request.directory_id() != directory_id()) {
    return answer(absl::UnavailableError("the server has another data directory"));
  }
  const auto earlier = FindCopy(request.generation());
  if (!earlier.ok()) return answer(earlier.status());
  if (*earlier != nullptr) return answer((*earlier)->Status());
  const uint64_t generation = request.source_generation();
  const std::string directory = request.source_directory_id();
  // What it says first, and whether it still is so when the last of it has come.
  const auto close = [this, request, source, generation, directory,
                      answer](const Snapshot& snapshot) {
    const auto now = source->ReadAt(generation, directory);
    if (!now.ok()) return answer(now.status());
    TakeCopy(request, snapshot, answer);
  };
  const auto travel = [this] {
    return world_->Between(kQuickTravel, world_->OneIn(4) ? kSlowTravel : kUsualTravel);
  };
  world_->After(travel(), process_, [this, source, generation, directory, answer, close, travel] {
    const auto snapshot = source->ReadAt(generation, directory);
    if (!snapshot.ok()) return answer(snapshot.status());
    world_->After(travel(), process_, [snapshot = *snapshot, close] { close(snapshot); });
  });
}

// What is here of it at older generations goes first.
void SimulatedPs::TakeCopy(const CopyShardRequest& request, const Snapshot& snapshot,
                           const Answer& answer) {
  if (process_->shard == nullptr) return MakeCopy(request, snapshot, answer);
  DropShardRequest drop;
  drop.set_generation(request.generation() - 1);
  drop.set_directory_id(directory_id());
  Drop(drop, [this, request, snapshot, answer](const absl::StatusOr<ShardStatus>& dropped) {
    if (!dropped.ok()) return answer(dropped.status());
    world_->Count("leftovers replaced by copies");
    MakeCopy(request, snapshot, answer);
  });
}

ps::ShardContents SimulatedPs::ContentsOf(const Snapshot& snapshot) {
  auto state = std::make_shared<ps::ShardState>();
  state->applied = snapshot.contents.state->applied;
  state->version = snapshot.contents.state->version;
  state->gradient_norm = snapshot.contents.state->gradient_norm;
  for (const auto& block : snapshot.contents.state->blocks) {
    const auto copy = pool_.Allocate(block->elements(), block->slots());
    for (int array = 0; array <= block->slots(); ++array) {
      std::copy_n(block->array(array), block->elements(), copy->array(array));
    }
    state->blocks.push_back(copy);
  }
  ps::ShardContents contents;
  contents.state = std::move(state);
  contents.epoch = snapshot.contents.epoch;
  contents.stepped_back_to = snapshot.contents.stepped_back_to;
  contents.origin = ShardStatus::COPY;
  return contents;
}

void SimulatedPs::MakeCopy(const CopyShardRequest& request, const Snapshot& snapshot,
                           const Answer& answer) {
  const uint64_t generation = request.generation();
  auto right = process_->to_come->Begin(Key(), generation, /*memory_need=*/0, world_->Now());
  if (absl::IsDeadlineExceeded(right.status())) {
    return world_->After(kMakeAgain, process_, [this, request, snapshot, answer] {
      MakeCopy(request, snapshot, answer);
    });
  }
  if (!right.ok()) return answer(right.status());
  const Making making = {process_->to_come, *std::move(right)};
  if (process_->shard != nullptr) return answer(absl::AbortedError("it was made meanwhile"));
  const ShardPtr shard = MakeShard(snapshot.spec, generation, ContentsOf(snapshot));
  Do(process_->cuts, [this, making, shard, generation, answer] {
    Do(process_->records, [this, making, shard, generation, answer] {
      if (const absl::Status status = making.to_come->Check(Key()); !status.ok()) {
        return answer(status);
      }
      if (DiskFails()) return answer(absl::UnavailableError("the disk is full"));
      const ps::ShardContents made = shard->Contents();
      disk_.DropShard();
      disk_.CommitFirstCut(shard->plan().spec, shard->term(),
                           {disk_.BeginCut(), made.epoch, made.state});
      world_->Count("shards copied");
      world_->Note(absl::StrCat(name(), " has copied its shard, version ", made.state->version,
                                ", generation ", generation));
      Serve(shard);
      answer(shard->Status());
    });
  });
}

}  // namespace millrace::simulation
