#include "coordinator/jobs/shard_group.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/job_spec.h"
#include "common/net/channel.h"
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kShortCall = absl::Seconds(10);
// While a client waits for the end of a job.
constexpr absl::Duration kFenceCall = absl::Seconds(3);
// Makes a shard of any size, or writes it to disk.
constexpr absl::Duration kLongCall = absl::Minutes(5);

std::string NameOf(const ShardPlacement& placement) {
  return absl::StrCat(placement.server(), " (", placement.address(), ")");
}

}  // namespace

ShardGroup::ShardGroup(const JobRecord& record, const MemberRegistry* registry)
    : job_id_(record.job_id()),
      spec_(record.spec()),
      plan_(record.plan()),
      total_steps_(record.total_steps()),
      registry_(registry),
      placements_(record.shards().begin(), record.shards().end()),
      servers_(placements_.size()) {
  CHECK(!placements_.empty());
}

ShardGroup::~ShardGroup() = default;

std::string ShardGroup::DescribeMissing(const ShardPlacement& placement) {
  for (const PsMember& server : registry_->PsServers()) {
    if (server.registration.name() != placement.server() &&
        server.registration.address() != placement.address()) {
      continue;
    }
    lost_directory_ = true;
    return absl::StrCat(NameOf(placement),
                        ", which is back with another data directory (start it on its old one, or "
                        "cancel the job)");
  }
  return absl::StrCat(NameOf(placement), ", gone");
}

std::string ShardGroup::Locate() {
  std::set<std::string> missing;
  lost_directory_ = false;
  for (size_t shard = 0; shard < placements_.size(); ++shard) {
    ShardPlacement& placement = placements_[shard];
    Server& server = servers_[shard];
    const auto member = registry_->FindPs(placement.directory_id());
    server.member = member ? member->id : 0;
    if (!member) {
      missing.insert(DescribeMissing(placement));
      continue;
    }
    placement.set_server(member->registration.name());
    placement.set_address(member->registration.address());
    if (server.stub != nullptr && server.address == placement.address()) continue;
    server.address = placement.address();
    server.stub = ParameterServerAdmin::NewStub(CreateChannel(server.address));
  }
  return absl::StrJoin(missing, ", ");
}

bool ShardGroup::Moved() const {
  for (size_t shard = 0; shard < placements_.size(); ++shard) {
    const auto member = registry_->FindPs(placements_[shard].directory_id());
    if (!member || member->id != servers_[shard].member) return true;
  }
  return false;
}

Routing ShardGroup::RoutingAt(uint64_t generation) const {
  Routing routing;
  routing.set_generation(generation);
  for (size_t shard = 0; shard < placements_.size(); ++shard) {
    ShardRoute& route = *routing.add_shards();
    route.set_shard(shard);
    route.set_server(placements_[shard].server());
    route.set_address(placements_[shard].address());
    *route.mutable_slices() = placements_[shard].slices();
  }
  return routing;
}

ShardSpec ShardGroup::SpecOf(uint32_t shard) const {
  ShardSpec spec;
  spec.set_job_id(job_id_);
  spec.set_shard(shard);
  for (const Slice& slice : placements_[shard].slices()) {
    const VariableSpec& variable = plan_.variables(slice.variable());
    ShardSlice& part = *spec.add_slices();
    *part.mutable_slice() = slice;
    part.set_variable_name(variable.name());
    *part.mutable_initial_value() = variable.initial_value();
  }
  *spec.mutable_optimizer() = spec_.optimizer();
  spec.set_replicas(Replicas(spec_));
  spec.set_total_steps(total_steps_);
  spec.set_seed(spec_.seed());
  *spec.mutable_cut_period() = ToProto(CutPeriod(spec_));
  return spec;
}

absl::StatusOr<std::vector<ShardStatus>> ShardGroup::Create(uint64_t generation) {
  std::vector<ShardStatus> statuses(placements_.size());
  MILLRACE_RETURN_IF_ERROR(
      ForEach("CreateShard", kLongCall, [&](uint32_t shard, auto& stub, auto* context) {
        CreateShardRequest request;
        *request.mutable_spec() = SpecOf(shard);
        request.set_generation(generation);
        return stub.CreateShard(context, request, &statuses[shard]);
      }));
  return statuses;
}

absl::StatusOr<std::vector<ShardStatus>> ShardGroup::SetGeneration(uint64_t generation) {
  std::vector<ShardStatus> statuses(placements_.size());
  MILLRACE_RETURN_IF_ERROR(
      ForEach("SetGeneration", kShortCall, [&](uint32_t shard, auto& stub, auto* context) {
        SetGenerationRequest request;
        request.set_job_id(job_id_);
        request.set_shard(shard);
        request.set_generation(generation);
        return stub.SetGeneration(context, request, &statuses[shard]);
      }));
  return statuses;
}

absl::Status ShardGroup::Fence(uint64_t generation) {
  return ForThoseThere("SetGeneration", kFenceCall, [&](uint32_t shard, auto& stub, auto* context) {
    SetGenerationRequest request;
    request.set_job_id(job_id_);
    request.set_shard(shard);
    request.set_generation(generation);
    ShardStatus response;
    return stub.SetGeneration(context, request, &response);
  });
}

absl::Status ShardGroup::PinCut(uint64_t generation, const std::string& cut_id) {
  return ForEach("PinCut", kShortCall, [&](uint32_t shard, auto& stub, auto* context) {
    PinCutRequest request;
    request.set_job_id(job_id_);
    request.set_shard(shard);
    request.set_generation(generation);
    request.set_cut_id(cut_id);
    ShardStatus status;
    return stub.PinCut(context, request, &status);
  });
}

absl::Status ShardGroup::FlushCut() {
  return ForEach("FlushCut", kLongCall, [&](uint32_t shard, auto& stub, auto* context) {
    FlushCutRequest request;
    request.set_job_id(job_id_);
    request.set_shard(shard);
    ShardStatus status;
    return stub.FlushCut(context, request, &status);
  });
}

absl::Status ShardGroup::UnpinCut(const std::string& cut_id) {
  return ForThoseThere("UnpinCut", kShortCall, [&](uint32_t shard, auto& stub, auto* context) {
    UnpinCutRequest request;
    request.set_job_id(job_id_);
    request.set_shard(shard);
    request.set_cut_id(cut_id);
    UnpinCutResponse response;
    return stub.UnpinCut(context, request, &response);
  });
}

absl::Status ShardGroup::Drop() {
  return ForThoseThere("DropShard", kShortCall, [&](uint32_t shard, auto& stub, auto* context) {
    if (placements_[shard].dropped()) return grpc::Status::OK;
    DropShardRequest request;
    request.set_job_id(job_id_);
    request.set_shard(shard);
    DropShardResponse response;
    const grpc::Status status = stub.DropShard(context, request, &response);
    placements_[shard].set_dropped(status.ok());
    return status;
  });
}

absl::Status ShardGroup::ForEach(const char* what, absl::Duration timeout, const Call& call) {
  for (uint32_t shard = 0; shard < placements_.size(); ++shard) {
    MILLRACE_RETURN_IF_ERROR(ForOne(shard, what, timeout, call));
  }
  return absl::OkStatus();
}

absl::Status ShardGroup::ForThoseThere(const char* what, absl::Duration timeout, const Call& call) {
  absl::Status first;
  std::set<std::string> silent;  // One wait for each server is enough.
  for (uint32_t shard = 0; shard < placements_.size(); ++shard) {
    const Server& server = servers_[shard];
    if (server.member == 0 || silent.contains(server.address)) continue;
    const absl::Status status = ForOne(shard, what, timeout, call);
    if (absl::IsDeadlineExceeded(status)) silent.insert(server.address);
    first.Update(status);
  }
  return first;
}

absl::Status ShardGroup::ForOne(uint32_t shard, const char* what, absl::Duration timeout,
                                const Call& call) {
  const ShardPlacement& placement = placements_[shard];
  if (servers_[shard].member == 0) {
    failed_server_ = NameOf(placement);
    return absl::UnavailableError(absl::StrCat(failed_server_, " is not there"));
  }
  grpc::ClientContext context;
  context.set_deadline(SystemDeadline(timeout));
  if (!Begin(&context)) return absl::CancelledError("the job ends");
  const grpc::Status status = call(shard, *servers_[shard].stub, &context);
  End();
  if (status.ok()) return absl::OkStatus();
  failed_server_ = NameOf(placement);
  return absl::Status(
      FromGrpcStatus(status).code(),
      absl::StrCat(failed_server_, ": ", what, " of shard ", shard, ": ", status.error_message()));
}

bool ShardGroup::Begin(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (cancelled_) return false;
  context_ = context;
  return true;
}

void ShardGroup::End() {
  MutexLock lock(&mutex_);
  context_ = nullptr;
}

void ShardGroup::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

void ShardGroup::Resume() {
  MutexLock lock(&mutex_);
  cancelled_ = false;
}

}  // namespace millrace::coordinator
