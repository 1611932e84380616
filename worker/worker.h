// A worker: registers with a coordinator, computes the steps that it is leased and pushes their
// gradients to the ps servers. It holds no state that matters.
//
// A worker binary with models of its own needs no more than worker_main.h and own_models.h; see
// docs/own_workers.md and examples/own_worker.
#ifndef MILLRACE_WORKER_WORKER_H_
#define MILLRACE_WORKER_WORKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/net/tls.h"
#include "worker/devices.h"
#include "worker/input/dataset.h"
#include "worker/model/model.h"
#include "worker/model/own_models.h"
#include "worker/training/seams.h"

namespace millrace::worker {

inline constexpr int kMaxLeaseSlots = 64;
// More than any machine has use for; without a limit, a slip of the hand would end the process in
// the middle of a job, when the threads cannot be had.
inline constexpr int kMaxThreads = 1024;

struct WorkerOptions {
  // Unique among the live workers of the cluster; names this one in messages.
  std::string name = "worker-0";
  // HOST:PORT.
  std::string coordinator_address;
  // For RunWorker, which tells SecureConnections.
  TlsOptions tls = {};
  // Leases taken at a time: one that is computed, and more to prefetch for. 1 to
  // kMaxLeaseSlots.
  int lease_slots = 2;
  // What models are compiled for: see OpenDevice (devices.h).
  std::string device = "auto";
  // Threads that a model computes with. 1 to kMaxThreads. Workers with other numbers of threads
  // may round otherwise.
  int threads = 1;
  // On a GPU equal values give equal bits. False: its sums are made in any order where that is
  // faster. On the CPU they have one order in any case.
  bool deterministic = true;
  // How long a GPU may take for a step, or a call of CUDA to return; after that it is lost.
  // kLeastDeviceTimeout to kMostDeviceTimeout. Making a model and giving it back may take
  // kLeastMakingTimeout in any case.
  absl::Duration device_timeout = kDefaultDeviceTimeout;
  // How long its calls may take to return once it is lost; the worker leaves without those threads.
  absl::Duration last_calls = absl::Seconds(10);
  // Workers of one process share it, so that all know of a GPU's loss. Null: this one has its own.
  std::shared_ptr<SharedGpus> shared_gpus = nullptr;
  // Makes the model of every job, whatever its ModelSpec says. Empty: the one of `own_models` that
  // its `custom` names, or its layers, on `device`.
  ModelFactory model_factory;
  // Not with a model_factory.
  std::vector<OwnModel> own_models;
  // A set of examples whose files have more bytes stays in them, where its format can: see
  // OpenDataset. At most MemoryLimit().
  uint64_t data_memory = DefaultDataMemory();
  // How long a pull or a push may wait for ps servers before the lease is given back.
  absl::Duration step_timeout = absl::Minutes(10);
  // A request to a ps server of which nothing has come for this long is made again; see
  // ParameterClientOptions.
  absl::Duration call_timeout = absl::Seconds(10);
  // Measures deadlines, heartbeats and back-off. Must outlive the worker.
  Clock* clock = Clock::Real();
  // Opens data sets and connections to ps servers. Empty: the real ones.
  DatasetOpener open_dataset;
  ParameterClientFactory parameter_client_factory;
  // Finds the CUDA library. Empty: the one of this installation.
  CudaLoader load_cuda;
  // Told each time that the coordinator has welcomed the worker, by a thread of it; must not block.
  // May be empty.
  std::function<void()> on_welcomed;
};

// Thread-safe.
class Worker {
 public:
  // Starts a worker in threads of its own; returns without waiting for the coordinator, which is
  // dialled for as long as it takes. INVALID_ARGUMENT: an option is wrong; the message names it.
  // UNAVAILABLE: the device that `device` names cannot be used, and why.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options);

  // Stops if that was not done.
  virtual ~Worker() = default;

  // Tells the coordinator, finishes the step under way, gives the leases back (those that are not
  // begun at once) and leaves the cluster. Blocks until that is done: as long as a batch takes (or
  // data that is being opened); a pull is called off at once, a push whose ps servers do not answer
  // after 5 s. A coordinator that does not answer is given 1 s. One whose device is lost takes
  // `last_calls` at most. Idempotent.
  virtual void Stop() = 0;

  // Blocks until the worker has ended: OK after Stop; INVALID_ARGUMENT when the coordinator refused
  // its registration, with the reason; UNAVAILABLE when its device was lost, with what it said.
  virtual absl::Status Wait() = 0;

  // Threads of it are in calls of a lost device that have not returned within `last_calls`, and the
  // worker has left without them. Its destructor does not return: a process with such a worker is
  // ended by EndProcess (common/process.h).
  virtual bool hangs() const = 0;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_WORKER_H_
