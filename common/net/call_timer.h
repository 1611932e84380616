// Ends a call on a server whose request does not come, so that it does not hold a thread for ever.
#ifndef MILLRACE_COMMON_NET_CALL_TIMER_H_
#define MILLRACE_COMMON_NET_CALL_TIMER_H_

#include <memory>

#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"

namespace millrace {

// Cancels the call of `context` after `patience`, unless it is destroyed before. A read that waits
// then fails, and the client gets CANCELLED. `context` must outlive the timer.
class CallTimer {
 public:
  CallTimer(grpc::ServerContext* context, absl::Duration patience);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  class Call;

  const std::shared_ptr<Call> call_;
  grpc::Alarm alarm_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_NET_CALL_TIMER_H_
