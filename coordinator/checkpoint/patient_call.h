// File work that may hang, as on a network's disk, without hanging who waits for it.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "coordinator/checkpoint/background_call.h"

namespace millrace::coordinator {

// Thread-safe.
class PatientCaller {
 public:
  // As long as so many calls are under way, most of which nobody waits for any more, no further one
  // is made.
  static constexpr int kMostUnderWay = 64;

  explicit PatientCaller(absl::Duration patience = absl::Seconds(30)) : patience_(patience) {}

  // What `call` returns, which runs on a thread of its own and must own all that it uses.
  // UNAVAILABLE: it takes longer than the patience (it goes on; `what` names what it works on), or
  // too many are under way; CANCELLED: `cancelled` returned true, which is asked once a second.
  template <typename T>
  absl::StatusOr<T> Call(const std::string& what, std::function<absl::StatusOr<T>()> call,
                         const std::function<bool()>& cancelled) const {
    if (*under_way_ >= kMostUnderWay) {
      return absl::UnavailableError(absl::StrCat(what, ": earlier reads of files hang"));
    }
    ++*under_way_;
    auto answer = std::make_shared<absl::StatusOr<T>>();
    const BackgroundCall background([answer, call = std::move(call), under_way = under_way_] {
      *answer = call();
      --*under_way;
    });
    const absl::Time deadline = Clock::Real()->Now() + patience_;
    for (;;) {
      const absl::Duration left = deadline - Clock::Real()->Now();
      if (background.AwaitFor(std::min(left, absl::Seconds(1)))) return *std::move(answer);
      if (cancelled()) return absl::CancelledError("cancelled");
      if (left > absl::ZeroDuration()) continue;
      return absl::UnavailableError(
          absl::StrCat(what, ": no answer from the disk within ", absl::FormatDuration(patience_)));
    }
  }

 private:
  const absl::Duration patience_;
  const std::shared_ptr<std::atomic<int>> under_way_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_
