// Threads where the system may have none left.
#ifndef MILLRACE_COMMON_START_THREAD_H_
#define MILLRACE_COMMON_START_THREAD_H_

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace millrace {

// RESOURCE_EXHAUSTED: the system has none left; then `run` is not called.
inline absl::StatusOr<std::thread> StartThread(std::function<void()> run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("none can be started: ", error.what()));
  }
}

// StartThread, or what a test puts in its place. Thread-safe.
using ThreadStarter = std::function<absl::StatusOr<std::thread>(std::function<void()> run)>;

}  // namespace millrace

#endif  // MILLRACE_COMMON_START_THREAD_H_
