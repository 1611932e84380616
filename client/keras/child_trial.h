// Work that a library may not survive. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_CHILD_TRIAL_H_
#define MILLRACE_CLIENT_KERAS_CHILD_TRIAL_H_

#include <functional>

#include "absl/status/status.h"

namespace millrace::client {

// Runs `work` in a child process, of which nothing comes back, and waits for it: a minute at most,
// or as many as `minutes`. The child ends with the calling thread. INVALID_ARGUMENT: it crashed, or
// took longer; UNAVAILABLE: there is no child. `work` may use what no other thread of this process
// uses.
absl::Status TryInChild(const std::function<void()>& work, unsigned minutes = 1);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_CHILD_TRIAL_H_
