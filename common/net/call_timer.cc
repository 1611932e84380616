#include "common/net/call_timer.h"

#include "common/clock.h"
#include "common/mutex.h"

namespace millrace {

// The alarm may go off while the timer is destroyed, so it has its own share in this.
class CallTimer::Call {
 public:
  explicit Call(grpc::ServerContext* context) : context_(context) {}

  void Cancel() {
    MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  void LetGo() {
    MutexLock lock(&mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  grpc::ServerContext* context_ ABSL_GUARDED_BY(mutex_);
};

CallTimer::CallTimer(grpc::ServerContext* context, absl::Duration patience)
    : call_(std::make_shared<Call>(context)) {
  alarm_.Set(SystemDeadline(patience), [call = call_](bool expired) {
    if (expired) call->Cancel();
  });
}

CallTimer::~CallTimer() { call_->LetGo(); }

}  // namespace millrace
