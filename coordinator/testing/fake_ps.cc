#include "coordinator/testing/fake_ps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/proto_duration.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kJoinPatience = absl::Seconds(60);

}  // namespace

void FakePs::Start(const std::string& coordinator) {
  Serve();
  Join(coordinator);
}

void FakePs::Serve() {
  {
    MutexLock lock(&mutex_);
    shards_.clear();
    for (const auto& [key, shard] : flushed_) shards_[key] = Reopen(shard);
    applied_in_this_life_.clear();
  }
  ++incarnation_;
  auto server = RpcServer::Start({}, {this});
  CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
  {
    MutexLock lock(&mutex_);
    address_ = server_->address();
  }
}

void FakePs::Join(const std::string& coordinator) {
  MemberMessage message;
  RegisterPs& ps = *message.mutable_register_ps();
  ps.set_name(name_);
  ps.set_directory_id(directory_id_);
  ps.set_incarnation(incarnation_);
  ps.set_address(advertise_.empty() ? address() : advertise_);
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, shard] : shards_) *ps.add_shards() = StatusOf(key, shard);
  }
  // The name is another's until the coordinator has noticed that the stream before broke.
  const absl::Time deadline = Clock::Real()->Now() + kJoinPatience;
  do {
    CHECK(Clock::Real()->Now() < deadline) << name_ << " cannot join";
    connection_ =
        std::make_unique<MemberConnection>(coordinator, [this](const CoordinatorMessage& told) {
          if (!told.has_may_leave()) return;
          MutexLock lock(&mutex_);
          may_leave_ = true;
          dropped_.SignalAll();
        });
    connection_->Send(message);
  } while (!connection_->AwaitAnswer() && absl::IsAlreadyExists(connection_->AwaitEnd()));
}

void FakePs::Drain() {
  MemberMessage message;
  message.mutable_draining();
  connection_->Send(message);
}

void FakePs::AwaitMayLeave() {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  MutexLock lock(&mutex_);
  while (!may_leave_) {
    CHECK(!Clock::Real()->WaitUntil(&dropped_, &mutex_, deadline)) << name_ << " may not leave";
  }
}

void FakePs::Kill() {
  connection_.reset();
  server_.reset();
  MutexLock lock(&mutex_);
  address_.clear();
  dropped_.SignalAll();
}

void FakePs::Crash() {
  MutexLock lock(&mutex_);
  for (auto& [key, shard] : shards_) shard = Reopen(flushed_[key]);
  dropped_.SignalAll();
}

void FakePs::Wipe() {
  MutexLock lock(&mutex_);
  flushed_.clear();
  cuts_.clear();
}

void FakePs::LoseCuts() {
  MutexLock lock(&mutex_);
  cuts_.clear();
}

struct FakePs::Disk {
  std::map<Key, Shard> flushed;
  std::map<Key, std::map<Name, Shard>> cuts;
};

std::shared_ptr<const FakePs::Disk> FakePs::CopyDisk() const {
  MutexLock lock(&mutex_);
  return std::make_shared<Disk>(Disk{flushed_, cuts_});
}

void FakePs::PutDisk(const Disk& disk) {
  MutexLock lock(&mutex_);
  flushed_ = disk.flushed;
  cuts_ = disk.cuts;
}

void FakePs::ReplaceDisk() {
  Wipe();
  directory_id_ = absl::StrCat("directory-", ++disks_, "-of-", name_);
}

void FakePs::DamageDisk() {
  MutexLock lock(&mutex_);
  for (auto& [key, shard] : flushed_) shard.damaged = true;
}

void FakePs::MoveDiskTo(FakePs& other) {
  const std::shared_ptr<const Disk> disk = CopyDisk();
  other.directory_id_ = directory_id_;
  ReplaceDisk();
  other.PutDisk(*disk);
}

std::string FakePs::address() const {
  MutexLock lock(&mutex_);
  return address_;
}

absl::Status FakePs::Push(const std::string& job_id, uint32_t shard, uint64_t generation,
                          uint64_t step) {
  MutexLock lock(&mutex_);
  AwaitVersionOf({job_id, shard}, generation, step);
  if (address_.empty()) return absl::UnavailableError(absl::StrCat(name_, " is down"));
  const auto found = shards_.find({job_id, shard});
  if (found == shards_.end()) return absl::NotFoundError(absl::StrCat("no shard ", shard));
  Shard& state = found->second;
  if (generation != state.generation) return absl::FailedPreconditionError("stale generation");
  if (state.closed) return absl::FailedPreconditionError("closed");
  if (state.retired) return absl::FailedPreconditionError("retired");
  if (step >= state.spec.total_steps()) return absl::InvalidArgumentError("past the end");
  if (state.applied.Contains(step) || state.held.Contains(step)) return absl::OkStatus();
  if (state.spec.replicas() > 0 && step / state.spec.replicas() != state.version) {
    return absl::OutOfRangeError(absl::StrCat("step ", step, " at version ", state.version));
  }
  Apply(found->first, step, state);
  applied_in_this_life_.push_back(step);
  if (flush_always_) Flush(found->first, state);
  return absl::OkStatus();
}

void FakePs::Apply(const Key& key, uint64_t step, Shard& shard) {
  if (shard.spec.replicas() == 0) {
    shard.applied.Insert(step);
    ++shard.version;
    return;
  }
  shard.held = AppliedSet::Union(shard.held, shard.applied);
  shard.held.Insert(step);
  if (!slow_versions_) Publish(key, shard);
}

bool FakePs::HoldsVersion(const Shard& shard) {
  const uint64_t end =
      std::min((shard.version + 1) * shard.spec.replicas(), shard.spec.total_steps());
  return shard.spec.replicas() > 0 && shard.held.watermark() >= end;
}

void FakePs::Publish(const Key& key, Shard& shard) {
  if (!HoldsVersion(shard) || shard.spec.optimizer().has_global_clip_norm()) return;
  Make(key, shard);
}

void FakePs::Make(const Key& key, Shard& shard) {
  shard.applied = shard.held;
  shard.held = AppliedSet();
  shard.has_previous = true;
  ++shard.version;
  const bool planned = shard.every_versions > 0 && shard.version % shard.every_versions == 0;
  if (takes_planned_cuts_ && (planned || shard.version == shard.also_at)) Flush(key, shard);
}

void FakePs::set_slow_versions(bool slow) {
  MutexLock lock(&mutex_);
  slow_versions_ = slow;
  if (slow) return;
  for (auto& [key, shard] : shards_) Publish(key, shard);
}

void FakePs::set_takes_planned_cuts(bool takes) {
  MutexLock lock(&mutex_);
  takes_planned_cuts_ = takes;
}

void FakePs::set_trouble(const std::string& trouble) {
  MutexLock lock(&mutex_);
  trouble_ = trouble;
}

void FakePs::set_says_step(absl::optional<uint64_t> step) {
  MutexLock lock(&mutex_);
  says_step_ = step;
}

void FakePs::FlushAll() {
  MutexLock lock(&mutex_);
  for (auto& [key, shard] : shards_) Flush(key, shard);
}

// A cut has neither held contributions nor pins nor the version before.
void FakePs::Flush(const Key& key, Shard& shard) {
  shard.flushed_version = shard.version;
  Shard cut = shard;
  cut.held = AppliedSet();
  cut.pins.clear();
  cut.has_previous = false;
  if (cut.spec.replicas() > 0 && cut.version > 0) cuts_[key][{cut.epoch, cut.version}] = cut;
  flushed_[key] = std::move(cut);
}

FakePs::Shard FakePs::Reopen(const Shard& flushed) {
  Shard shard = flushed;
  shard.origin = flushed.version == 0 ? ShardStatus::INITIAL_VALUES : ShardStatus::CUT;
  shard.closed = !flushed.retired && flushed.applied.watermark() < flushed.spec.total_steps();
  return shard;
}

void FakePs::set_flush_always(bool flush_always) {
  MutexLock lock(&mutex_);
  flush_always_ = flush_always;
}

std::vector<ShardStatus> FakePs::Shards(const std::string& job_id) const {
  MutexLock lock(&mutex_);
  std::vector<ShardStatus> statuses;
  for (const auto& [key, shard] : shards_) {
    if (key.first == job_id) statuses.push_back(StatusOf(key, shard));
  }
  return statuses;
}

absl::optional<ShardSpec> FakePs::SpecOf(const std::string& job_id, uint32_t shard) const {
  MutexLock lock(&mutex_);
  const auto found = shards_.find({job_id, shard});
  if (found == shards_.end()) return absl::nullopt;
  return found->second.spec;
}

std::vector<uint64_t> FakePs::AppliedInThisLife() const {
  MutexLock lock(&mutex_);
  return applied_in_this_life_;
}

absl::optional<uint64_t> FakePs::PinnedSteps(const std::string& job_id, uint32_t shard,
                                             const std::string& cut_id) const {
  MutexLock lock(&mutex_);
  const auto found = shards_.find({job_id, shard});
  if (found == shards_.end() || !found->second.pins.contains(cut_id)) return absl::nullopt;
  return found->second.pins.at(cut_id).steps;
}

int FakePs::flushes() const {
  MutexLock lock(&mutex_);
  return flushes_;
}

void FakePs::AwaitDropped(const std::string& job_id) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  MutexLock lock(&mutex_);
  while (std::any_of(shards_.begin(), shards_.end(),
                     [&](const auto& shard) { return shard.first.first == job_id; })) {
    CHECK(!Clock::Real()->WaitUntil(&dropped_, &mutex_, deadline)) << name_ << " keeps " << job_id;
  }
}

void FakePs::AwaitAskedForCut(const std::string& job_id, uint64_t version) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  MutexLock lock(&mutex_);
  while (std::none_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return shard.first.first == job_id && shard.second.also_at == version;
  })) {
    CHECK(!Clock::Real()->WaitUntil(&dropped_, &mutex_, deadline))
        << name_ << " is not asked for a cut at version " << version;
  }
}

void FakePs::AwaitOpen(const std::string& job_id, uint32_t shard) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  MutexLock lock(&mutex_);
  const auto is_open = [&](const auto& entry) {
    return entry.first == Key(job_id, shard) && !entry.second.closed;
  };
  while (std::none_of(shards_.begin(), shards_.end(), is_open)) {
    CHECK(!Clock::Real()->WaitUntil(&dropped_, &mutex_, deadline))
        << name_ << " does not open shard " << shard << " of " << job_id;
  }
}

void FakePs::AwaitRetired(const std::string& job_id) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
  MutexLock lock(&mutex_);
  while (std::none_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
    return shard.first.first == job_id && shard.second.retired;
  })) {
    CHECK(!Clock::Real()->WaitUntil(&dropped_, &mutex_, deadline)) << name_ << " has " << job_id;
  }
}

int FakePs::drops() const {
  MutexLock lock(&mutex_);
  return drops_;
}

ShardStatus FakePs::StatusOf(const Key& key, const Shard& shard) const {
  ShardStatus status;
  status.set_job_id(key.first);
  status.set_shard(key.second);
  status.set_generation(shard.generation);
  status.set_version(shard.version);
  *status.mutable_applied() = shard.applied.ToProto();
  if (says_step_) status.mutable_applied()->add_above(*says_step_);
  *status.mutable_held() = shard.held.ToProto();
  status.set_flushed_version(shard.flushed_version);
  status.set_has_previous(shard.has_previous);
  status.set_origin(shard.origin);
  status.set_closed(shard.closed);
  status.set_epoch(shard.epoch);
  status.set_retired(shard.retired);
  status.set_trouble(trouble_);
  if (shard.origin == ShardStatus::CHECKPOINT) *status.mutable_load() = ToProto(shard.load);
  const auto cuts = cuts_.find(key);
  if (cuts == cuts_.end()) return status;
  for (const auto& [name, cut] : cuts->second) {
    CutName& proto = *status.add_cuts();
    proto.set_epoch(name.first);
    proto.set_version(name.second);
  }
  return status;
}

}  // namespace millrace::coordinator
