#include "worker/worker_main.h"

#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/net/channel.h"
#include "common/net/tls.h"
#include "common/printable.h"
#include "common/process.h"
#include "common/version.h"
#include "glog/logging.h"
#include "worker/worker.h"
#include "worker/worker_flags.h"

namespace millrace::worker {
namespace {

// For the steps under way, which cannot be broken off: others compute them again.
constexpr absl::Duration kLongestEnd = absl::Minutes(1);

// The leases are given back, and the worker has left. What is still to be done is of the process,
// whose threads and exit handlers may wait for the device for ever.
[[noreturn]] void EndWithoutDevice(const absl::Status& why) {
  LOG(ERROR) << Printable(why.message());
  EndProcess(1);
}

int Fail(const absl::Status& status, int exit_status) {
  std::cerr << "worker: " << Printable(status.message()) << std::endl;
  return exit_status;
}

// `options`: its models are set.
int Main(int argc, char** argv, WorkerOptions options) {
  OpenStandardStreams();
  ConfigureGrpcEnvironment();
  InitProcess(argv[0]);
  const absl::optional<int> exit_status =
      ParseWorkerFlags(argc, argv, std::getenv("TF_CONFIG"), &options);
  if (exit_status.has_value()) return *exit_status;
  LOG(INFO) << VersionText("worker");
  return RunWorker(options);
}

}  // namespace

int RunWorker(const WorkerOptions& options) {
  StopSignal stop;  // Before there are threads of it.
  if (const absl::Status tls = SecureConnections(options.tls); !tls.ok()) return Fail(tls, 1);
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options);
  if (!worker.ok()) {
    Fail(worker.status(), 2);
    if (absl::IsDeadlineExceeded(worker.status())) EndProcess(2);  // As above.
    return 2;
  }
  std::thread watch([&worker, &stop] {
    const absl::Status end = (*worker)->Wait();
    if (absl::IsUnavailable(end)) EndWithoutDevice(end);
    stop.RequestStop();
  });
  stop.Wait();
  LOG(INFO) << options.name << " stops";
  StopSignal::LimitStopping(kLongestEnd);
  (*worker)->Stop();
  watch.join();
  const absl::Status end = (*worker)->Wait();
  if (end.ok()) return 0;
  LOG(ERROR) << Printable(end.message());
  return 1;
}

int WorkerMain(int argc, char** argv, ModelFactory factory) {
  WorkerOptions options;
  options.model_factory = std::move(factory);
  return Main(argc, argv, std::move(options));
}

int WorkerMain(int argc, char** argv, std::vector<OwnModel> own_models) {
  WorkerOptions options;
  options.own_models = std::move(own_models);
  return Main(argc, argv, std::move(options));
}

}  // namespace millrace::worker
