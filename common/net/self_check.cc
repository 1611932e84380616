#include "common/net/self_check.h"

#include <memory>
#include <utility>

#include "absl/types/optional.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/printable.h"
#include "common/process.h"
#include "common/start_thread.h"
#include "glog/logging.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace millrace {
namespace {

// The standard health service; its request is empty.
constexpr char kMethod[] = "/grpc.health.v1.Health/Check";

// It may be answered when nobody waits any more.
struct Call {
  explicit Call(const std::string& address)
      : stub(CreateChannel(address, /*own_connection=*/true)) {}

  grpc::GenericStub stub;
  grpc::ClientContext context;
  grpc::ByteBuffer request{nullptr, 0};
  grpc::ByteBuffer response;
  Mutex mutex;
  CondVar changed;
  absl::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
};

bool HasThreads() {
  absl::StatusOr<std::thread> thread = StartThread([] {});
  if (thread.ok()) thread->join();
  LOG_IF(ERROR, !thread.ok())
      << "the process has no threads to start: " << thread.status().message()
      << "; allow it more (ulimit -u, TasksMax= of a systemd unit, or pids.max of a container)";
  return thread.ok();
}

}  // namespace

absl::Status AskHealth(const std::string& address, absl::Duration patience) {
  const auto call = std::make_shared<Call>(address);
  call->context.set_deadline(SystemDeadline(patience));
  call->stub.UnaryCall(&call->context, kMethod, {}, &call->request, &call->response,
                       [call](grpc::Status status) {
                         MutexLock lock(&call->mutex);
                         call->status = FromGrpcStatus(status);
                         call->changed.SignalAll();
                       });
  // Its own deadline is gRPC's to watch, which may be what is broken.
  const absl::Time end = Clock::Real()->Now() + 2 * patience;
  MutexLock lock(&call->mutex);
  while (!call->status) {
    if (Clock::Real()->WaitUntil(&call->changed, &call->mutex, end)) {
      return absl::DeadlineExceededError("gRPC does not end a call when its time is over");
    }
  }
  return *call->status;
}

SelfCheck::SelfCheck(Options options) : options_(std::move(options)), address_(options_.address) {
  if (address_.empty()) {
    absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start({}, {});
    if (!server.ok()) {
      LOG(WARNING) << "gRPC is not checked: " << server.status().message();
      return;
    }
    server_ = *std::move(server);
    address_ = server_->address();
  }
  absl::StatusOr<std::thread> thread = StartThread([this] { CheckInLoop(); });
  LOG_IF(WARNING, !thread.ok()) << "gRPC is not checked: " << thread.status().message();
  if (thread.ok()) thread_ = *std::move(thread);
}

SelfCheck::~SelfCheck() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  // To shut it down might take for ever.
  if (failures_ > 0) static_cast<void>(server_.release());
}

void SelfCheck::CheckInLoop() {
  bool has_answered = false;
  while (Pause()) {
    const absl::Status status = AskHealth(address_, options_.patience);
    has_answered |= status.ok();
    if (!has_answered) {
      LOG(WARNING) << "gRPC is not checked: " << address_
                   << " is not reached: " << Printable(status.message());
      return;
    }
    failures_ = status.ok() ? 0 : failures_ + 1;
    if (status.ok()) continue;
    LOG(WARNING) << "this process does not reach itself at " << address_ << ": "
                 << Printable(status.message());
    if (failures_ >= options_.tries && HasThreads() && !stopping()) {
      return options_.on_broken(status);
    }
  }
}

bool SelfCheck::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

bool SelfCheck::Pause() {
  const absl::Time end = Clock::Real()->Now() + options_.period;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (Clock::Real()->WaitUntil(&changed_, &mutex_, end)) break;
  }
  return !stopping_;
}

void SelfCheck::EndProcessWithoutGrpc(const absl::Status& why) {
  LOG(ERROR) << "gRPC does not work any more in this process, as after a lack of threads ("
             << Printable(why.message()) << "); the process ends: start it again";
  EndProcess(/*exit_status=*/1);
}

}  // namespace millrace
