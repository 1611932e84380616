// For tests that wait for what nobody tells them.
#ifndef MILLRACE_TESTING_SPIN_SPIN_UNTIL_H_
#define MILLRACE_TESTING_SPIN_SPIN_UNTIL_H_

#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "glog/logging.h"

namespace millrace {

// Blocks until `done()`, which is called again and again. A wait of more than a minute ends the
// test: "a minute has passed without WHAT".
template <typename Done>
void SpinUntil(absl::string_view what, const Done& done) {
  const absl::Time deadline = Clock::Real()->Now() + absl::Minutes(1);
  while (!done()) {
    CHECK(Clock::Real()->Now() < deadline) << "a minute has passed without " << what;
    std::this_thread::yield();
  }
}

}  // namespace millrace

#endif  // MILLRACE_TESTING_SPIN_SPIN_UNTIL_H_
