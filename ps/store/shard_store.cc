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

std::string WhatItNeeds(const ShardPlan& plan, uint64_t bytes) {
  const uint32_t replicas = plan.spec.replicas();
  return absl::StrCat(ShardName(plan.spec.job_id(), plan.spec.shard()),
                      ": not enough memory: training its ", plan.layout.elements(),
                      " elements with ", plan.optimizer->slots(), " optimizer slots each needs ",
                      bytes, " bytes",
                      replicas == 0 ? "" : absl::StrCat(" with ", replicas, " contributions held"));
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
      checkpoints_({.file_system = options.file_system,
                    .clock = options.clock,
                    .bytes_per_second = options.checkpoint_bandwidth}),
      flusher_(cuts_.get(), options.clock),
      reads_(options.clock) {}

ShardStore::~ShardStore() {
  if (arena_ != nullptr) arena_->Abandon();
  Close();
}

absl::Status ShardStore::Restore() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<StoredShard> stored, cuts_->ListShards());
  MILLRACE_ASSIGN_OR_RETURN(const bool whole, cuts_->TakeStopMark());
  for (const StoredShard& each : stored) {
    absl::Status status = RestoreShard(each, whole);
    if (status.ok()) continue;
    if (absl::IsUnavailable(status)) {
      // An older cut would lose steps that the disk may yet give back.
      Await(each);
      status = absl::UnavailableError(
          absl::StrCat(ShardName(each.spec.job_id(), each.spec.shard()),
                       " is not served: ", std::string(status.message()),
                       "; mend the disk and start the server again, or cancel the job"));
    } else if (!absl::IsDataLoss(status)) {
      return status;
    }
    LOG(ERROR) << status;
    shards_.AddDamaged(each.spec.job_id(), each.spec.shard(), status);
  }
  if (arena_ != nullptr) arena_->EndRecovery();
  return absl::OkStatus();
}

absl::Status ShardStore::RestoreShard(const StoredShard& stored, bool whole) {
  const std::string name = ShardName(stored.spec.job_id(), stored.spec.shard());
  if (stored.damaged) {
    return absl::DataLossError(absl::StrCat(name, " cannot be restored, its record is damaged; ",
                                            "cancel its job and submit it again"));
  }
  absl::StatusOr<ShardPlan> plan = PlanShard(stored.spec);
  if (!plan.ok()) {
    return absl::Status(plan.status().code(),
                        absl::StrCat(name, " cannot be restored by this version of the program: ",
                                     std::string(plan.status().message())));
  }
  if (stored.term.retired) {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> retired,
                              FromRecord(*std::move(plan), stored));
    flusher_.Report(retired.get());
    shards_.Add(retired);
    return absl::OkStatus();
  }
  std::shared_ptr<Shard> shard = FromArena(&*plan, stored);
  if (shard == nullptr) {
    MILLRACE_RETURN_IF_ERROR(stored.unreadable);
    MILLRACE_ASSIGN_OR_RETURN(shard, FromCut(*std::move(plan), stored, whole));
  }
  flusher_.Watch(shard);
  ServeReads(shard);
  shards_.Add(shard);
  return absl::OkStatus();
}

void ShardStore::Await(const StoredShard& stored) {
  const absl::StatusOr<ShardPlan> plan = PlanShard(stored.spec);
  MutexLock lock(&mutex_);
  awaited_[Key(stored.spec.job_id(), stored.spec.shard())] = {stored.term.generation,
                                                              plan.ok() ? MemoryNeed(*plan) : 0};
}

absl::StatusOr<std::shared_ptr<Shard>> ShardStore::FromRecord(ShardPlan plan,
                                                              const StoredShard& stored) {
  auto state = std::make_shared<ShardState>();
  state->version = stored.term.retired_version;
  MILLRACE_ASSIGN_OR_RETURN(state->applied, AppliedSet::FromProto(stored.term.retired_applied));
  ShardContents contents;
  contents.state = std::move(state);
  contents.epoch = stored.term.epoch;
  contents.stepped_back_to = stored.term.stepped_back_to;
  contents.origin = ShardStatus::CUT;
  contents.retired = true;
  const auto shard =
      std::make_shared<Shard>(std::move(plan), stored.term.generation, std::move(contents), &pool_,
                              /*root=*/nullptr, &spare_);
  shard->SetStored(stored.term);
  ServeReads(shard);
  return shard;
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

std::shared_ptr<Shard> ShardStore::FromArena(ShardPlan* plan, const StoredShard& stored) {
  const uint64_t newest_cut = cuts_->NewestVersion(stored.spec.job_id(), stored.spec.shard());
  const StoredPlace place = {stored.term.generation, stored.term.epoch, newest_cut};
  absl::optional<RecoveredRoot> found = RecoverShard(arena_, *plan, place, &pool_);
  if (!found.has_value()) return nullptr;
  ShardContents contents;
  contents.state = std::move(found->contents.state);
  contents.previous = std::move(found->contents.previous);
  contents.epoch = stored.term.epoch;
  contents.stepped_back_to = stored.term.stepped_back_to;
  contents.origin = ShardStatus::ARENA;
  // Whether a cut is newer cannot be told where one is unreadable.
  contents.more_acknowledged = found->contents.more_acknowledged || !stored.unreadable.ok();
  const uint64_t version = contents.state->version;
  auto shard =
      std::make_shared<Shard>(std::move(*plan), found->contents.generation, std::move(contents),
                              &pool_, std::move(found->root), &spare_);
  shard->SetStored(stored.term);  // The root's generation may be newer.
  LOG(INFO) << shard->name() << " is back at version " << version << ", from memory"
            << (shard->Status().closed() ? "; what it held may be missing" : "");
  return shard;
}

absl::StatusOr<std::shared_ptr<Shard>> ShardStore::FromCut(ShardPlan plan,
                                                           const StoredShard& stored, bool whole) {
  MILLRACE_ASSIGN_OR_RETURN(ShardContents contents, cuts_->ReadShard(plan, &pool_));
  const uint64_t version = contents.state->version;
  contents.epoch = stored.term.epoch;
  contents.stepped_back_to = stored.term.stepped_back_to;
  const bool initial_values = version == 0 && !StartsFromFiles(plan.spec);
  contents.origin = initial_values ? ShardStatus::INITIAL_VALUES : ShardStatus::CUT;
  // There is nothing that a shard with all steps could have acknowledged beyond them.
  contents.more_acknowledged = (!whole || contents.more_acknowledged) &&
                               contents.state->applied.watermark() < stored.spec.total_steps();
  std::unique_ptr<ShardRoot> root = MakeRoot(plan);
  auto shard = std::make_shared<Shard>(std::move(plan), stored.term.generation, std::move(contents),
                                       &pool_, std::move(root), &spare_);
  LOG(INFO) << shard->name() << " is back at version " << version
            << (initial_values ? ", from its initial values" : ", from its cut")
            << (shard->Status().closed() ? ": what was applied since is missing" : "");
  return shard;
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
  MILLRACE_ASSIGN_OR_RETURN(const Making making, BeginMaking(plan, generation, deadline));
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

absl::StatusOr<ShardStore::Making> ShardStore::BeginMaking(const ShardPlan& plan,
                                                           uint64_t generation,
                                                           absl::Time deadline) {
  const Key key(plan.spec.job_id(), plan.spec.shard());
  {
    MutexLock lock(&mutex_);
    Waiting waiting{.generation = generation};
    const auto entry = waiting_.emplace(key, &waiting);
    bool is_late = false;
    while (!is_late && !waiting.dropped && making_.contains(key)) {
      is_late = clock_->WaitUntil(&made_, &mutex_, deadline);
    }
    waiting_.erase(entry);
    if (waiting.dropped) return DroppedMeanwhile(key);
    if (is_late && making_.contains(key)) {
      return absl::DeadlineExceededError(absl::StrCat(
          ShardName(key.first, key.second), " is still being made by an earlier call; try again"));
    }
    making_[key] = {generation, MemoryNeed(plan)};
  }
  return Making(this, [key](ShardStore* store) { store->EndMaking(key); });
}

void ShardStore::EndMaking(const Key& key) {
  {
    MutexLock lock(&mutex_);
    making_.erase(key);
  }
  made_.SignalAll();
}

uint64_t ShardStore::Taken(const Key& key) const {
  absl::flat_hash_map<Key, uint64_t> others;
  {
    MutexLock lock(&mutex_);
    for (const auto& [made, shard] : making_) others[made] = shard.memory_need;
    for (const auto& [awaited, shard] : awaited_) others[awaited] = shard.memory_need;
  }
  for (const std::shared_ptr<Shard>& shard : shards_.List()) {
    if (shard->RetirementIsStored()) continue;
    others[Key(shard->plan().spec.job_id(), shard->plan().spec.shard())] =
        MemoryNeed(shard->plan());
  }
  others.erase(key);
  uint64_t taken = 0;
  for (const auto& [other, need] : others) {
    taken = std::min(taken + std::min(need, memory_limit_), memory_limit_);  // No overflow.
  }
  return taken;
}

void ShardStore::MakeRoom(uint64_t taken, uint64_t bytes) {
  const std::vector<std::shared_ptr<Shard>> shards = shards_.List();
  uint64_t givable = 0;
  for (const std::shared_ptr<Shard>& shard : shards) givable += shard->GivableBytes();
  for (const std::shared_ptr<Shard>& shard : shards) {
    if (taken + givable + bytes <= memory_limit_) return;
    const uint64_t values = shard->GivableBytes();
    if (values == 0 || !shard->GiveUpValues()) continue;
    pool_.Trim();
    givable -= std::min(values, givable);
    LOG(INFO) << shard->name()
              << ", of a job that has ended, gave up its memory; its values are on "
              << "the disk";
  }
}

// The system hands out more memory than it has, and ends the process that uses it.
absl::Status ShardStore::CheckMemory(const ShardPlan& plan) {
  const Key key(plan.spec.job_id(), plan.spec.shard());
  const uint64_t taken = Taken(key);
  const uint64_t need = MemoryNeed(plan);
  if (need > memory_limit_) {
    return absl::InvalidArgumentError(
        absl::StrCat(WhatItNeeds(plan, need), ", and the server has ", memory_limit_,
                     "; use more ps servers, or give this one more memory"));
  }
  if (taken <= memory_limit_ && need <= memory_limit_ - taken) {
    MakeRoom(taken, need);
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      WhatItNeeds(plan, need), ", the server's other shards need ", taken, ", and all may need ",
      memory_limit_, "; wait for other jobs to end, or use more ps servers"));
}

// On the flusher's thread, where no other call makes or drops shards meanwhile.
absl::Status ShardStore::AddNew(const std::shared_ptr<Shard>& shard) {
  const ShardSpec& spec = shard->plan().spec;
  MILLRACE_RETURN_IF_ERROR(CheckMaking(Key(spec.job_id(), spec.shard())));
  MILLRACE_RETURN_IF_ERROR(cuts_->WriteRecord(spec, shard->term()));
  Serve(shard);
  return absl::OkStatus();
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
  if (shard->IsStored(shard->term())) return shard->Status();
  MILLRACE_RETURN_IF_ERROR(flusher_.Flush(shard, deadline).status());
  MILLRACE_RETURN_IF_ERROR(StoreTerm(shard, deadline, /*retirement=*/true));
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
  MILLRACE_RETURN_IF_ERROR(CheckNotOlder(Key(job_id, shard_number), generation));
  if (!there.ok()) {
    DropMaking(Key(job_id, shard_number), generation);
    MILLRACE_RETURN_IF_ERROR(cuts_->DropShard(job_id, shard_number));
    shards_.Remove(job_id, shard_number);
    MutexLock lock(&mutex_);
    awaited_.erase(Key(job_id, shard_number));
    return absl::OkStatus();
  }
  std::shared_ptr<Shard> shard = *std::move(there);
  MILLRACE_RETURN_IF_ERROR(shard->CheckNotOlder(generation));
  DropMaking(Key(job_id, shard_number), generation);
  shards_.Remove(job_id, shard_number);
  flusher_.Forget(shard.get());
  shard->ForgetRoot();
  shard->Refuse(absl::NotFoundError(absl::StrCat(shard->name(), " was dropped")));
  shard.reset();  // Before its memory is counted as needed.
  pool_.Trim();
  return cuts_->DropShard(job_id, shard_number);
}

absl::Status ShardStore::CheckNotOlder(const Key& key, uint64_t generation) const {
  uint64_t newest = 0;
  {
    MutexLock lock(&mutex_);
    const auto awaited = awaited_.find(key);
    if (awaited != awaited_.end()) newest = awaited->second.generation;
    const auto making = making_.find(key);
    if (making != making_.end()) newest = std::max(newest, making->second.generation);
  }
  if (generation >= newest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(ShardName(key.first, key.second),
                                                    " is at generation ", newest,
                                                    ", the request at ", generation));
}

bool ShardStore::AwaitsShards() const {
  MutexLock lock(&mutex_);
  return !awaited_.empty();
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
  if (!AwaitsShards() && std::none_of(unwritten.begin(), unwritten.end(), lacks_steps)) {
    MILLRACE_RETURN_IF_ERROR(
        flusher_.Call("noting a clean stop", deadline, [this] { return cuts_->MarkStopped(); }));
  }
  if (arena_ != nullptr) arena_->Remove();
  return absl::OkStatus();
}

}  // namespace millrace::ps
