// File work that may hang, as on a network's disk, without hanging who waits for it.
#ifndef MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_
#define MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::coordinator {

// Thread-safe.
class PatientCaller {
 public:
  // Of calls that nobody waits for any more; as long as there are so many, no further one is made.
  static constexpr int kMostHanging = 16;

  explicit PatientCaller(absl::Duration patience = absl::Seconds(30)) : patience_(patience) {}

  // What `call` returns, which runs on a thread of its own and must own all that it uses.
  // UNAVAILABLE: it takes longer than the patience (it goes on; `what` names what it works on), or
  // too many hang; CANCELLED: `cancelled` returned true, which is asked about once a second.
  template <typename T>
  absl::StatusOr<T> Call(const std::string& what, std::function<absl::StatusOr<T>()> call,
                         const std::function<bool()>& cancelled) const {
    struct Answer {
      Mutex mutex;
      CondVar done;
      absl::optional<absl::StatusOr<T>> value ABSL_GUARDED_BY(mutex);
    };
    if (!Begin()) {
      return absl::UnavailableError(absl::StrCat(what, ": earlier reads of files still hang"));
    }
    auto answer = std::make_shared<Answer>();
    std::thread([answer, call = std::move(call), hanging = hanging_] {
      absl::StatusOr<T> value = call();
      {
        MutexLock lock(&hanging->mutex);
        --hanging->calls;
      }
      MutexLock lock(&answer->mutex);
      answer->value = std::move(value);
      answer->done.SignalAll();
    }).detach();
    const absl::Time deadline = Clock::Real()->Now() + patience_;
    for (;;) {
      {
        MutexLock lock(&answer->mutex);
        const absl::Time until = std::min(deadline, Clock::Real()->Now() + absl::Seconds(1));
        while (!answer->value && !Clock::Real()->WaitUntil(&answer->done, &answer->mutex, until)) {
        }
        if (answer->value) return *std::move(answer->value);
      }
      if (cancelled()) return absl::CancelledError("cancelled");
      if (Clock::Real()->Now() < deadline) continue;
      return absl::UnavailableError(
          absl::StrCat(what, ": no answer from the disk within ", absl::FormatDuration(patience_)));
    }
  }

 private:
  struct Hanging {
    Mutex mutex;
    int calls ABSL_GUARDED_BY(mutex) = 0;
  };

  bool Begin() const {
    MutexLock lock(&hanging_->mutex);
    if (hanging_->calls >= kMostHanging) return false;
    ++hanging_->calls;
    return true;
  }

  const absl::Duration patience_;
  const std::shared_ptr<Hanging> hanging_ = std::make_shared<Hanging>();
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_CHECKPOINT_PATIENT_CALL_H_
