// Threads that run out are an error like others: the process goes on, and so do its other jobs.
#ifndef MILLRACE_WORKER_START_JOB_THREAD_H_
#define MILLRACE_WORKER_START_JOB_THREAD_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/start_thread.h"

namespace millrace::worker {

// RESOURCE_EXHAUSTED: the system has none left; `what` says what the thread was for.
inline absl::StatusOr<std::thread> StartJobThread(absl::string_view what,
                                                  const ThreadStarter& start_thread,
                                                  std::function<void()> run) {
  absl::StatusOr<std::thread> thread = start_thread(std::move(run));
  if (thread.ok()) return thread;
  return absl::Status(thread.status().code(),
                      absl::StrCat("this worker's system has no thread left for ", what, " (",
                                   thread.status().message(), ")"));
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_START_JOB_THREAD_H_
