#include "ps/service/shard_transfer.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/cut/cut_checksums.h"

namespace millrace::ps {
namespace {

class PeerShard final : public ShardSource {
 public:
  PeerShard(const CopyShardRequest& request, absl::Duration timeout)
      : server_(absl::StrCat("the ps server at ", Printable(request.source_address()))),
        stub_(
            ParameterServerAdmin::NewStub(CreateChannel(request.source_address(), /*bulk=*/true))) {
    request_.set_job_id(request.job_id());
    request_.set_shard(request.shard());
    request_.set_generation(request.source_generation());
    request_.set_directory_id(request.source_directory_id());
    context_.set_deadline(SystemDeadline(timeout));
  }

  ~PeerShard() override {
    if (reader_ == nullptr) return;
    context_.TryCancel();
    reader_->Finish();
  }

  absl::StatusOr<ShardSnapshot> Open() override {
    reader_ = stub_->ReadShard(&context_, request_);
    MILLRACE_RETURN_IF_ERROR(Next());
    if (response_.has_snapshot()) return std::move(*response_.mutable_snapshot());
    return absl::DataLossError(absl::StrCat(server_, " does not say what the shard is"));
  }

  absl::Status ReadArray(absl::Span<float> values) override {
    MILLRACE_RETURN_IF_ERROR(Next());
    const std::string& data = response_.array().data();
    const size_t bytes = values.size() * sizeof(float);
    if (data.size() != bytes) {
      return absl::DataLossError(absl::StrCat(server_, " has sent an array of ", data.size(),
                                              " bytes, where the next one has ", bytes));
    }
    if (BinaryChecksum(data) != response_.array().checksum()) {
      return absl::DataLossError(
          absl::StrCat("an array that ", server_, " has sent has another checksum"));
    }
    std::memcpy(values.data(), data.data(), bytes);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (reader_->Read(&response_)) {
      return absl::DataLossError(absl::StrCat(server_, " has sent more than the shard has"));
    }
    return Finish();
  }

 private:
  absl::Status Next() {
    if (reader_->Read(&response_)) return absl::OkStatus();
    MILLRACE_RETURN_IF_ERROR(Finish());
    return absl::DataLossError(absl::StrCat(server_, " has sent less than the shard has"));
  }

  absl::Status Finish() {
    const absl::Status status = FromGrpcStatus(std::exchange(reader_, nullptr)->Finish());
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(server_, ": ", std::string(status.message())));
  }

  const std::string server_;  // For messages.
  const std::unique_ptr<ParameterServerAdmin::Stub> stub_;
  ReadShardRequest request_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<ReadShardResponse>> reader_;  // nullptr: not open.
  ReadShardResponse response_;
};

// Why the shard cannot be told by its newest state alone.
absl::Status CheckAtRest(const Shard& shard, const ShardContents& contents) {
  if (shard.retired()) {
    return absl::FailedPreconditionError(absl::StrCat(shard.name(), ": the job has ended"));
  }
  if (!contents.is_computing && contents.held.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(shard.name(), " holds contributions to the version under way"));
}

ShardSnapshot SnapshotOf(const Shard& shard, const ShardContents& contents) {
  ShardSnapshot snapshot;
  *snapshot.mutable_spec() = shard.plan().spec;
  snapshot.set_epoch(contents.epoch);
  snapshot.set_version(contents.state->version);
  *snapshot.mutable_applied() = contents.state->applied.ToProto();
  *snapshot.mutable_stepped_back_to() = contents.stepped_back_to;
  if (contents.state->gradient_norm) snapshot.set_gradient_norm(*contents.state->gradient_norm);
  return snapshot;
}

}  // namespace

// A push of this generation that comes between the looks at it would be missing in what is sent;
// that there is none is the caller's to see to, who has told nobody of the generation yet.
absl::Status SendShard(const Shard& shard, uint64_t generation,
                       const std::function<bool(const ReadShardResponse&)>& write) {
  const absl::Status gone = absl::CancelledError("the client does not read any more");
  MILLRACE_RETURN_IF_ERROR(shard.CheckServes(generation));
  const ShardContents contents = shard.Contents();
  MILLRACE_RETURN_IF_ERROR(CheckAtRest(shard, contents));
  ReadShardResponse response;
  *response.mutable_snapshot() = SnapshotOf(shard, contents);
  if (!write(response)) return gone;
  for (const std::shared_ptr<const Block>& block : contents.state->blocks) {
    for (int array = 0; array <= block->slots(); ++array) {
      BlockArray& part = *response.mutable_array();
      part.set_data(block->array(array), block->elements() * sizeof(float));
      part.set_checksum(BinaryChecksum(part.data()));
      if (!write(response)) return gone;
    }
    MILLRACE_RETURN_IF_ERROR(shard.CheckServes(generation));
  }
  return shard.CheckServes(generation);
}

std::unique_ptr<ShardSource> ReadFromServer(const CopyShardRequest& request,
                                            absl::Duration timeout) {
  return std::make_unique<PeerShard>(request, timeout);
}

}  // namespace millrace::ps
