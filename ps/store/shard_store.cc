#include "ps/store/shard_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::ps {
namespace {

absl::Status Stopping() {
  return absl::UnavailableError("the ps server stops; try again when it is back");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardStore>> ShardStore::Open(const std::string& data_dir,
                                                             Clock* clock) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<DataDirectory> directory,
                            DataDirectory::Open(data_dir));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CutStore> cuts,
                            CutStore::Open(directory->database_path()));
  std::unique_ptr<ShardStore> store(new ShardStore(std::move(directory), std::move(cuts), clock));
  MILLRACE_RETURN_IF_ERROR(store->Restore());
  return store;
}

ShardStore::ShardStore(std::unique_ptr<DataDirectory> directory, std::unique_ptr<CutStore> cuts,
                       Clock* clock)
    : directory_(std::move(directory)), cuts_(std::move(cuts)), flusher_(cuts_.get(), clock) {}

ShardStore::~ShardStore() { Close(); }

absl::Status ShardStore::Restore() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<StoredShard> stored, cuts_->ListShards());
  for (const StoredShard& each : stored) {
    MILLRACE_ASSIGN_OR_RETURN(ShardPlan plan, PlanShard(each.spec));
    MILLRACE_ASSIGN_OR_RETURN(ShardContents contents, cuts_->ReadShard(plan, &pool_));
    const uint64_t version = contents.state->version;
    auto shard =
        std::make_shared<Shard>(std::move(plan), each.generation, std::move(contents), &pool_);
    shard->SetFlushedVersion(version);
    LOG(INFO) << shard->name() << " is back at version " << version;
    shards_.Add(shard);
    flusher_.Watch(shard);
  }
  return absl::OkStatus();
}

absl::Status ShardStore::CheckOpen() const {
  MutexLock lock(&mutex_);
  return closed_ ? Stopping() : absl::OkStatus();
}

absl::StatusOr<ShardStatus> ShardStore::Create(const ShardSpec& spec, uint64_t generation) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  MILLRACE_ASSIGN_OR_RETURN(ShardPlan plan, PlanShard(spec));
  if (!shards_.Find(spec.job_id(), spec.shard()).ok()) {
    MILLRACE_ASSIGN_OR_RETURN(StatePtr state, MakeInitialState(plan, &pool_));
    MILLRACE_RETURN_IF_ERROR(
        flusher_.Call([&] { return CreateNew(std::move(plan), generation, std::move(state)); }));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard,
                            shards_.Find(spec.job_id(), spec.shard()));
  if (!google::protobuf::util::MessageDifferencer::Equals(shard->plan().spec, spec)) {
    return absl::AlreadyExistsError(absl::StrCat(
        shard->name(), " is there with another spec; drop it first, or use another job_id"));
  }
  return SetGeneration(spec.job_id(), spec.shard(), generation);
}

// On the flusher's thread, where no other call makes or drops shards meanwhile.
absl::Status ShardStore::CreateNew(ShardPlan plan, uint64_t generation, StatePtr state) {
  const ShardSpec& spec = plan.spec;
  if (shards_.Find(spec.job_id(), spec.shard()).ok()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(cuts_->WriteRecord(spec, generation));
  MILLRACE_RETURN_IF_ERROR(cuts_->WriteCut(plan, *state, /*held=*/{}));
  const auto shard = std::make_shared<Shard>(std::move(plan), generation,
                                             ShardContents{std::move(state), nullptr, {}}, &pool_);
  shards_.Add(shard);
  flusher_.Watch(shard);
  if (absl::Status status = CheckOpen(); !status.ok()) shard->Close(status);
  return absl::OkStatus();
}

absl::StatusOr<ShardStatus> ShardStore::SetGeneration(const std::string& job_id,
                                                      uint32_t shard_number, uint64_t generation) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard, shards_.Find(job_id, shard_number));
  const uint64_t before = shard->generation();
  MILLRACE_RETURN_IF_ERROR(shard->SetGeneration(generation));
  if (generation == before) return shard->Status();
  // So that a request of an older generation finds no open door after a restart.
  MILLRACE_RETURN_IF_ERROR(flusher_.Call([&]() -> absl::Status {
    const auto current = shards_.Find(job_id, shard_number);
    if (!current.ok() || *current != shard) return absl::OkStatus();  // Dropped meanwhile.
    return cuts_->WriteRecord(shard->plan().spec, shard->generation());
  }));
  return shard->Status();
}

absl::StatusOr<ShardStatus> ShardStore::Flush(const std::string& job_id, uint32_t shard_number) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard, shards_.Find(job_id, shard_number));
  MILLRACE_RETURN_IF_ERROR(flusher_.Call([&]() -> absl::Status {
    MILLRACE_ASSIGN_OR_RETURN(const auto current, shards_.Find(job_id, shard_number));
    return FlushShard(cuts_.get(), current.get());
  }));
  return shard->Status();
}

absl::Status ShardStore::Drop(const std::string& job_id, uint32_t shard_number) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  return flusher_.Call([&]() -> absl::Status {
    const std::shared_ptr<Shard> shard = shards_.Remove(job_id, shard_number);
    if (shard != nullptr) {
      flusher_.Forget(shard.get());
      shard->Close(absl::NotFoundError(absl::StrCat(shard->name(), " was dropped")));
    }
    return cuts_->DropShard(job_id, shard_number);
  });
}

void ShardStore::Close() {
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
  }
  for (const std::shared_ptr<Shard>& shard : shards_.List()) shard->Close(Stopping());
}

absl::Status ShardStore::Stop() {
  Close();
  return flusher_.Call([&]() -> absl::Status {
    absl::Status first_error;
    for (const std::shared_ptr<Shard>& shard : shards_.List()) {
      absl::Status status = FlushShardForStop(cuts_.get(), shard.get());
      if (status.ok()) continue;
      LOG(ERROR) << shard->name() << " could not be written: " << status;
      first_error.Update(status);
    }
    return first_error;
  });
}

}  // namespace millrace::ps
