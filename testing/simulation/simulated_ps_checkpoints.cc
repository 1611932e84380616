// How the simulated ps server makes a shard, drops it, and writes it into a checkpoint: see
// ps/store/shard_store.cc and shard_store_checkpoints.cc.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "testing/simulation/simulated_ps.h"

namespace millrace::simulation {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr absl::Duration kQuickRead = absl::Milliseconds(1);
constexpr absl::Duration kSlowRead = absl::Seconds(10);
// Who would make a shard that is being made waits, and looks this often.
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);

absl::Status NoShard() { return absl::NotFoundError("there is no such shard here"); }
absl::Status IsElsewhere() {
  return absl::UnavailableError("the server has another data directory");
}
absl::Status DiskIsFull() { return absl::UnavailableError("the disk is full"); }

ShardFile FileOf(const ps::ShardState& state) {
  ShardFile file;
  for (const auto& block : state.blocks) {
    file.emplace_back();
    for (int array = 0; array <= block->slots(); ++array) {
      file.back().emplace_back(block->array(array), block->array(array) + block->elements());
    }
  }
  return file;
}

}  // namespace

void SimulatedPs::Create(const CreateShardRequest& request, Answer answer) {
  if (request.directory_id() != directory_id()) {
    return answer(IsElsewhere());
  }
  const uint64_t generation = request.generation();
  if (process_->shard != nullptr) {
    const bool is_the_same =
        MessageDifferencer::Equals(process_->shard->plan().spec, request.spec());
    if (is_the_same) return Advance(generation, std::move(answer));
    return answer(absl::AlreadyExistsError("the shard is there with another spec"));
  }
  auto right = process_->to_come->Begin(Key(), generation, /*memory_need=*/0, world_->Now());
  if (absl::IsDeadlineExceeded(right.status())) {
    return world_->After(kLookAgain, process_,
                         [this, request, answer = std::move(answer)] { Create(request, answer); });
  }
  if (!right.ok()) return answer(right.status());
  const Making making = {process_->to_come, *std::move(right)};
  if (ps::StartsFromFiles(request.spec())) {
    return MakeOfCheckpoint(request.spec(), generation, making, std::move(answer));
  }
  Make(request.spec(), generation, making, std::move(answer));
}

void SimulatedPs::Make(const ShardSpec& spec, uint64_t generation, const Making& making,
                       Answer answer) {
  Do(process_->records, [this, spec, generation, making, answer = std::move(answer)] {
    if (const absl::Status status = making.to_come->Check(Key()); !status.ok()) {
      return answer(status);
    }
    if (DiskFails()) return answer(DiskIsFull());
    disk_.DropShard();  // What the disk still has of one that was dropped.
    const ShardPtr shard = MakeShard(spec, generation, {});
    disk_.WriteRecord(spec, shard->term());
    Serve(shard);
    Advance(generation, answer);
  });
}

ps::ShardContents SimulatedPs::ContentsOf(const ps::ShardPlan& plan,
                                          const SimulatedCheckpoints::Read& read) {
  auto state = std::make_shared<ps::ShardState>();
  state->applied = *AppliedSet::FromProto(read.shard.applied());
  state->version = read.shard.version();
  for (size_t i = 0; i < read.file.size(); ++i) {
    const auto block = pool_.Allocate(plan.layout.blocks()[i].elements, plan.optimizer->slots());
    for (size_t array = 0; array < read.file[i].size(); ++array) {
      const std::vector<float>& values = read.file[i][array];
      std::copy(values.begin(), values.end(), block->array(static_cast<int>(array)));
    }
    state->blocks.push_back(block);
  }
  ps::ShardContents contents;
  contents.state = std::move(state);
  contents.epoch = read.shard.epoch();
  contents.stepped_back_to.set_epoch(read.shard.epoch());
  contents.stepped_back_to.set_version(read.shard.version());
  contents.origin = ShardStatus::CHECKPOINT;
  return contents;
}

// The values are read, then the first cut is written, and then it gets its name, with the record.
void SimulatedPs::MakeOfCheckpoint(const ShardSpec& spec, uint64_t generation, const Making& making,
                                   Answer answer) {
  const auto commit = [this, making, generation, answer](const ShardPtr& shard) {
    const ps::ShardContents contents = shard->Contents();
    if (const absl::Status status = making.to_come->Check(Key()); !status.ok()) {
      world_->Count("shards dropped while they were made");
      return answer(status);
    }
    if (DiskFails()) return answer(DiskIsFull());
    disk_.CommitFirstCut(shard->plan().spec, shard->term(),
                         {disk_.BeginCut(), contents.epoch, contents.state});
    world_->Count("shards made of checkpoints");
    world_->Note(absl::StrCat(name(), " has made its shard of checkpoint ",
                              shard->plan().spec.restore().checkpoint(), ", version ",
                              contents.state->version, ", generation ", generation));
    Serve(shard);
    Advance(generation, answer);
  };
  const auto stage = [this, spec, generation, making, answer,
                      commit](const SimulatedCheckpoints::Read& read) {
    if (DiskFails()) return answer(DiskIsFull());
    disk_.DropShard();
    world_->After(
        world_->Between(kQuickRead, kSlowRead), process_, [this, spec, generation, read, commit] {
          const ShardPtr shard = MakeShard(spec, generation, ContentsOf(Plan(spec), read));
          Do(process_->records, [commit, shard] { commit(shard); });
        });
  };
  world_->After(world_->Between(kQuickRead, kSlowRead), process_,
                [this, spec, making, answer, stage] {
                  const auto read = checkpoints_->ReadShard(spec.restore(), number_);
                  if (!read.ok()) return answer(read.status());
                  if (const absl::Status status = making.to_come->Check(Key()); !status.ok()) {
                    return answer(status);
                  }
                  Do(process_->records, [stage, read = *read] { stage(read); });
                });
}

void SimulatedPs::Serve(const ShardPtr& shard) {
  process_->shard = shard;
  process_->common.reset();
  Report(shard);
}

// In memory first: where the disk fails then, or the process is killed, the next life has it again.
void SimulatedPs::Drop(const DropShardRequest& request, Answer answer) {
  if (request.directory_id() != directory_id()) {
    world_->Count("drops at another directory");
    return answer(IsElsewhere());
  }
  const uint64_t generation = request.generation();
  Do(process_->records, [this, generation, answer = std::move(answer)] {
    ps::ShardsToCome& to_come = *process_->to_come;
    if (const absl::Status status = to_come.CheckNotOlder(Key(), generation); !status.ok()) {
      world_->Count("drops that came too late");
      return answer(status);
    }
    if (const ShardPtr shard = process_->shard; shard != nullptr) {
      if (const absl::Status status = shard->CheckNotOlder(generation); !status.ok()) {
        world_->Count("drops that came too late");
        return answer(status);
      }
      if (!may_be_dropped_()) world_->Fail(absl::StrCat(name(), " drops a shard that is needed"));
      shard->ForgetRoot();
      process_->shard = nullptr;
      shard->Refuse(absl::NotFoundError("the shard was dropped"));
      world_->Count("shards dropped");
      world_->Note(absl::StrCat(name(), " drops its shard, generation ", generation));
    }
    to_come.Drop(Key(), generation);
    if (DiskFails()) return answer(DiskIsFull());
    disk_.DropShard();
    answer(ShardStatus());
  });
}

void SimulatedPs::WriteCheckpoint(const WriteCheckpointRequest& request,
                                  simulation::Answer<WriteCheckpointResponse> answer) {
  const ShardPtr shard = process_->shard;
  if (shard == nullptr) return answer(NoShard());
  if (const absl::Status serves = shard->CheckServes(request.generation()); !serves.ok()) {
    return answer(serves);
  }
  if (std::exchange(process_->writes_checkpoint, true)) {
    return answer(absl::AlreadyExistsError("another call for the shard is under way"));
  }
  const auto end = [this,
                    answer = std::move(answer)](absl::StatusOr<WriteCheckpointResponse> written) {
    process_->writes_checkpoint = false;
    answer(std::move(written));
  };
  if (request.has_cut_id()) {
    const auto pinned = shard->Pinned(request.generation(), request.cut_id());
    if (!pinned.ok()) return end(pinned.status());
    return WriteFile(shard, request, pinned->epoch, pinned->state, end);
  }
  if (request.has_cut()) {
    const auto cut = disk_.ReadCut(request.cut());
    if (!cut.ok()) return end(cut.status());
    const ps::StatePtr state =
        cut->has_value() ? **cut : *ps::MakeInitialState(shard->plan(), &pool_);
    return WriteFile(shard, request, request.cut().epoch(), state, end);
  }
  FlushNow(shard, [this, shard, request, end](const absl::StatusOr<ShardStatus>& flushed) {
    if (!flushed.ok()) return end(flushed.status());
    ps::StatePtr newest = disk_.ReadShard().state;
    if (newest == nullptr) newest = *ps::MakeInitialState(shard->plan(), &pool_);
    WriteFile(shard, request, disk_.term().epoch, newest, end);
  });
}

// What it holds stays as it is, whatever becomes of the cut.
void SimulatedPs::WriteFile(const ShardPtr& shard, const WriteCheckpointRequest& request,
                            uint64_t epoch, const ps::StatePtr& state,
                            simulation::Answer<WriteCheckpointResponse> answer) {
  const auto write = [this, shard, request, epoch, state, answer = std::move(answer)] {
    if (const absl::Status serves = shard->CheckServes(request.generation()); !serves.ok()) {
      return answer(serves);
    }
    if (DiskFails()) return answer(DiskIsFull());
    const absl::Status written = checkpoints_->Write(request.checkpoint(), number_, FileOf(*state));
    if (!written.ok()) return answer(written);
    WriteCheckpointResponse response;
    CheckpointShard& file = *response.mutable_shard();
    file.set_shard(number_);
    file.set_epoch(epoch);
    file.set_version(state->version);
    *file.mutable_applied() = state->applied.ToProto();
    answer(response);
  };
  world_->After(world_->Between(kQuickRead, kSlowRead), process_, write);
}

}  // namespace millrace::simulation
