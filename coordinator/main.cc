// The coordinator binary.
#include <cstdlib>
#include <iostream>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/net/channel.h"
#include "common/net/tls.h"
#include "common/printable.h"
#include "common/process.h"
#include "common/version.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_flags.h"
#include "glog/logging.h"

namespace {

// From when its jobs' checkpoints are written. A directory that does not answer, or gRPC after a
// lack of threads, would hold it up for ever.
constexpr absl::Duration kLongestEnd = absl::Seconds(30);

int Fail(const absl::Status& status) {
  std::cerr << "coordinator: " << millrace::Printable(status.message()) << std::endl;
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using millrace::coordinator::Coordinator;
  millrace::OpenStandardStreams();
  millrace::ConfigureGrpcEnvironment();
  millrace::InitProcess(argv[0]);
  millrace::coordinator::CoordinatorOptions options;
  const absl::optional<int> exit_status =
      millrace::coordinator::ParseCoordinatorFlags(argc, argv, std::getenv("TF_CONFIG"), &options);
  if (exit_status.has_value()) return *exit_status;
  LOG(INFO) << millrace::VersionText("coordinator");

  millrace::StopSignal stop;  // Before there are threads.
  const absl::Status tls = millrace::SecureConnections(options.tls);
  if (!tls.ok()) return Fail(tls);
  auto coordinator = Coordinator::Start(options);
  if (!coordinator.ok()) return Fail(coordinator.status());
  LOG(INFO) << "the coordinator serves on " << (*coordinator)->address();
  stop.Wait();
  LOG(INFO) << "the coordinator stops";
  millrace::StopSignal::LimitStopping(options.stop_timeout + kLongestEnd);
  (*coordinator)->StopInOrder();
  return 0;
}
