// Where a set's files are, and whether somebody still waits for them to be read.
#ifndef MILLRACE_WORKER_INPUT_DATA_DIRECTORY_H_
#define MILLRACE_WORKER_INPUT_DATA_DIRECTORY_H_

#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace millrace::worker {

// CANCELLED: somebody wants that no more is read. Costs as much as reading a variable.
inline absl::Status CheckWanted(const std::stop_token& stop) {
  if (!stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError("the data are not wanted any more");
}

// Files are large, and reading them takes minutes: whoever opens a set can be told from another
// thread that nobody wants it any more. A value type.
struct DataDirectory {
  // NOLINTNEXTLINE(google-explicit-constructor): most have a path alone, whose reading never stops.
  DataDirectory(std::string its_path, std::stop_token its_stop = {})
      : path(std::move(its_path)), stop(std::move(its_stop)) {}

  std::string path;  // Empty: the job has none, and all its files have absolute names.
  std::stop_token stop;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_DATA_DIRECTORY_H_
