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

SelfCheck::SelfCheck(Options options)
    : options_(std::move(options)), thread_([this] { CheckInLoop(); }) {}

SelfCheck::~SelfCheck() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void SelfCheck::CheckInLoop() {
  int failures = 0;
  while (Pause()) {
    const absl::Status status = AskHealth(options_.address, options_.patience);
    failures = status.ok() ? 0 : failures + 1;
    if (status.ok()) continue;
    LOG(WARNING) << "the server at " << options_.address
                 << " does not reach itself: " << Printable(status.message());
    if (failures < options_.tries) continue;
    absl::StatusOr<std::thread> thread = StartThread([] {});
    if (!thread.ok()) {
      LOG(ERROR) << "a process without threads to start: " << thread.status().message()
                 << "; allow it more (ulimit -u, TasksMax= of a systemd unit, or pids.max of a "
                    "container)";
      continue;
    }
    thread->join();
    return options_.on_deaf();
  }
}

bool SelfCheck::Pause() {
  const absl::Time end = Clock::Real()->Now() + options_.period;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (Clock::Real()->WaitUntil(&changed_, &mutex_, end)) break;
  }
  return !stopping_;
}

void SelfCheck::EndDeafProcess() {
  LOG(ERROR) << "gRPC does not work any more in this process, as after a lack of threads or files; "
                "the process ends: start it again";
  EndProcess(/*exit_status=*/1);
}

}  // namespace millrace
