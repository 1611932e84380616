// What tests of a ps server share: specs, and clients that speak through the generated stubs as any
// outside program would.
#ifndef MILLRACE_PS_PS_TEST_UTIL_H_
#define MILLRACE_PS_PS_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "protos/parameter_server.grpc.pb.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::testing {

// A message of a push that sets `pieces`' data to `value` throughout.
struct PieceRange {
  uint32_t slice = 0;
  uint64_t offset = 0;
  uint64_t count = 0;
};
PushRequest MakePush(const ShardSpec& spec, uint64_t step, uint64_t push_id,
                     const std::vector<PieceRange>& ranges, float value);

// The same, with the data of its pieces rounded to `encoding`, in its field.
PushRequest EncodedAs(Encoding::Kind encoding, PushRequest push);

// A whole push in one message, of which some rows of each slice are `value` and all else 0.
PushRequest MakeRowsPush(const ShardSpec& spec, uint64_t step, uint64_t push_id, uint64_t width,
                         const std::vector<uint64_t>& rows, float value);

// All elements of the shard.
std::vector<PieceRange> WholeShard(const ShardSpec& spec);

// One Push stream.
class Pusher {
 public:
  explicit Pusher(ParameterServer::Stub* stub) : stream_(stub->Push(&context_)) {}

  bool Write(const PushRequest& request) { return stream_->Write(request); }
  // nullopt: the stream has ended.
  absl::optional<PushResponse> Read();
  // Writes and waits for the answer.
  PushResponse Push(const PushRequest& request);
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<PushRequest, PushResponse>> stream_;
};

// What a pull brought.
struct Pulled {
  int32_t code = 0;
  std::string message;
  uint64_t version = 0;
  int messages = 0;
  std::vector<std::vector<float>> slices;  // As long as in the spec.
  uint64_t elements = 0;                   // That came,
  uint64_t bytes = 0;                      // in so many.
  Encoding::Kind encoding = Encoding::FLOAT32;
  bool knows_rows = false;
};

// One Pull stream.
class Puller {
 public:
  Puller(ParameterServer::Stub* stub, ShardSpec spec)
      : spec_(std::move(spec)), stream_(stub->Pull(&context_)) {}

  // Gives it the next pull_id.
  void Send(PullRequest request) {
    request.set_pull_id(++sent_);
    stream_->Write(request);
  }
  Pulled Receive();
  // One message, which has the pull_id of the request that it belongs to; false: the stream has
  // ended.
  bool Read(PullResponse* response);
  Pulled Pull(const PullRequest& request);
  // The newest state, at generation 1.
  Pulled Pull();
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  void Take(const Piece& piece, Pulled* pulled) const;

  const ShardSpec spec_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;  // The last message of.
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<PullRequest, PullResponse>> stream_;
};

// For the shard, at generation 1.
PullRequest MakePull(const ShardSpec& spec);

}  // namespace millrace::testing

#endif  // MILLRACE_PS_PS_TEST_UTIL_H_
