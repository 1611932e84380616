// How the simulated coordinator takes checkpoints: see Checkpointer.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpoint_answers.h"
#include "coordinator/shards/merge_progress.h"
#include "testing/simulation/simulated_coordinator_internal.h"

namespace millrace::simulation {
namespace {

constexpr absl::Duration kCutPatience = absl::Minutes(2);
constexpr absl::Duration kAskAgain = absl::Seconds(5);
constexpr absl::Duration kQuickFile = absl::Milliseconds(1);
constexpr absl::Duration kSlowFile = absl::Seconds(5);

PulledState StateOf(const SimulatedCheckpoints::Read& read) {
  PulledState state;
  for (const auto& block : read.file) {
    state.values.insert(state.values.end(), block[0].begin(), block[0].end());
  }
  state.applied = *AppliedSet::FromProto(read.shard.applied());
  state.version = read.shard.version();
  return state;
}

uint64_t LowestVersion(const std::vector<ShardStatus>& shards) {
  uint64_t lowest = shards[0].version();
  for (const ShardStatus& shard : shards) lowest = std::min<uint64_t>(lowest, shard.version());
  return lowest;
}

}  // namespace

void SimulatedCoordinator::AdvanceCheckpoints(const Statuses& statuses) {
  if (shape_.checkpoint_every == absl::ZeroDuration()) return;
  Process& process = *process_;
  const absl::Time now = world_->Now();
  const auto furthest = checkpoints_->Furthest();
  if (!std::exchange(process.has_looked, true)) {
    checkpoints_->CollectGarbage(/*in_progress=*/0);
    process.checkpoint_due = now + world_->Between(absl::ZeroDuration(), shape_.checkpoint_every);
  }
  if (!process.checkpoint.has_value()) {
    const auto merged = coordinator::MergeProgress(statuses);
    const bool is_due = now >= process.checkpoint_due && merged.ok() && merged->done.size() > 0 &&
                        merged->done.watermark() < shape_.total_steps;
    if (!is_due) return;
    process.checkpoint.emplace();
    process.checkpoint->since = process.checkpoint->asked = now;
    if (shape_.replicas == 0) return BeginCheckpoint();
    process.checkpoint->waits_for_cut = true;
    process.checkpoint->from_version = merged->done.watermark() / shape_.replicas;
    return process.cuts.Want(process.cuts.VersionAhead());
  }
  Process::Checkpoint& checkpoint = *process.checkpoint;
  if (!checkpoint.waits_for_cut) return;
  const uint64_t newer =
      furthest.has_value() ? furthest->manifest.step() / shape_.replicas + 1 : uint64_t{0};
  checkpoint.cut = coordinator::OldestCommonCut(statuses, process.epoch,
                                                std::max(checkpoint.from_version, newer));
  if (checkpoint.cut.has_value()) {
    process.cuts.Want(0);
    process.cuts.Hold(checkpoint.cut);
    return BeginCheckpoint();
  }
  if (now - checkpoint.since > kCutPatience) return GiveUpCheckpoint("no cut came");
  if (now - checkpoint.asked > kAskAgain) {
    const uint64_t ahead = process.cuts.VersionAhead();
    if (LowestVersion(statuses) < ahead) process.cuts.Want(ahead);
    checkpoint.asked = now;
  }
}

// Its state is there; the folder is made.
void SimulatedCoordinator::BeginCheckpoint() {
  process_->checkpoint->waits_for_cut = false;
  process_->checkpoint->attempt = ++process_->attempts;
  world_->After(world_->Between(kQuickFile, kSlowFile), process_,
                [this, attempt = process_->attempts] {
                  if (IsUnderWay(attempt)) FillCheckpoint();
                });
}

bool SimulatedCoordinator::IsUnderWay(uint64_t attempt) const {
  return process_->checkpoint.has_value() && process_->checkpoint->attempt == attempt;
}

void SimulatedCoordinator::FillCheckpoint() {
  Process::Checkpoint& checkpoint = *process_->checkpoint;
  process_->last_number = std::max(process_->last_number, journal_.checkpoint);
  checkpoint.number = checkpoints_->Begin(process_->last_number + 1);
  process_->last_number = checkpoint.number;
  checkpoints_->CollectGarbage(/*in_progress=*/checkpoint.number);
  WriteCheckpointRequest request;
  request.set_generation(journal_.generation);
  request.set_directory(SimulatedCheckpoints::kPath);
  request.set_checkpoint(checkpoint.number);
  if (checkpoint.cut.has_value()) *request.mutable_cut() = *checkpoint.cut;
  if (!checkpoint.pin.empty()) request.set_cut_id(checkpoint.pin);
  CallAll<WriteCheckpointResponse>(
      [request](SimulatedPs& ps, Answer<WriteCheckpointResponse> answer) {
        ps.WriteCheckpoint(request, std::move(answer));
      },
      [this, attempt = checkpoint.attempt](const AnswersOf<WriteCheckpointResponse>& answers) {
        if (!IsUnderWay(attempt)) return;
        const auto written = AllOf(answers);
        if (!written.ok()) return GiveUpCheckpoint(std::string(written.status().message()));
        Commit(*written);
      },
      kMaking);
}

void SimulatedCoordinator::Commit(const std::vector<WriteCheckpointResponse>& answers) {
  Process::Checkpoint& checkpoint = *process_->checkpoint;
  absl::optional<uint64_t> exact_step;
  if (!checkpoint.pin.empty()) exact_step = checkpoint.exact_step;
  const auto state = coordinator::MergeAnswers(answers, checkpoint.cut, exact_step);
  if (!state.ok()) return GiveUpCheckpoint(std::string(state.status().message()));
  CheckpointManifest manifest;
  manifest.set_number(checkpoint.number);
  manifest.set_step(state->step);
  manifest.set_exact(state->exact);
  manifest.set_job_id(kJob);
  for (const auto& answer : answers) *manifest.add_shards() = answer.shard();
  checkpoint.commits = true;
  world_->After(world_->Between(kQuickFile, kSlowFile), process_,
                [this, manifest, attempt = checkpoint.attempt] {
                  if (IsUnderWay(attempt)) CommitManifest(manifest);
                });
}

// Old ones go after that, and the journal hears of it.
void SimulatedCoordinator::CommitManifest(const CheckpointManifest& manifest) {
  if (const absl::Status status = checkpoints_->Commit(manifest); !status.ok()) {
    return GiveUpCheckpoint(std::string(status.message()));
  }
  world_->Count(process_->checkpoint->pin.empty() ? "checkpoints" : "checkpoints of evaluations");
  world_->Note(absl::StrCat("checkpoint ", manifest.number(), " is there, at step ",
                            manifest.step(), manifest.exact() ? ", exactly" : ""));
  CheckWritten(checkpoints_->Find(manifest.number()));
  world_->After(world_->Between(kQuickFile, kSlowFile), process_,
                [this, attempt = process_->checkpoint->attempt] {
                  checkpoints_->RemoveOld(shape_.checkpoints_kept);
                  if (IsUnderWay(attempt)) EndCheckpoint();
                });
  const auto note = [manifest](Journal& journal) {
    journal.checkpoint = manifest.number();
    journal.checkpoint_step = manifest.step();
  };
  Write(note, [] {});
}

void SimulatedCoordinator::CheckWritten(const SimulatedCheckpoints::Found& found) {
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    const auto read = checkpoints_->ReadShard(found.reference, shard);
    const std::string wrong = oracle_->Check(shard, StateOf(*read));
    if (!wrong.empty()) return world_->Fail(absl::StrCat("in a checkpoint ", wrong));
    if (shape_.replicas > 0 && read->shard.version() != found.manifest.shards(0).version()) {
      return world_->Fail("a checkpoint has two versions");
    }
  }
}

void SimulatedCoordinator::EndCheckpoint() {
  const std::string pin = process_->checkpoint->pin;
  process_->checkpoint.reset();
  process_->checkpoint_due =
      world_->Now() + world_->Between(absl::ZeroDuration(), shape_.checkpoint_every);
  const auto& evaluation = process_->evaluation;
  const bool is_of_it =
      evaluation.has_value() && evaluation->answered && evaluation->request.cut_id() == pin;
  if (!is_of_it || !process_->trains) return;
  ConcludeEvaluation();
  Look();
}

void SimulatedCoordinator::GiveUpCheckpoint(const std::string& why) {
  const Process::Checkpoint& checkpoint = *process_->checkpoint;
  process_->cuts.Want(0);
  if (checkpoint.number > 0) {
    world_->Count("checkpoints given up");
    world_->Note(absl::StrCat("checkpoint ", checkpoint.number, " is given up: ", why));
    world_->After(world_->Between(kQuickFile, kSlowFile), process_,
                  [this, number = checkpoint.number] { checkpoints_->GiveUp(number); });
  }
  EndCheckpoint();
}

}  // namespace millrace::simulation
