// One thread that does things in turn.
#ifndef MILLRACE_TESTING_CHAOS_PROXY_EVENT_LOOP_H_
#define MILLRACE_TESTING_CHAOS_PROXY_EVENT_LOOP_H_

#include <functional>
#include <map>
#include <thread>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"

namespace millrace::chaos {

// Thread-safe. Things may be posted by things.
class EventLoop {
 public:
  EventLoop();

  // Does what is due, and forgets the rest.
  ~EventLoop();

  // Does `thing` when it is `when` or soon after; what is due at the same time in the order of the
  // calls. Does not block.
  void PostAt(absl::Time when, std::function<void()> thing) ABSL_LOCKS_EXCLUDED(mutex_);
  void Post(std::function<void()> thing) { PostAt(absl::InfinitePast(), std::move(thing)); }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  Clock* const clock_ = Clock::Real();
  Mutex mutex_;
  CondVar changed_;
  std::multimap<absl::Time, std::function<void()>> things_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace millrace::chaos

#endif  // MILLRACE_TESTING_CHAOS_PROXY_EVENT_LOOP_H_
