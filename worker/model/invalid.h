// What is wrong with a model, in words.
#ifndef MILLRACE_WORKER_MODEL_INVALID_H_
#define MILLRACE_WORKER_MODEL_INVALID_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::worker {

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_INVALID_H_
