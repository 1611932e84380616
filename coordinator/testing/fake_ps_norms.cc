// Versions of a FakePs that wait for the norm of their gradient over all shards.
#include "common/clock.h"
#include "coordinator/testing/fake_ps.h"

namespace millrace::coordinator {
namespace {

// 1, in units of 2^-298.
constexpr uint64_t kOneWord = 298 / 64;
constexpr uint64_t kOne = uint64_t{1} << (298 % 64);
// After that the caller hears why.
constexpr absl::Duration kVersionPatience = absl::Seconds(30);

}  // namespace

void FakePs::AwaitVersionOf(const Key& key, uint64_t generation, uint64_t step) {
  const absl::Time deadline = Clock::Real()->Now() + kVersionPatience;
  const auto comes_too_early = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = shards_.find(key);
    if (found == shards_.end() || address_.empty()) return false;
    if (found->second.generation != generation) return false;
    const ShardSpec& spec = found->second.spec;
    return spec.optimizer().has_global_clip_norm() && spec.replicas() > 0 &&
           step / spec.replicas() == found->second.version + 1 && HoldsVersion(found->second);
  };
  while (comes_too_early() && !Clock::Real()->WaitUntil(&dropped_, &mutex_, deadline)) {
  }
}

template <typename Request>
grpc::Status FakePs::FindVersion(const Request& request, Shard** found) {
  const auto entry = shards_.find({request.job_id(), request.shard()});
  if (entry == shards_.end()) return {grpc::StatusCode::NOT_FOUND, "no such shard"};
  const Shard& shard = entry->second;
  if (request.generation() != shard.generation || shard.closed) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "another generation, or closed"};
  }
  if (!shard.spec.optimizer().has_global_clip_norm() || shard.spec.replicas() == 0) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "it waits for no norms"};
  }
  if (request.epoch() == shard.epoch && request.version() > shard.version) {
    return {grpc::StatusCode::OUT_OF_RANGE, "it has not come to the version"};
  }
  const bool is_near = request.version() == shard.version || request.version() + 1 == shard.version;
  if (request.epoch() != shard.epoch || !is_near) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "at another version"};
  }
  *found = &entry->second;
  return grpc::Status::OK;
}

grpc::Status FakePs::MeasureVersion(grpc::ServerContext*, const MeasureVersionRequest* request,
                                    MeasureVersionResponse* response) {
  if (on_measure_) {
    const grpc::Status status = on_measure_(request->version());
    if (!status.ok()) return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindVersion(*request, &shard);
  if (!status.ok()) return status;
  if (request->version() < shard->version) {
    response->set_state(MeasureVersionResponse::NORM_KNOWN);
    response->set_norm(shard->norm);
  } else if (HoldsVersion(*shard)) {
    response->set_state(MeasureVersionResponse::MEASURED);
    for (uint64_t word = 0; word < kOneWord; ++word) response->add_square_sum(0);
    response->add_square_sum(kOne);
  }
  return grpc::Status::OK;
}

grpc::Status FakePs::ApplyVersion(grpc::ServerContext*, const ApplyVersionRequest* request,
                                  ApplyVersionResponse* response) {
  if (on_apply_) {
    const grpc::Status status = on_apply_(request->version());
    if (!status.ok()) return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindVersion(*request, &shard);
  if (!status.ok()) return status;
  const Key key(request->job_id(), request->shard());
  if (request->version() == shard->version) {
    if (!HoldsVersion(*shard)) return {grpc::StatusCode::ABORTED, "not measured"};
    shard->norm = request->norm();
    norms_[key].emplace_back(request->version(), request->norm());
    Make(key, *shard);
    dropped_.SignalAll();
  } else if (shard->norm != request->norm()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "made with another norm"};
  }
  response->set_version(shard->version);
  return grpc::Status::OK;
}

std::vector<std::pair<uint64_t, double>> FakePs::Norms(const std::string& job_id,
                                                       uint32_t shard) const {
  MutexLock lock(&mutex_);
  const auto found = norms_.find({job_id, shard});
  return found == norms_.end() ? std::vector<std::pair<uint64_t, double>>() : found->second;
}

}  // namespace millrace::coordinator
