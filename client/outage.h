// How long and how often to try again while a coordinator cannot be reached, or cannot do as asked.
#ifndef MILLRACE_CLIENT_OUTAGE_H_
#define MILLRACE_CLIENT_OUTAGE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/retry.h"

namespace millrace::client {

// Who says that an attempt has failed.
enum class FailedBy {
  kConnection,   // Nobody answers.
  kCoordinator,  // It does: it cannot do as asked for now, and its message says why.
};

struct OutageOptions {
  // The coordinator's HOST:PORT, and the call that it should answer; for messages.
  std::string address;
  std::string what;
  // How long to try, from the construction or from the first failure after Over().
  absl::Duration patience = absl::Seconds(30);
  // Told once for each outage and for each who says so; may be empty.
  std::function<void(const std::string&)> on_wait = nullptr;
  Clock* clock = Clock::Real();
};

// Not thread-safe.
class Outage {
 public:
  explicit Outage(OutageOptions options);

  // Time left to try. Infinite between Over() and the next failure.
  absl::Duration remaining() const;

  // After a failed attempt: when to make the next one. UNAVAILABLE: see GiveUp.
  absl::StatusOr<absl::Time> NextAttempt(const absl::Status& error, FailedBy by);

  // The final error: names the coordinator, how long it was tried, the last error and, where there
  // was no answer, what to check.
  absl::Status GiveUp(const absl::Status& last_error, FailedBy by) const;

  // The coordinator has answered: the next failure is a new outage, with all the patience.
  void Over();

 private:
  OutageOptions options_;
  absl::Time deadline_;
  Backoff backoff_;
  absl::optional<FailedBy> told_;  // The newest that was told.
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_OUTAGE_H_
