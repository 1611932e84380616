#include "client/arrivals.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::client {

void Arrivals::Expect(const std::string& name) {
  MutexLock lock(&mutex_);
  missing_.insert(name);
}

void Arrivals::Joined(const std::string& name) {
  MutexLock lock(&mutex_);
  missing_.erase(name);
  changed_.SignalAll();
}

void Arrivals::Ended(const std::string& name, const absl::Status& why) {
  MutexLock lock(&mutex_);
  missing_.erase(name);
  refusal_.Update(why);
  changed_.SignalAll();
}

absl::Status Arrivals::AwaitAll(absl::Time deadline) {
  MutexLock lock(&mutex_);
  bool late = false;
  while (refusal_.ok() && !missing_.empty() && !late) {
    late = clock_->WaitUntil(&changed_, &mutex_, deadline);
  }
  if (!refusal_.ok() || missing_.empty()) return refusal_;
  return absl::DeadlineExceededError(absl::StrCat(
      "the coordinator of this process has not welcomed ", absl::StrJoin(missing_, ", ")));
}

}  // namespace millrace::client
