// What a store's shards leave in checkpoints, and what they begin with from files.
//
// A checkpoint's bytes are read from the file of a cut, which is whole and never changes, on the
// thread of the call: nothing in memory is kept for it, no lane is busy with it, and training goes
// on. That file stays open, so that the cut may be pruned meanwhile.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/checkpoint/first_state.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {

absl::StatusOr<WriteCheckpointResponse> ShardStore::WriteCheckpoint(
    const WriteCheckpointRequest& request, const std::function<bool()>& is_cancelled,
    absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  MILLRACE_RETURN_IF_ERROR(CheckpointWriter::CheckRequest(request));
  const absl::Time deadline = clock_->Now() + timeout;
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Shard> shard,
                            shards_.Find(request.job_id(), request.shard()));
  MILLRACE_RETURN_IF_ERROR(shard->CheckServes(request.generation()));
  MILLRACE_ASSIGN_OR_RETURN(const ShardPlan plan, PlanShard(shard->plan().spec));
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointWriter::Turn turn, checkpoints_.Begin(plan.spec));
  const std::weak_ptr<Shard> weak = shard;
  const std::string name = shard->name();
  const auto may_go_on = [&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(CheckOpen());
    if (is_cancelled()) return absl::CancelledError("the client does not wait any more");
    const std::shared_ptr<Shard> there = weak.lock();
    if (there == nullptr) return absl::NotFoundError(absl::StrCat(name, " was dropped"));
    return there->CheckServes(request.generation());
  };
  MILLRACE_ASSIGN_OR_RETURN(const FoundState found,
                            FindState(shard, plan, request, deadline, may_go_on));
  const auto under_way = BeginFiles(
      absl::StrCat("writing a checkpoint of ", name, " to ", Printable(request.directory())));
  shard.reset();  // It may be dropped, and its memory needed, while the directory hangs.
  absl::StatusOr<WriteCheckpointResponse> written =
      checkpoints_.Write(plan, request, found.source.get(), may_go_on);
  if (!absl::IsDataLoss(written.status())) return written;
  // The shard itself is sound: it has what the cut was to have, or newer.
  if (found.cut.has_value()) cuts_->GiveUp(plan, *found.cut, written.status());
  if (const std::shared_ptr<Shard> there = weak.lock()) flusher_.Report(there.get());
  return absl::UnavailableError(absl::StrCat(name, " has lost a cut; try again with another one: ",
                                             std::string(written.status().message())));
}

absl::StatusOr<ShardStore::FoundState> ShardStore::FindState(const std::shared_ptr<Shard>& shard,
                                                             const ShardPlan& plan,
                                                             const WriteCheckpointRequest& request,
                                                             absl::Time deadline,
                                                             const MayGoOn& may_go_on) {
  if (request.has_cut_id()) {
    MILLRACE_ASSIGN_OR_RETURN(CapturedCut pinned,
                              shard->Pinned(request.generation(), request.cut_id()));
    const auto newest = [weak = std::weak_ptr<Shard>(shard)]() -> StatePtr {
      const std::shared_ptr<Shard> there = weak.lock();
      return there == nullptr ? nullptr : there->Contents().state;
    };
    return FoundState{SourceOfState(pinned.epoch, std::move(pinned.state), newest)};
  }
  auto found = request.has_cut() ? FindCut(plan, request.cut())
                                 : FindNewest(shard, plan, deadline, may_go_on);
  if (!absl::IsDataLoss(found.status())) return found;
  flusher_.Report(shard.get());
  // A retired shard has that cut alone.
  if (shard->RetirementIsStored()) return found;
  return absl::UnavailableError(absl::StrCat(
      shard->name(), " has lost a cut; try again: ", std::string(found.status().message())));
}

// Initial values are no cut. They are saved for a shard that is at version 0, and for no other one,
// whatever has become of its cuts.
absl::StatusOr<ShardStore::FoundState> ShardStore::FindNewest(const std::shared_ptr<Shard>& shard,
                                                              const ShardPlan& plan,
                                                              absl::Time deadline,
                                                              const MayGoOn& may_go_on) {
  ShardStatus status = shard->Status();
  if (shard->RetirementIsStored()) {
    CutName name;
    name.set_epoch(status.epoch());
    name.set_version(status.version());
    auto found = FindCut(plan, name);
    if (!absl::IsNotFound(found.status())) return found;
    return absl::DataLossError(
        absl::StrCat(shard->name(), " has lost the cut with what it was trained to, of version ",
                     status.version(), "; restore its job from a checkpoint, or submit it again"));
  }
  MILLRACE_ASSIGN_OR_RETURN(status, flusher_.Flush(shard, deadline, may_go_on));
  auto cut = cuts_->OpenNewestCut(plan);
  if (absl::IsNotFound(cut.status())) {
    if (status.version() == 0) return InitialState(plan, CutName());
    return absl::DataLossError("it has none");
  }
  MILLRACE_RETURN_IF_ERROR(cut.status());
  const uint64_t number = (*cut)->number();
  return FoundState{SourceOfCut(*std::move(cut)), number};
}

absl::StatusOr<ShardStore::FoundState> ShardStore::FindCut(const ShardPlan& plan,
                                                           const CutName& name) {
  auto cut = cuts_->OpenCutFile(plan, name);
  if (absl::IsNotFound(cut.status()) && name.version() == 0) return InitialState(plan, name);
  MILLRACE_RETURN_IF_ERROR(cut.status());
  const uint64_t number = (*cut)->number();
  return FoundState{SourceOfCut(*std::move(cut)), number};
}

absl::StatusOr<ShardStore::FoundState> ShardStore::InitialState(const ShardPlan& plan,
                                                                const CutName& name) {
  MILLRACE_ASSIGN_OR_RETURN(StatePtr state, cuts_->ReadCut(plan, name, &pool_));
  return FoundState{SourceOfState(name.epoch(), std::move(state), /*newest=*/nullptr)};
}

// The values are read, and the first cut is written, on the caller's thread: that takes long, and
// records must not wait for it.
absl::Status ShardStore::MakeFromFiles(ShardPlan plan, uint64_t generation, absl::Time deadline,
                                       const Making& making) {
  const Key key(plan.spec.job_id(), plan.spec.shard());
  const absl::Time begin = clock_->Now();
  auto under_way = BeginFiles(absl::StrCat("reading what ", ShardName(key.first, key.second),
                                           " begins with", plan.spec.has_restore() ? " from " : "",
                                           Printable(plan.spec.restore().directory())));
  MILLRACE_ASSIGN_OR_RETURN(
      ShardContents contents,
      ReadFirstState(file_system_, plan, &pool_, [this, &key] { return CheckMaking(key); }));
  under_way.reset();
  contents.load = clock_->Now() - begin;
  return AddWithFirstCut(std::move(plan), generation, std::move(contents), deadline, making);
}

absl::Status ShardStore::AddWithFirstCut(ShardPlan plan, uint64_t generation,
                                         ShardContents contents, absl::Time deadline,
                                         const Making& making) {
  const Key key(plan.spec.job_id(), plan.spec.shard());
  if (cuts_->Knows(key.first, key.second)) {
    MILLRACE_RETURN_IF_ERROR(
        flusher_.Call(absl::StrCat("dropping ", ShardName(key.first, key.second)), deadline,
                      [this, key] { return DropRest(key.first, key.second); }));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<CutStore::StagedCut> staged,
                            cuts_->StageFirstCut(plan, {contents.epoch, contents.state}));
  const auto cut = std::make_shared<std::unique_ptr<CutStore::StagedCut>>(std::move(staged));
  std::unique_ptr<ShardRoot> root = MakeRoot(plan);
  const auto shard = std::make_shared<Shard>(std::move(plan), generation, std::move(contents),
                                             &pool_, std::move(root), &spare_);
  return flusher_.Call(
      absl::StrCat("making ", shard->name()), deadline,
      [this, shard, making, cut] { return CommitFirstCut(shard, std::move(*cut)); });
}

// On the flusher's thread, as AddNew.
absl::Status ShardStore::CommitFirstCut(const std::shared_ptr<Shard>& shard,
                                        std::unique_ptr<CutStore::StagedCut> cut) {
  const ShardSpec& spec = shard->plan().spec;
  MILLRACE_RETURN_IF_ERROR(CheckMaking(Key(spec.job_id(), spec.shard())));
  MILLRACE_RETURN_IF_ERROR(cuts_->CommitFirstCut(spec, shard->term(), std::move(cut)));
  Serve(shard);
  const ShardStatus status = shard->Status();
  LOG(INFO) << shard->name() << " begins with version " << status.version() << ", from "
            << (status.origin() == ShardStatus::COPY ? "another server" : "files");
  return absl::OkStatus();
}

std::shared_ptr<const void> ShardStore::BeginFiles(std::string what) {
  std::list<std::string>::iterator mine;
  {
    MutexLock lock(&mutex_);
    mine = files_under_way_.insert(files_under_way_.end(), std::move(what));
  }
  return {this, [mine](ShardStore* store) {
            MutexLock lock(&store->mutex_);
            store->files_under_way_.erase(mine);
          }};
}

std::vector<std::string> ShardStore::FilesUnderWay() const {
  MutexLock lock(&mutex_);
  return {files_under_way_.begin(), files_under_way_.end()};
}

absl::Status ShardStore::CheckMaking(const Key& key) const {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  return to_come_.Check(key);
}

}  // namespace millrace::ps
