// What the coordinator asks of a ps server.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "coordinator/testing/fake_ps.h"
#include "coordinator/testing/fake_shard_files.h"

namespace millrace::coordinator {
namespace {

constexpr uint64_t kGenerations = uint64_t{1} << 32;

grpc::Status CheckGeneration(uint64_t generation) {
  if (generation < kGenerations) return grpc::Status::OK;
  return {grpc::StatusCode::INVALID_ARGUMENT, "generation: must be below 2^32"};
}

}  // namespace

template <typename Request>
grpc::Status FakePs::Find(const Request& request, Shard** found) {
  const auto entry = shards_.find({request.job_id(), request.shard()});
  if (entry == shards_.end()) return {grpc::StatusCode::NOT_FOUND, "no such shard"};
  if (entry->second.damaged) return {grpc::StatusCode::DATA_LOSS, "record 3: byte 9 is damaged"};
  *found = &entry->second;
  return grpc::Status::OK;
}

template <typename Request>
grpc::Status FakePs::FindAt(const Request& request, Shard** found) {
  grpc::Status status = CheckGeneration(request.generation());
  if (status.ok()) status = Find(request, found);
  if (!status.ok()) return status;
  if ((*found)->generation != request.generation()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "another generation"};
  }
  return grpc::Status::OK;
}

template <typename Request>
grpc::Status FakePs::FindOpen(const Request& request, Shard** found) {
  const grpc::Status status = FindAt(request, found);
  if (!status.ok() || !(*found)->closed) return status;
  return {grpc::StatusCode::FAILED_PRECONDITION, "closed"};
}

template <typename Request>
grpc::Status FakePs::CheckDirectory(const Request& request) const {
  const std::string& wanted = request.directory_id();
  if (wanted.empty() || wanted == directory_id_) return grpc::Status::OK;
  return {grpc::StatusCode::UNAVAILABLE, "directory_id: of another server"};
}

grpc::Status FakePs::CreateShard(grpc::ServerContext*, const CreateShardRequest* request,
                                 ShardStatus* response) {
  const std::string& job_id = request->spec().job_id();
  if (const grpc::Status status = CheckDirectory(*request); !status.ok()) return status;
  if (const grpc::Status status = on_create_ ? on_create_(job_id) : grpc::Status::OK;
      !status.ok()) {
    return status;
  }
  if (const grpc::Status status = CheckGeneration(request->generation()); !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  const Key key(request->spec().job_id(), request->spec().shard());
  const auto [entry, is_new] = shards_.try_emplace(key);
  Shard& shard = entry->second;
  if (is_new) {
    shard.spec = request->spec();
    shard.generation = request->generation();
    if (request->spec().has_restore()) {
      absl::Status restored = on_restore_ ? on_restore_(shard.spec) : absl::OkStatus();
      if (restored.ok()) restored = Restore(shard);
      if (!restored.ok()) {
        shards_.erase(entry);
        return ToGrpcStatus(restored);
      }
    }
    Flush(key, shard);
    dropped_.SignalAll();
  } else if (shard.spec.SerializeAsString() != request->spec().SerializeAsString()) {
    return {grpc::StatusCode::ALREADY_EXISTS, "with another spec"};
  }
  const grpc::Status status = Advance(key, request->generation(), shard);
  *response = StatusOf(key, shard);
  return status;
}

absl::Status FakePs::Restore(Shard& shard) {
  const ShardRestore& from = shard.spec.restore();
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                            ReadManifest(RealFileSystem(), from.directory(), from.checkpoint()));
  if (manifest.checksum() != from.manifest_checksum()) {
    return absl::NotFoundError("another checkpoint has the number");
  }
  const ShardSlice& first = shard.spec.slices(0);
  for (int i = 0; i < manifest.shards_size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(
        const ShardRecord record,
        ReadShardRecord(RealFileSystem(), from.directory(), manifest, static_cast<uint32_t>(i)));
    const bool has_it =
        std::any_of(record.blocks().begin(), record.blocks().end(), [&](const StoredBlock& block) {
          return block.variable() == first.variable_name() &&
                 block.offset() <= first.slice().offset() &&
                 first.slice().offset() < block.offset() + block.length();
        });
    if (!has_it) continue;
    MILLRACE_ASSIGN_OR_RETURN(shard.applied, AppliedSet::FromProto(record.applied()));
    shard.version = record.version();
    shard.epoch = record.epoch();
    shard.origin = ShardStatus::CHECKPOINT;
    shard.load = absl::Seconds(3);
    return absl::OkStatus();
  }
  return absl::NotFoundError("the checkpoint lacks the shard's elements");
}

grpc::Status FakePs::GetShard(grpc::ServerContext*, const GetShardRequest* request,
                              ShardStatus* response) {
  if (const grpc::Status status = CheckDirectory(*request); !status.ok()) return status;
  if (const grpc::Status status = on_get_ ? on_get_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = Find(*request, &shard);
  if (status.ok()) *response = StatusOf({request->job_id(), request->shard()}, *shard);
  return status;
}

grpc::Status FakePs::SetGeneration(grpc::ServerContext*, const SetGenerationRequest* request,
                                   ShardStatus* response) {
  grpc::Status status = CheckDirectory(*request);
  if (status.ok()) status = CheckGeneration(request->generation());
  if (status.ok() && on_generation_) status = on_generation_();
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  status = Find(*request, &shard);
  if (!status.ok()) return status;
  const Key key(request->job_id(), request->shard());
  status = Advance(key, request->generation(), *shard);
  if (status.ok()) *response = StatusOf(key, *shard);
  return status;
}

// The generation is on the disk at once.
grpc::Status FakePs::Advance(const Key& key, uint64_t generation, Shard& shard) {
  if (shard.generation > generation) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "at a newer generation"};
  }
  if (shard.generation == generation) return grpc::Status::OK;
  shard.generation = generation;
  dropped_.SignalAll();
  shard.closed = false;
  shard.pins.clear();
  flushed_[key].generation = generation;
  return grpc::Status::OK;
}

grpc::Status FakePs::PlanCuts(grpc::ServerContext*, const PlanCutsRequest* request,
                              ShardStatus* response) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindAt(*request, &shard);
  if (!status.ok()) return status;
  shard->every_versions = request->every_versions();
  shard->also_at = request->also_at();
  dropped_.SignalAll();
  *response = StatusOf({request->job_id(), request->shard()}, *shard);
  return grpc::Status::OK;
}

grpc::Status FakePs::StepBack(grpc::ServerContext*, const StepBackRequest* request,
                              ShardStatus* response) {
  if (const grpc::Status status = on_step_back_ ? on_step_back_() : grpc::Status::OK;
      !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindAt(*request, &shard);
  if (!status.ok()) return status;
  const Key key(request->job_id(), request->shard());
  const uint64_t version = request->cut().version();
  if (shard->spec.replicas() == 0 || request->epoch() <= shard->epoch) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "asynchronous, or an old epoch"};
  }
  auto& cuts = cuts_[key];
  const auto cut = cuts.find({request->cut().epoch(), version});
  if (version > 0 && cut == cuts.end()) return {grpc::StatusCode::NOT_FOUND, "no such cut"};
  shard->applied = version > 0 ? cut->second.applied : AppliedSet();
  shard->held = AppliedSet();
  shard->version = version;
  shard->has_previous = false;
  shard->epoch = request->epoch();
  for (auto it = cuts.begin(); it != cuts.end();) {
    it = it->first.second > version ? cuts.erase(it) : std::next(it);
  }
  flushed_[key] = *shard;
  *response = StatusOf(key, *shard);
  return grpc::Status::OK;
}

grpc::Status FakePs::RetireShard(grpc::ServerContext*, const RetireShardRequest* request,
                                 ShardStatus* response) {
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindAt(*request, &shard);
  if (!status.ok()) return status;
  const Key key(request->job_id(), request->shard());
  shard->retired = true;
  shard->closed = false;
  shard->held = AppliedSet();
  shard->pins.clear();
  Flush(key, *shard);
  dropped_.SignalAll();
  *response = StatusOf(key, *shard);
  return grpc::Status::OK;
}

grpc::Status FakePs::PinCut(grpc::ServerContext*, const PinCutRequest* request,
                            ShardStatus* response) {
  if (const grpc::Status status = on_pin_ ? on_pin_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindOpen(*request, &shard);
  if (!status.ok()) return status;
  if (shard->retired) return {grpc::StatusCode::FAILED_PRECONDITION, "retired"};
  // A repeated call finds what the first one pinned.
  const Pin pin = {shard->applied.size(), StatusOf({request->job_id(), request->shard()}, *shard)};
  *response = shard->pins.try_emplace(request->cut_id(), pin).first->second.status;
  return grpc::Status::OK;
}

grpc::Status FakePs::UnpinCut(grpc::ServerContext*, const UnpinCutRequest* request,
                              UnpinCutResponse* /*response*/) {
  if (const grpc::Status status = on_unpin_ ? on_unpin_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindAt(*request, &shard);
  if (status.ok()) shard->pins.erase(request->cut_id());
  return status;
}

grpc::Status FakePs::FlushCut(grpc::ServerContext*, const FlushCutRequest* request,
                              ShardStatus* response) {
  if (const grpc::Status status = on_flush_ ? on_flush_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  Shard* shard = nullptr;
  const grpc::Status status = FindOpen(*request, &shard);
  if (!status.ok()) return status;
  const Key key(request->job_id(), request->shard());
  Flush(key, *shard);
  ++flushes_;
  *response = StatusOf(key, *shard);
  return grpc::Status::OK;
}

grpc::Status FakePs::FindState(const WriteCheckpointRequest& request, const Key& key,
                               const Shard& shard, ShardStatus* state) {
  if (request.has_cut_id()) {
    const auto pin = shard.pins.find(request.cut_id());
    if (pin == shard.pins.end()) return {grpc::StatusCode::NOT_FOUND, "no such pin"};
    *state = pin->second.status;
    return grpc::Status::OK;
  }
  *state = StatusOf(key, shard);
  if (!request.has_cut()) return grpc::Status::OK;
  const auto& cuts = cuts_[key];
  const auto cut = cuts.find({request.cut().epoch(), request.cut().version()});
  if (cut == cuts.end()) return {grpc::StatusCode::NOT_FOUND, "no such cut"};
  *state = StatusOf(key, cut->second);
  return grpc::Status::OK;
}

// Each element is the number of steps that the state has.
grpc::Status FakePs::WriteCheckpoint(grpc::ServerContext* context,
                                     const WriteCheckpointRequest* request,
                                     WriteCheckpointResponse* response) {
  if (const grpc::Status status = on_write_ ? on_write_(context) : grpc::Status::OK; !status.ok()) {
    return status;
  }
  ShardSpec spec;
  ShardStatus state;
  {
    MutexLock lock(&mutex_);
    Shard* shard = nullptr;
    grpc::Status status = FindOpen(*request, &shard);
    if (!status.ok()) return status;
    status = FindState(*request, {request->job_id(), request->shard()}, *shard, &state);
    if (!status.ok()) return status;
    spec = shard->spec;
  }
  const auto written = WriteFakeShard(*request, spec, state);
  if (!written.ok()) return ToGrpcStatus(written.status());
  *response->mutable_shard() = *written;
  response->set_extra_memory(1 << 20);
  return grpc::Status::OK;
}

grpc::Status FakePs::DropShard(grpc::ServerContext*, const DropShardRequest* request,
                               DropShardResponse* /*response*/) {
  if (const grpc::Status status = CheckDirectory(*request); !status.ok()) return status;
  if (const grpc::Status status = on_drop_ ? on_drop_() : grpc::Status::OK; !status.ok()) {
    return status;
  }
  if (const grpc::Status status = CheckGeneration(request->generation()); !status.ok()) {
    return status;
  }
  MutexLock lock(&mutex_);
  ++drops_;
  const auto shard = shards_.find({request->job_id(), request->shard()});
  if (shard != shards_.end() && shard->second.generation > request->generation()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "at a newer generation"};
  }
  shards_.erase({request->job_id(), request->shard()});
  flushed_.erase({request->job_id(), request->shard()});
  cuts_.erase({request->job_id(), request->shard()});
  dropped_.SignalAll();
  return grpc::Status::OK;
}

}  // namespace millrace::coordinator
