#include "ps/store/shard_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "google/protobuf/util/message_differencer.h"
#include "ps/store/arena_recovery.h"

namespace millrace::ps {
namespace {

// Of the memory limit.
constexpr uint64_t kSpareShare = 4;
constexpr absl::Duration kStopTimeout = absl::Hours(1);

absl::Status Stopping() {
  return absl::UnavailableError("the ps server stops; try again when it is back");
}

// What may be stored of a shard: that it is retired only with `retirement`, or when it is already.
ShardTerm TermToStore(const Shard& shard, bool retirement) {
  ShardTerm term = shard.term();
  if (retirement || shard.RetirementIsStored()) return term;
  return {term.generation, term.epoch, std::move(term.stepped_back_to)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardStore>> ShardStore::Open(const std::string& data_dir,
                                                             const ShardStoreOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<DataDirectory> directory,
                            DataDirectory::Open(data_dir, options.file_system));
  // Before anything that opens many files: a process that ends closes this lock right after that
  // of the directory.
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<Arena> arena,
                            OpenArena({.parent = options.arena,
                                       .data_dir = data_dir,
                                       .directory_id = directory->id(),
                                       .reserve = options.reserve_arena,
                                       .clock = options.clock}));
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<CutStore> cuts,
      CutStore::Open(
          directory->database_path(),
          {.file_system = options.file_system, .clock = options.clock, .fault = options.fault}));
  std::unique_ptr<ShardStore> store(
      new ShardStore(std::move(directory), std::move(arena), std::move(cuts), options));
  MILLRACE_RETURN_IF_ERROR(store->Restore());
  return store;
}

ShardStore::ShardStore(std::unique_ptr<DataDirectory> directory, std::shared_ptr<Arena> arena,
                       std::unique_ptr<CutStore> cuts, const ShardStoreOptions& options)
    : directory_(std::move(directory)),
      cuts_(std::move(cuts)),
      clock_(options.clock),
      file_system_(options.file_system),
      memory_limit_(options.memory_limit - options.memory_limit / kSpareShare),
      arena_(std::move(arena)),
      pool_(arena_, options.clock),
      spare_(options.memory_limit / kSpareShare),
      to_come_(options.clock),
      checkpoints_({.file_system = options.file_system,
                    .clock = options.clock,
                    .bytes_per_second = options.checkpoint_bandwidth}),
      flusher_(cuts_.get(), options.clock),
      reads_(options.clock) {}

ShardStore::~ShardStore() {
  if (arena_ != nullptr) arena_->Abandon();
  Close();
}

void ShardStore::ServeReads(const std::shared_ptr<Shard>& shard) {
  shard->SetReader([this, weak = std::weak_ptr<Shard>(shard)] {
    const std::shared_ptr<Shard> there = weak.lock();
    if (there == nullptr) return;
    reads_.Post(absl::StrCat("reading ", there->name()),
                [this, there] { return ReadValues(there); });
  });
}

// On the lane of reads.
absl::Status ShardStore::ReadValues(const std::shared_ptr<Shard>& shard) {
  const ShardSpec& spec = shard->plan().spec;
  MakeRoom(Taken(Key(spec.job_id(), spec.shard())), StateBytes(shard->plan()));
  absl::StatusOr<ShardContents> contents = cuts_->ReadShard(shard->plan(), &pool_);
  if (contents.ok()) {
    shard->Restore(std::move(contents->state));
  } else {
    shard->Restore(contents.status());
  }
  return contents.status();
}

std::unique_ptr<ShardRoot> ShardStore::MakeRoot(const ShardPlan& plan) const {
  return arena_ == nullptr ? nullptr : MakeArenaRoot(arena_, plan);
}

absl::Status ShardStore::CheckOpen() const {
  MutexLock lock(&mutex_);
  return closed_ ? Stopping() : absl::OkStatus();
}

absl::StatusOr<ShardStatus> ShardStore::Create(const ShardSpec& spec, uint64_t generation,
                                               absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  const absl::Time deadline = clock_->Now() + timeout;
  MILLRACE_ASSIGN_OR_RETURN(ShardPlan plan, PlanShard(spec));
  MILLRACE_RETURN_IF_ERROR(Make(std::move(plan), generation, deadline));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard,
                            shards_.Find(spec.job_id(), spec.shard()));
  if (!google::protobuf::util::MessageDifferencer::Equals(shard->plan().spec, spec)) {
    return absl::AlreadyExistsError(absl::StrCat(
        shard->name(), " is there with another spec; drop it first, or use another job_id"));
  }
  return SetGeneration(spec.job_id(), spec.shard(), generation, deadline - clock_->Now());
}

// Makes the shard, unless it is there.
absl::Status ShardStore::Make(ShardPlan plan, uint64_t generation, absl::Time deadline) {
  const Key key(plan.spec.job_id(), plan.spec.shard());
  MILLRACE_ASSIGN_OR_RETURN(const Making making,
                            to_come_.Begin(key, generation, MemoryNeed(plan), deadline));
  const absl::Status there = shards_.Find(plan.spec.job_id(), plan.spec.shard()).status();
  if (!absl::IsNotFound(there)) return there;
  MILLRACE_RETURN_IF_ERROR(CheckMemory(plan));
  if (StartsFromFiles(plan.spec)) {
    return MakeFromFiles(std::move(plan), generation, deadline, making);
  }
  MILLRACE_ASSIGN_OR_RETURN(StatePtr state, MakeInitialState(plan, &pool_));
  std::unique_ptr<ShardRoot> root = MakeRoot(plan);
  const auto shard = std::make_shared<Shard>(std::move(plan), generation,
                                             ShardContents{std::move(state), nullptr, {}}, &pool_,
                                             std::move(root), &spare_);
  // If the deadline passes, the shard is still being made for as long as the call lives.
  return flusher_.Call(absl::StrCat("making ", shard->name()), deadline,
                       [this, shard, making] { return AddNew(shard); });
}

// On the flusher's thread, where no other call makes or drops shards meanwhile.
absl::Status ShardStore::AddNew(const std::shared_ptr<Shard>& shard) {
  const ShardSpec& spec = shard->plan().spec;
  MILLRACE_RETURN_IF_ERROR(CheckMaking(Key(spec.job_id(), spec.shard())));
  MILLRACE_RETURN_IF_ERROR(DropRest(spec.job_id(), spec.shard()));
  MILLRACE_RETURN_IF_ERROR(cuts_->WriteRecord(spec, shard->term()));
  Serve(shard);
  return absl::OkStatus();
}

absl::Status ShardStore::DropRest(const std::string& job_id, uint32_t shard) {
  return cuts_->Knows(job_id, shard) ? cuts_->DropShard(job_id, shard) : absl::OkStatus();
}

void ShardStore::Serve(const std::shared_ptr<Shard>& shard) {
  flusher_.Watch(shard);
  ServeReads(shard);
  shards_.Add(shard);
  if (absl::Status status = CheckOpen(); !status.ok()) shard->Refuse(status);
}

absl::StatusOr<ShardStatus> ShardStore::SetGeneration(const std::string& job_id,
                                                      uint32_t shard_number, uint64_t generation,
                                                      absl::Duration timeout) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard, shards_.Find(job_id, shard_number));
  MILLRACE_RETURN_IF_ERROR(shard->SetGeneration(generation));
  // So that a request of an older generation finds no open door after a restart.
  MILLRACE_RETURN_IF_ERROR(StoreTerm(shard, clock_->Now() + timeout));
  return shard->Status();
}

absl::StatusOr<ShardStatus> ShardStore::Flush(const std::string& job_id, uint32_t shard_number,
                                              uint64_t generation, absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard, shards_.Find(job_id, shard_number));
  MILLRACE_RETURN_IF_ERROR(shard->CheckServes(generation));
  if (shard->RetirementIsStored()) return shard->Status();
  MILLRACE_ASSIGN_OR_RETURN(ShardStatus flushed, flusher_.Flush(shard, clock_->Now() + timeout));
  // Whoever has set a greater one meanwhile is told what the state is; the caller is not.
  MILLRACE_RETURN_IF_ERROR(shard->CheckServes(generation));
  return flushed;
}

absl::StatusOr<ShardStatus> ShardStore::PlanCuts(const PlanCutsRequest& request) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard,
                            shards_.Find(request.job_id(), request.shard()));
  MILLRACE_RETURN_IF_ERROR(
      shard->PlanCuts(request.generation(), request.every_versions(), request.also_at()));
  // Without one it is the cut of version 0: whoever plans cuts knows those of all shards.
  if (shard->plan().spec.replicas() != 0) flusher_.SetCommon(shard, request.common());
  return shard->Status();
}

// The cut is read on the caller's thread: that takes long, and records must not wait for it.
absl::StatusOr<ShardStatus> ShardStore::StepBack(const StepBackRequest& request,
                                                 absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  const absl::Time deadline = clock_->Now() + timeout;
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard,
                            shards_.Find(request.job_id(), request.shard()));
  MILLRACE_ASSIGN_OR_RETURN(
      const bool done, shard->SteppedBack(request.generation(), request.cut(), request.epoch()));
  if (!done) {
    ShardContents contents;
    absl::StatusOr<StatePtr> state = cuts_->ReadCut(shard->plan(), request.cut(), &pool_);
    if (absl::IsNotFound(state.status())) flusher_.Report(shard.get());  // It may be gone since.
    MILLRACE_ASSIGN_OR_RETURN(contents.state, std::move(state));
    contents.epoch = request.epoch();
    contents.stepped_back_to = request.cut();
    MILLRACE_RETURN_IF_ERROR(shard->StepBack(request.generation(), std::move(contents)));
    LOG(INFO) << shard->name() << " stepped back to version " << request.cut().version()
              << ", epoch " << request.epoch() << " begins";
  }
  MILLRACE_RETURN_IF_ERROR(StoreTerm(shard, deadline));
  return shard->Status();
}

// In memory first, then here: a crash in between leaves the older epoch on the disk, and another
// attach, which steps back again.
absl::Status ShardStore::StoreTerm(const std::shared_ptr<Shard>& shard, absl::Time deadline,
                                   bool retirement) {
  if (shard->IsStored(TermToStore(*shard, retirement))) return absl::OkStatus();
  const auto store = [this, shard, retirement]() -> absl::Status {
    const ShardSpec& spec = shard->plan().spec;
    const auto current = shards_.Find(spec.job_id(), spec.shard());
    if (!current.ok() || *current != shard) return absl::OkStatus();  // Dropped meanwhile.
    const ShardTerm newest = TermToStore(*shard, retirement);
    MILLRACE_RETURN_IF_ERROR(cuts_->WriteRecord(spec, newest));
    shard->SetStored(newest);
    flusher_.Report(shard.get());
    return absl::OkStatus();
  };
  return flusher_.Call(absl::StrCat("storing the generation of ", shard->name()), deadline, store);
}

// First no step is applied any more, then the state is written, then that it is final. Only after
// that its memory may go.
absl::StatusOr<ShardStatus> ShardStore::Retire(const std::string& job_id, uint32_t shard_number,
                                               uint64_t generation, absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  const absl::Time deadline = clock_->Now() + timeout;
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> shard, shards_.Find(job_id, shard_number));
  MILLRACE_RETURN_IF_ERROR(shard->Retire(generation));
  if (!shard->IsStored(shard->term())) {
    MILLRACE_RETURN_IF_ERROR(flusher_.Flush(shard, deadline).status());
    MILLRACE_RETURN_IF_ERROR(StoreTerm(shard, deadline, /*retirement=*/true));
  }
  // Also where a call before this one has stored it after its time was over.
  flusher_.Forget(shard.get());
  shard->ForgetRoot();
  pool_.Trim();
  return shard->Status();
}

absl::Status ShardStore::Drop(const std::string& job_id, uint32_t shard_number, uint64_t generation,
                              absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  return flusher_.Call(absl::StrCat("dropping ", ShardName(job_id, shard_number)),
                       clock_->Now() + timeout, [this, job_id, shard_number, generation] {
                         return DropNow(job_id, shard_number, generation);
                       });
}

// On the flusher's thread.
absl::Status ShardStore::DropNow(const std::string& job_id, uint32_t shard_number,
                                 uint64_t generation) {
  absl::StatusOr<std::shared_ptr<Shard>> there = shards_.Find(job_id, shard_number);
  const Key key(job_id, shard_number);
  MILLRACE_RETURN_IF_ERROR(to_come_.CheckNotOlder(key, generation));
  if (!there.ok()) {
    to_come_.Drop(key, generation);
    MILLRACE_RETURN_IF_ERROR(cuts_->DropShard(job_id, shard_number));
    shards_.Remove(job_id, shard_number);
    to_come_.Forget(key);
    return absl::OkStatus();
  }
  std::shared_ptr<Shard> shard = *std::move(there);
  MILLRACE_RETURN_IF_ERROR(shard->CheckNotOlder(generation));
  to_come_.Drop(key, generation);
  shard->ForgetRoot();  // Before another one may be made, whose root has the same name.
  shards_.Remove(job_id, shard_number);
  flusher_.Forget(shard.get());
  shard->Refuse(absl::NotFoundError(absl::StrCat(shard->name(), " was dropped")));
  shard.reset();  // Before its memory is counted as needed.
  pool_.Trim();
  return cuts_->DropShard(job_id, shard_number);
}

void ShardStore::Close() {
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
  }
  for (const std::shared_ptr<Shard>& shard : shards_.List()) shard->Refuse(Stopping());
}

absl::Status ShardStore::Stop() {
  Close();
  const absl::Time deadline = clock_->Now() + kStopTimeout;
  std::vector<std::shared_ptr<Shard>> unwritten;
  for (const std::shared_ptr<Shard>& shard : shards_.List()) {
    if (!shard->RetirementIsStored()) unwritten.push_back(shard);
  }
  MILLRACE_RETURN_IF_ERROR(flusher_.FlushForStop(unwritten, deadline));
  // A shard that lacks what it acknowledged must be closed in the next life as well, and so must
  // one that can be read only then.
  const auto lacks_steps = [](const auto& shard) { return shard->Status().closed(); };
  if (!to_come_.awaits() && std::none_of(unwritten.begin(), unwritten.end(), lacks_steps)) {
    MILLRACE_RETURN_IF_ERROR(
        flusher_.Call("noting a clean stop", deadline, [this] { return cuts_->MarkStopped(); }));
  }
  if (arena_ != nullptr) arena_->Remove();
  return absl::OkStatus();
}

}  // namespace millrace::ps
