#include "coordinator/testing/fake_ps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "glog/logging.h"

namespace millrace::coordinator {

void FakePs::Start(const std::string& coordinator) {
  {
    MutexLock lock(&mutex_);
    shards_ = flushed_;
    for (auto& [key, shard] : shards_) shard.pins.clear();
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
  Join(coordinator);
}

void FakePs::Join(const std::string& coordinator) {
  MemberMessage message;
  RegisterPs& ps = *message.mutable_register_ps();
  ps.set_name(name_);
  ps.set_directory_id(absl::StrCat("directory-", disk_, "-of-", name_));
  ps.set_incarnation(incarnation_);
  ps.set_address(address());
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, shard] : shards_) *ps.add_shards() = StatusOf(key, shard);
  }
  connection_ =
      std::make_unique<MemberConnection>(coordinator, [](const CoordinatorMessage& /*message*/) {});
  connection_->Send(message);
  connection_->AwaitAnswer();
}

void FakePs::Kill() {
  connection_.reset();
  server_.reset();
  MutexLock lock(&mutex_);
  address_.clear();
}

void FakePs::Wipe() {
  MutexLock lock(&mutex_);
  flushed_.clear();
}

void FakePs::ReplaceDisk() {
  Wipe();
  ++disk_;
}

std::string FakePs::address() const {
  MutexLock lock(&mutex_);
  return address_;
}

absl::Status FakePs::Push(const std::string& job_id, uint32_t shard, uint64_t generation,
                          uint64_t step) {
  MutexLock lock(&mutex_);
  if (address_.empty()) return absl::UnavailableError(absl::StrCat(name_, " is down"));
  const auto found = shards_.find({job_id, shard});
  if (found == shards_.end()) return absl::NotFoundError(absl::StrCat("no shard ", shard));
  Shard& state = found->second;
  if (generation != state.generation) return absl::FailedPreconditionError("stale generation");
  if (step >= state.spec.total_steps()) return absl::InvalidArgumentError("past the end");
  if (state.applied.Contains(step) || state.held.Contains(step)) return absl::OkStatus();
  if (state.spec.replicas() > 0 && step / state.spec.replicas() != state.version) {
    return absl::OutOfRangeError(absl::StrCat("step ", step, " at version ", state.version));
  }
  Apply(step, state);
  applied_in_this_life_.push_back(step);
  if (flush_always_) flushed_[found->first] = state;
  return absl::OkStatus();
}

void FakePs::Apply(uint64_t step, Shard& shard) {
  if (shard.spec.replicas() == 0) {
    shard.applied.Insert(step);
    ++shard.version;
    return;
  }
  // `held` begins with everything that was applied, which StatusOf leaves out.
  AppliedSet held = AppliedSet::Union(shard.held, shard.applied);
  held.Insert(step);
  const uint64_t end =
      std::min((shard.version + 1) * shard.spec.replicas(), shard.spec.total_steps());
  if (held.watermark() >= end) {
    shard.applied = held;
    shard.held = AppliedSet();
    ++shard.version;
  } else {
    shard.held = held;
  }
}

void FakePs::FlushAll() {
  MutexLock lock(&mutex_);
  flushed_ = shards_;
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
  return found->second.pins.at(cut_id);
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

int FakePs::drops() const {
  MutexLock lock(&mutex_);
  return drops_;
}

ShardStatus FakePs::StatusOf(const Key& key, const Shard& shard) {
  ShardStatus status;
  status.set_job_id(key.first);
  status.set_shard(key.second);
  status.set_generation(shard.generation);
  status.set_version(shard.version);
  *status.mutable_applied() = shard.applied.ToProto();
  *status.mutable_held() = shard.held.ToProto();
  return status;
}

grpc::Status FakePs::Find(const std::string& job_id, uint32_t shard, ShardStatus* response,
                          Shard** found) {
  const auto entry = shards_.find({job_id, shard});
  if (entry == shards_.end()) return {grpc::StatusCode::NOT_FOUND, "no such shard"};
  *found = &entry->second;
  if (response != nullptr) *response = StatusOf(entry->first, entry->second);
  return grpc::Status::OK;
}

grpc::Status FakePs::CreateShard(grpc::ServerContext*, const CreateShardRequest* request,
                                 ShardStatus* response) {
  if (const grpc::Status status = on_create_ ? on_create_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  const Key key(request->spec().job_id(), request->spec().shard());
  Shard& shard = shards_[key];
  shard.spec = request->spec();
  shard.generation = request->generation();
  flushed_[key] = shard;
  *response = StatusOf(key, shard);
  return grpc::Status::OK;
}

grpc::Status FakePs::GetShard(grpc::ServerContext*, const GetShardRequest* request,
                              ShardStatus* response) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  return Find(request->job_id(), request->shard(), response, &shard);
}

grpc::Status FakePs::SetGeneration(grpc::ServerContext*, const SetGenerationRequest* request,
                                   ShardStatus* response) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = Find(request->job_id(), request->shard(), response, &shard);
  if (!status.ok()) return status;
  if (shard->generation > request->generation()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "at a newer generation"};
  }
  shard->generation = request->generation();
  response->set_generation(request->generation());
  return grpc::Status::OK;
}

grpc::Status FakePs::PinCut(grpc::ServerContext*, const PinCutRequest* request,
                            ShardStatus* response) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = Find(request->job_id(), request->shard(), response, &shard);
  if (!status.ok()) return status;
  if (shard->generation != request->generation()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "stale generation"};
  }
  shard->pins.try_emplace(request->cut_id(), shard->applied.size());
  return grpc::Status::OK;
}

grpc::Status FakePs::UnpinCut(grpc::ServerContext*, const UnpinCutRequest* request,
                              UnpinCutResponse* /*response*/) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = Find(request->job_id(), request->shard(), nullptr, &shard);
  if (status.ok()) shard->pins.erase(request->cut_id());
  return status;
}

grpc::Status FakePs::FlushCut(grpc::ServerContext*, const FlushCutRequest* request,
                              ShardStatus* response) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = Find(request->job_id(), request->shard(), response, &shard);
  if (!status.ok()) return status;
  flushed_[{request->job_id(), request->shard()}] = *shard;
  ++flushes_;
  return grpc::Status::OK;
}

grpc::Status FakePs::DropShard(grpc::ServerContext*, const DropShardRequest* request,
                               DropShardResponse* /*response*/) {
  if (const grpc::Status status = on_drop_ ? on_drop_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  ++drops_;
  shards_.erase({request->job_id(), request->shard()});
  flushed_.erase({request->job_id(), request->shard()});
  dropped_.SignalAll();
  return grpc::Status::OK;
}

}  // namespace millrace::coordinator
