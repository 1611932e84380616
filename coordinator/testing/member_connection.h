// A member's end of its stream to the coordinator, for fakes.
#ifndef MILLRACE_COORDINATOR_TESTING_MEMBER_CONNECTION_H_
#define MILLRACE_COORDINATOR_TESTING_MEMBER_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"
#include "protos/cluster.grpc.pb.h"

namespace millrace::coordinator {

// Thread-safe. Sends no heartbeats of its own.
class MemberConnection {
 public:
  // Dials; `on_message` gets every message, on one thread.
  MemberConnection(const std::string& address,
                   std::function<void(const CoordinatorMessage&)> on_message);
  // Breaks.
  ~MemberConnection();

  // Breaks the stream, as a dying process would; `on_message` is not called afterwards. Blocks
  // until a call of it has ended, so REQUIRES: it does not call this, nor drop the last reference
  // before.
  void Break();

  void Send(const MemberMessage& message);

  // Says that no more messages come from this side.
  void HalfClose();

  // Blocks until the coordinator has answered (true), or ended the stream without an answer.
  bool AwaitAnswer();

  // Blocks until the coordinator has ended the stream.
  absl::Status AwaitEnd();

 private:
  std::unique_ptr<Membership::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<MemberMessage, CoordinatorMessage>> stream_;

  Mutex mutex_;  // One writes at a time.
  Mutex end_mutex_;
  CondVar changed_;
  bool has_answer_ ABSL_GUARDED_BY(end_mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(end_mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(end_mutex_);
  std::thread reader_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_TESTING_MEMBER_CONNECTION_H_
