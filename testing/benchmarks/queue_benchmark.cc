// Measures many short jobs from their submission to the end of the last one: real processes of a
// coordinator, a ps server and workers.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job_state.h"
#include "common/net/channel.h"
#include "glog/logging.h"
#include "protos/job.grpc.pb.h"
#include "testing/benchmarks/cluster_process.h"

namespace millrace::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(10);
constexpr absl::Duration kPoll = absl::Milliseconds(250);

struct Options {
  std::string coordinator;
  std::string ps;
  std::string worker;
  int jobs = 1000;
  int workers = 2;
};

JobSpec OneStepJob(const std::string& directory) {
  JobSpec spec;
  spec.set_name("short");
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(1);
  spec.mutable_model()->set_loss(BINARY_CROSSENTROPY);
  LibsvmFile& train = *spec.mutable_data()->mutable_train()->mutable_libsvm();
  train.set_file("train.libsvm");
  train.set_features(3);
  spec.mutable_data()->set_directory(directory);
  spec.mutable_optimizer()->mutable_sgd();
  spec.set_batch_size(4);
  spec.set_steps(1);
  return spec;
}

class Client {
 public:
  explicit Client(const std::string& address)
      : channel_(CreateChannel(address)), stub_(Jobs::NewStub(channel_)) {}

  void AwaitServer() {
    CHECK(channel_->WaitForConnected(SystemDeadline(kPatience))) << "no coordinator";
  }

  // Not OK while the cluster starts.
  grpc::Status Submit(const JobSpec& spec) {
    grpc::ClientContext context;
    context.set_deadline(SystemDeadline(kPatience));
    SubmitJobRequest request;
    *request.mutable_spec() = spec;
    SubmitJobResponse response;
    return stub_->SubmitJob(&context, request, &response);
  }

  std::map<JobState, int> CountStates() {
    grpc::ClientContext context;
    context.set_deadline(SystemDeadline(kPatience));
    ListJobsResponse response;
    const grpc::Status status = stub_->ListJobs(&context, ListJobsRequest(), &response);
    CHECK(status.ok()) << status.error_message();
    std::map<JobState, int> states;
    for (const JobStatus& job : response.jobs()) ++states[job.state()];
    return states;
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Jobs::Stub> stub_;
};

void AwaitAll(Client& client, int jobs) {
  const absl::Time deadline = Clock::Real()->Now() + kPatience;
  for (;;) {
    const std::map<JobState, int> states = client.CountStates();
    int ended = 0;
    for (const auto& [state, count] : states) ended += HasEnded(state) ? count : 0;
    if (ended >= jobs) return;
    CHECK(Clock::Real()->Now() < deadline) << ended << " of " << jobs << " have ended";
    absl::SleepFor(kPoll);
  }
}

void Measure(const Options& options) {
  const std::string directory = FreshDirectory("queue-benchmark");
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/train.libsvm") << "0 1:1\n1 2:1\n0 3:1\n1 1:1 3:1\n";
  const std::string address = FreeLoopbackAddress();
  std::vector<std::unique_ptr<ClusterProcess>> processes;
  const auto start = [&](std::vector<std::string> arguments) {
    processes.push_back(std::make_unique<ClusterProcess>(std::move(arguments)));
  };
  start({options.coordinator, "--listen=" + address, "--data_dir=" + directory + "/coordinator"});
  start({options.ps, "--coordinator=" + address, "--listen=127.0.0.1:0", "--name=ps-0",
         "--data_dir=" + directory + "/ps-0"});
  for (int i = 0; i < options.workers; ++i) {
    start({options.worker, "--coordinator=" + address, absl::StrCat("--name=worker-", i)});
  }
  Client client(address);
  client.AwaitServer();
  const JobSpec spec = OneStepJob(directory);
  CHECK(client.Submit(spec).ok());
  AwaitAll(client, 1);  // Everybody is there.
  const absl::Time begin = Clock::Real()->Now();
  for (int i = 0; i < options.jobs; ++i) {
    const grpc::Status status = client.Submit(spec);
    CHECK(status.ok()) << status.error_message();
  }
  const absl::Duration submitted = Clock::Real()->Now() - begin;
  AwaitAll(client, options.jobs + 1);
  const absl::Duration ended = Clock::Real()->Now() - begin;
  absl::PrintF("%d one-step jobs: taken after %.1f s, all ended after %.1f s (%.1f jobs/s)\n",
               options.jobs, absl::ToDoubleSeconds(submitted), absl::ToDoubleSeconds(ended),
               options.jobs / absl::ToDoubleSeconds(ended));
  for (const auto& [state, count] : client.CountStates()) {
    absl::PrintF("  %s: %d\n", JobState_Name(state), count);
  }
  processes.clear();
  std::filesystem::remove_all(directory);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures many short jobs.");
  Options options;
  app.add_option("coordinator", options.coordinator, "The coordinator binary")->required();
  app.add_option("ps", options.ps, "The ps binary")->required();
  app.add_option("worker", options.worker, "The worker binary")->required();
  app.add_option("--jobs", options.jobs, "Jobs of one step")->check(CLI::Range(1, 100000));
  app.add_option("--workers", options.workers, "Workers")->check(CLI::Range(1, 64));
  CLI11_PARSE(app, argc, argv);
  Measure(options);
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  millrace::ConfigureGrpcEnvironment();
  google::InitGoogleLogging(argv[0]);
  return millrace::testing::Main(argc, argv);
}
