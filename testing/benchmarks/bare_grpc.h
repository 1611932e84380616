// gRPC alone, as the measure of what exchanges of small messages can cost: raw messages on one open
// stream, no requests in them, nobody who looks for anything.
#ifndef MILLRACE_TESTING_BENCHMARKS_BARE_GRPC_H_
#define MILLRACE_TESTING_BENCHMARKS_BARE_GRPC_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"

namespace millrace::testing {

// Answers a message of up to 64 bytes with 4 KiB, and others with 64 bytes, on gRPC's threads.
class BareGrpcServer {
 public:
  static absl::StatusOr<std::unique_ptr<BareGrpcServer>> Start();
  ~BareGrpcServer();

  std::string address() const;  // HOST:PORT.

 private:
  class Service final : public grpc::CallbackGenericService {
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override;
  };

  BareGrpcServer() = default;

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// A stream of its own connection. Used by one thread.
class BareGrpcClient : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit BareGrpcClient(const std::string& address);
  // Waits for the stream's end.
  ~BareGrpcClient() override;

  // As many bytes as a pull of 4 KiB takes, and then as a push does: two answers are waited for.
  absl::Status PullAndPush();

 private:
  absl::Status Exchange(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReadDone(bool ok) override { Done(ok); }
  void OnWriteDone(bool ok) override { Done(ok); }
  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Done(bool ok) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer outgoing_;  // Belongs to the exchange under way.
  grpc::ByteBuffer incoming_;

  Mutex mutex_;
  CondVar changed_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // Operations of the exchange.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_BARE_GRPC_H_
