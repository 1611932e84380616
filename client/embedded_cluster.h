// A whole cluster in this process: a coordinator, ps servers and workers. They listen on loopback;
// values and gradients pass between workers and ps servers without a socket.
#ifndef MILLRACE_CLIENT_EMBEDDED_CLUSTER_H_
#define MILLRACE_CLIENT_EMBEDDED_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/devices.h"
#include "worker/model/model.h"
#include "worker/model/own_models.h"

namespace millrace::client {

struct EmbeddedClusterOptions {
  int ps = 1;       // At least 1.
  int workers = 2;  // At least 1.
  // Keeps the cluster's state, so that a later one with it finds the jobs and goes on with them;
  // made if it is not there. Empty: a temporary directory, removed at the end.
  std::string state_dir = {};
  // As in WorkerOptions.
  std::string device = "auto";
  bool deterministic = true;
  absl::Duration device_timeout = worker::kDefaultDeviceTimeout;
  worker::ModelFactory model_factory = nullptr;
  std::vector<worker::OwnModel> own_models = {};
  worker::CudaLoader load_cuda = nullptr;
  // Told once, with the reason, when the last worker has lost its device: nobody computes any more.
  // Called by a thread of the cluster, which waits for it at its end. May be empty.
  std::function<void(const absl::Status& why)> on_no_worker = nullptr;
};

// Thread-safe.
class EmbeddedCluster {
 public:
  // Blocks until the coordinator has welcomed all workers, so that a job which none of them can
  // take is refused when it is submitted; ps servers may still be about to register.
  // INVALID_ARGUMENT: an option is wrong, or the coordinator refuses a worker. UNAVAILABLE: the
  // device cannot be used. DEADLINE_EXCEEDED: workers have not joined within 2 minutes, and which.
  // Others: a directory cannot be made or is in use, with its name.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(
      const EmbeddedClusterOptions& options);

  // Has jobs that train write their checkpoints, stops the coordinator, the workers, and the ps
  // servers (whose shards are flushed), and removes the temporary directory. Blocks until that is
  // done: seconds. Where a worker hangs in its device (Worker::hangs) it then ends the process,
  // with exit code 1.
  virtual ~EmbeddedCluster() = default;

  // The coordinator's HOST:PORT.
  virtual const std::string& address() const = 0;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_EMBEDDED_CLUSTER_H_
