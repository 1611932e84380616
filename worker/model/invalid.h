// What is wrong with a model, in words.
#ifndef MILLRACE_WORKER_MODEL_INVALID_H_
#define MILLRACE_WORKER_MODEL_INVALID_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace::worker {

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// "model.layers[2] 'dense'".
inline std::string LayerPath(size_t index, absl::string_view name) {
  return absl::StrCat("model.layers[", index, "] '", name, "'");
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_INVALID_H_
