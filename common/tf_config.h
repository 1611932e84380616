// TF_CONFIG: the environment variable in which TensorFlow's tools describe a cluster.
#ifndef MILLRACE_COMMON_TF_CONFIG_H_
#define MILLRACE_COMMON_TF_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A value type.
struct TfConfig {
  // kNone: the cluster is described, but this process is no task in it (a client).
  enum class Task { kNone, kCoordinator, kPs, kWorker };

  // Each HOST:PORT. TensorFlow's "chief" is the coordinator.
  std::string coordinator;
  std::vector<std::string> ps;
  std::vector<std::string> workers;

  Task task = Task::kNone;
  int index = 0;  // Among the tasks of its kind.
};

// Parses a cluster and a task, as in
//   {"cluster": {"chief": ["HOST:PORT"], "ps": [...], "worker": [...]},
//    "task": {"type": "ps", "index": 0}}
// "master" is an old name of "chief". The index may be a string of digits. Whatever else stands
// there ("evaluator" addresses, "environment") is ignored.
// INVALID_ARGUMENT: "TF_CONFIG.task.index: 7; the cluster has 2 ps", or where the text is no JSON.
absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json);

// INVALID_ARGUMENT where the task is another than `wanted`; the message has both.
absl::Status CheckTask(const TfConfig& config, TfConfig::Task wanted);

}  // namespace millrace

#endif  // MILLRACE_COMMON_TF_CONFIG_H_
