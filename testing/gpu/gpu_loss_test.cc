// What becomes of workers, jobs and processes whose GPU is lost or hangs, on the emulation.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "client/commands/train.h"
#include "client/embedded_cluster.h"
#include "client/jobs_client.h"
#include "client/testing/run_command.h"
#include "client/testing/small_job.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/library_version.h"
#include "worker/worker.h"
#include "worker/worker_main.h"

namespace millrace {
namespace {

using ::millrace::testing::CommandRun;
using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::millrace::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

// So many that every worker of the cluster computes some; and so many that it does not end.
constexpr uint64_t kManySteps = 5000;
constexpr uint64_t kEndless = uint64_t{1} << 40;
// Far more than any call takes that returns.
constexpr absl::Duration kTimeout = absl::Seconds(2);
constexpr char kNotFinished[] = "cuda:0: has not finished a step within 2 s";

absl::StatusOr<cuda::Library*> EmulatedLibrary() {
  return MillraceCudaLibrary(cuda::kLibraryVersion);
}

JobSpec LongSpec(uint64_t steps = kManySteps) {
  JobSpec spec = *ParseJobSpec(SmallJob(), "small.textproto");
  spec.mutable_data()->set_directory(SmallData());
  spec.clear_epochs();
  spec.set_steps(steps);
  return spec;
}

worker::WorkerOptions GpuWorker(const std::string& coordinator) {
  worker::WorkerOptions options;
  options.name = "gpu-worker";
  options.coordinator_address = coordinator;
  options.device = "cuda:0";
  options.device_timeout = kTimeout;
  options.load_cuda = EmulatedLibrary;
  return options;
}

std::unique_ptr<client::EmbeddedCluster> ClusterWithoutGpu() {
  client::EmbeddedClusterOptions options;
  options.workers = 1;
  options.device = "cpu";
  return *client::EmbeddedCluster::Start(options);
}

class GpuLossTest : public ::testing::Test {
 protected:
  GpuLossTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    cuda_emulation::Reset();
  }
  ~GpuLossTest() override { cuda_emulation::Reset(); }
};

TEST_F(GpuLossTest, TheWorkerOfAGpuThatHangsLeavesAndTheJobGoesOn) {
  const auto cluster = ClusterWithoutGpu();
  const auto client = *client::JobsClient::Create({.address = cluster->address()});
  auto worker = worker::Worker::Start(GpuWorker(cluster->address()));
  ASSERT_TRUE(worker.ok()) << worker.status();
  cuda_emulation::HangKernel(5);
  const auto job_id = client->Submit(LongSpec());
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  EXPECT_EQ((*worker)->Wait(), absl::UnavailableError(kNotFinished));
  EXPECT_FALSE((*worker)->hangs());
  EXPECT_TRUE(client->Watch(*job_id, 0, [](const JobEvent&) {}).ok());
  const auto status = client->Get(*job_id);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state(), SUCCEEDED) << status->message();
  EXPECT_EQ(status->step(), kManySteps);
}

void RunWorkerOfAGpuThatHangs() {
  const auto cluster = ClusterWithoutGpu();
  const auto client = *client::JobsClient::Create({.address = cluster->address()});
  cuda_emulation::HangKernel(5);
  std::thread submits([&] { client->Submit(LongSpec(kEndless)).IgnoreError(); });
  std::exit(worker::RunWorker(GpuWorker(cluster->address())));
}

TEST_F(GpuLossTest, TheProcessOfAWorkerWhoseGpuHangsEnds) {
  EXPECT_EXIT(RunWorkerOfAGpuThatHangs(), ExitedWithCode(1), kNotFinished);
}

// The worker leaves without the thread that is in the call.
void RunWorkerWhoseCallsDoNotReturn() {
  const auto cluster = ClusterWithoutGpu();
  const auto client = *client::JobsClient::Create({.address = cluster->address()});
  cuda_emulation::HangAllocation(1);
  std::thread submits([&] { client->Submit(LongSpec(kEndless)).IgnoreError(); });
  worker::WorkerOptions options = GpuWorker(cluster->address());
  options.shared_gpus = std::make_shared<worker::SharedGpus>(/*least_making_timeout=*/kTimeout);
  options.last_calls = absl::Milliseconds(100);
  std::exit(worker::RunWorker(options));
}

TEST_F(GpuLossTest, TheProcessOfAWorkerWhoseCallsDoNotReturnEnds) {
  EXPECT_EXIT(RunWorkerWhoseCallsDoNotReturn(), ExitedWithCode(1),
              "cuda:0: a call of CUDA that makes a model has not returned within 2 s(.|\n)*"
              "leaves without its threads");
}

class TrainWithoutGpuTest : public GpuLossTest {
 protected:
  TrainWithoutGpuTest() {
    run_.flags().command = "train";
    run_.flags().job_file = WriteFile("job.textproto", SmallJob());
    run_.flags().data = SmallData();
    run_.flags().set = {"epochs=100000000"};
    run_.flags().workers = 2;
    run_.flags().device = "cuda";
    run_.flags().device_timeout = kTimeout;
    run_.load_cuda() = EmulatedLibrary;
  }

  CommandRun run_;
};

// Both workers have the same GPU.
TEST_F(TrainWithoutGpuTest, EndsWhenTheGpuHangs) {
  cuda_emulation::HangKernel(500);
  EXPECT_EQ(*run_.Run(client::RunTrain), client::ExitCode::kFailed);
  EXPECT_THAT(run_.err(), AllOf(HasSubstr(std::string("no worker is left to compute: ") +
                                          kNotFinished + ". Nothing of the job is kept"),
                                HasSubstr("--device=cpu")));
}

TEST_F(TrainWithoutGpuTest, EndsWhenTheGpuIsLost) {
  cuda_emulation::FailKernel(500);
  EXPECT_EQ(*run_.Run(client::RunTrain), client::ExitCode::kFailed);
  EXPECT_THAT(run_.err(), HasSubstr("no worker is left to compute: cuda:0: "));
}

TEST_F(TrainWithoutGpuTest, GoesOnFromACheckpoint) {
  const std::string directory = ::testing::TempDir() + "/lost_gpu";
  std::filesystem::create_directories(directory);
  run_.flags().checkpoints = directory;
  cuda_emulation::FailKernel(500);
  EXPECT_EQ(*run_.Run(client::RunTrain), client::ExitCode::kFailed);
  EXPECT_THAT(run_.err(), HasSubstr("The same command goes on with the job"));
  EXPECT_THAT(run_.out(), HasSubstr("Checkpoint "));
  cuda_emulation::Reset();
  CommandRun again;
  again.flags() = run_.flags();
  again.flags().device = "cpu";
  again.flags().set = {"epochs=1000"};
  EXPECT_EQ(*again.Run(client::RunTrain), client::ExitCode::kSucceeded) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("goes on"));
}

TEST_F(TrainWithoutGpuTest, EndsWhenCallsDoNotReturn) {
  EXPECT_EXIT(
      {
        cuda_emulation::HangGraphLaunch(50);
        std::exit(static_cast<int>(*run_.Run(client::RunTrain)) + 7);
      },
      ExitedWithCode(1), "");
}

}  // namespace
}  // namespace millrace
