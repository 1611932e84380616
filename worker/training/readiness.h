// When a worker tries to get ready for a job, and what its coordinator is told of that.
#ifndef MILLRACE_WORKER_TRAINING_READINESS_H_
#define MILLRACE_WORKER_TRAINING_READINESS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/retry.h"

namespace millrace::worker {

// Every route is answered by an attempt. One that fails is repeated, first after a second, then
// after twice as long and so on up to 30 s; the coordinator is told again when what it was told is
// no longer so. A value type; not thread-safe.
class Readiness {
 public:
  // A route has come, which is owed an answer.
  void Ask();

  // What the answer rested on has changed: the route is owed another one, unless its session is
  // over.
  void AskAgain();

  // The session that the route came in is over: nobody is told anything until the next Ask.
  void Hush();

  // Whether an attempt is due; otherwise when one will be by itself.
  bool Due(absl::Time now) const { return asked_ || WaitsUntil() <= now; }
  absl::Time WaitsUntil() const;

  // An attempt begins.
  void Begin();

  // It has ended so. Returns whether the coordinator is to be told.
  bool Conclude(const absl::Status& status, absl::Time now);

  // How the last attempt ended.
  const absl::Status& status() const { return status_; }

 private:
  bool routed_ = false;     // Somebody wants to know.
  bool asked_ = false;      // A route awaits an attempt.
  bool answering_ = false;  // The attempt under way answers a route.
  absl::Status status_ = absl::UnavailableError("the job is being opened");
  absl::Time retry_at_ = absl::InfiniteFuture();
  Backoff backoff_{absl::Seconds(1), absl::Seconds(30)};
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_TRAINING_READINESS_H_
