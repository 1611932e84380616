// The ps binary.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/types/optional.h"
#include "common/mutex.h"
#include "common/net/channel.h"
#include "common/net/tls.h"
#include "common/printable.h"
#include "common/process.h"
#include "common/version.h"
#include "glog/logging.h"
#include "ps/ps_flags.h"
#include "ps/ps_server.h"

namespace millrace::ps {
namespace {

constexpr int kFailed = 1;
int Fail(const absl::Status& status) {
  std::cerr << "ps: " << Printable(status.message()) << std::endl;
  return kFailed;
}

int Serve(PsServerOptions options) {
  StopSignal stop;
  ConfigureGrpcEnvironment();
  if (const absl::Status tls = SecureConnections(options.tls); !tls.ok()) return Fail(tls);
  absl::Status rejected;
  Mutex mutex;
  options.on_rejected = [&](const absl::Status& status) {
    {
      MutexLock lock(&mutex);
      rejected = status;
    }
    stop.RequestStop();
  };
  absl::StatusOr<std::unique_ptr<PsServer>> server = PsServer::Start(options);
  if (!server.ok()) return Fail(server.status());
  LOG(INFO) << options.name << " serves on " << (*server)->address() << " with data in "
            << options.data_dir << ", coordinator " << options.coordinator_address;
  stop.Wait();
  LOG(INFO) << options.name << " stops";
  // What it could not stop may not end either.
  if (const absl::Status status = (*server)->Stop(); !status.ok()) EndProcess(Fail(status));
  MutexLock lock(&mutex);
  return rejected.ok() ? EXIT_SUCCESS : Fail(rejected);
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  InitProcess(argv[0]);
  PsServerOptions options;
  const absl::optional<int> exit_status =
      ParsePsFlags(argc, argv, std::getenv("TF_CONFIG"), &options);
  if (exit_status.has_value()) return *exit_status;
  LOG(INFO) << VersionText("ps");
  return Serve(std::move(options));
}

}  // namespace
}  // namespace millrace::ps

int main(int argc, char** argv) { return millrace::ps::Main(argc, argv); }
