// Trains a job with one worker on the emulated GPU, slowly: what a precision does to accuracy can
// be seen without a GPU.
//
//   emulated_train JOB_FILE DATA_DIR [FIELD=VALUE ...]
//
// Prints what the last evaluation found. Exit code 1: the job could not be trained; 2: wrong usage.
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/embedded_cluster.h"
#include "client/jobs_client.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/library_version.h"

namespace millrace {
namespace {

absl::StatusOr<JobSpec> ReadJob(int argc, char** argv) {
  std::ifstream file(argv[1]);
  if (!file) return absl::NotFoundError(std::string(argv[1]) + ": cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  MILLRACE_ASSIGN_OR_RETURN(JobSpec spec, ParseJobSpec(text.str(), argv[1]));
  spec.mutable_data()->set_directory(argv[2]);
  for (int i = 3; i < argc; ++i) MILLRACE_RETURN_IF_ERROR(SetField(argv[i], &spec));
  return spec;
}

absl::StatusOr<JobStatus> Train(const JobSpec& spec) {
  client::EmbeddedClusterOptions options;
  options.workers = 1;
  options.device = "cuda";
  options.load_cuda = [] { return MillraceCudaLibrary(cuda::kLibraryVersion); };
  MILLRACE_ASSIGN_OR_RETURN(const auto cluster, client::EmbeddedCluster::Start(options));
  MILLRACE_ASSIGN_OR_RETURN(const auto client,
                            client::JobsClient::Create({.address = cluster->address()}));
  MILLRACE_ASSIGN_OR_RETURN(const std::string job_id, client->Submit(spec));
  MILLRACE_RETURN_IF_ERROR(client->Watch(job_id, 0, [](const JobEvent&) {}));
  return client->Get(job_id);
}

int Run(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: emulated_train JOB_FILE DATA_DIR [FIELD=VALUE ...]\n";
    return 2;
  }
  const absl::StatusOr<JobSpec> spec = ReadJob(argc, argv);
  const absl::StatusOr<JobStatus> status = spec.ok() ? Train(*spec) : spec.status();
  if (!status.ok()) {
    std::cerr << "emulated_train: " << status.status().message() << "\n";
    return 1;
  }
  std::cout << status->DebugString();
  return status->state() == SUCCEEDED ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Run(argc, argv); }
