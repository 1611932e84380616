// Jobs whose workers compute on GPUs, from the submission to the end. Without a GPU the whole CUDA
// device runs on the emulation.
#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/embedded_cluster.h"
#include "client/exporter.h"
#include "client/jobs_client.h"
#include "client/safetensors.h"
#include "client/testing/small_job.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"
#include "worker/worker.h"

namespace millrace {
namespace {

using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<cuda::Library*> TestLibrary() { return worker::TestLibrary(); }

// 15 steps.
JobSpec SmallSpec() {
  JobSpec spec = *ParseJobSpec(SmallJob(), "small.textproto");
  spec.mutable_data()->set_directory(SmallData());
  return spec;
}

JobSpec SynchronousSpec() {
  JobSpec spec = SmallSpec();
  spec.mutable_synchronous()->set_replicas(2);
  return spec;
}

// With a variable that leaves the GPU in several parts, and small ones that leave it together.
JobSpec WireSpec(Encoding::Kind wire) {
  JobSpec spec = SynchronousSpec();
  const LayerSpec logit = spec.model().layers(0);
  spec.mutable_model()->clear_layers();
  for (const uint32_t units : {300, 301}) {
    Dense& dense = *spec.mutable_model()->add_layers()->mutable_dense();
    dense.set_units(units);
    dense.set_activation(TANH);
  }
  *spec.mutable_model()->add_layers() = logit;
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.05);
  spec.mutable_precision()->set_wire(wire);
  return spec;
}

// So many that every worker of the cluster computes some.
constexpr uint64_t kManySteps = 5000;

class GpuTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override { cuda_emulation::Reset(); }
  void TearDown() override { cuda_emulation::Reset(); }

  void StartCluster(int workers, const std::string& device) {
    client::EmbeddedClusterOptions options;
    options.ps = 2;
    options.workers = workers;
    options.device = device;
    options.load_cuda = TestLibrary;
    auto cluster = client::EmbeddedCluster::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    client_ = *client::JobsClient::Create({.address = cluster_->address()});
  }

  // Of a GPU of its own, beside those of the cluster.
  absl::StatusOr<std::unique_ptr<worker::Worker>> StartWorker(const std::string& device) const {
    worker::WorkerOptions options;
    options.name = "gpu-worker";
    options.coordinator_address = cluster_->address();
    options.device = device;
    options.load_cuda = TestLibrary;
    return worker::Worker::Start(options);
  }

  JobStatus Finish(const std::string& job_id) {
    EXPECT_TRUE(client_->Watch(job_id, 0, [](const JobEvent&) {}).ok());
    const auto status = client_->Get(job_id);
    EXPECT_TRUE(status.ok()) << status.status();
    return *status;
  }

  // The values that a job ended with.
  std::vector<std::vector<float>> Train(const JobSpec& spec) {
    const auto job_id = client_->Submit(spec);
    EXPECT_TRUE(job_id.ok()) << job_id.status();
    const JobStatus status = Finish(*job_id);
    EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
    const std::string path = ::testing::TempDir() + "/" + *job_id + ".safetensors";
    EXPECT_TRUE(client::ExportVariables(client_.get(), *job_id, path).ok());
    const auto file = client::ReadSafetensors(path);
    EXPECT_TRUE(file.ok()) << file.status();
    std::vector<std::vector<float>> values;
    for (const auto& tensor : file->tensors) {
      values.emplace_back(tensor.values.begin(), tensor.values.end());
    }
    return values;
  }

  std::unique_ptr<client::EmbeddedCluster> cluster_;
  std::unique_ptr<client::JobsClient> client_;
};

TEST_F(GpuTrainingTest, AJobTrainsOnGpusAsOnCpus) {
  StartCluster(/*workers=*/2, "cuda");
  const uint64_t before = cuda_emulation::Counted().kernels;
  const std::vector<std::vector<float>> on_gpus = Train(SynchronousSpec());
  EXPECT_TRUE(worker::OnRealGpu() || cuda_emulation::Counted().kernels > before);
  StartCluster(/*workers=*/2, "cpu");
  const std::vector<std::vector<float>> on_cpus = Train(SynchronousSpec());
  ASSERT_EQ(on_gpus.size(), on_cpus.size());
  for (size_t i = 0; i < on_gpus.size(); ++i) {
    EXPECT_THAT(on_gpus[i], ::testing::Pointwise(::testing::FloatNear(1e-4f), on_cpus[i]));
  }
}

// Two embeddings share a table of so many rows, of which 8,192 are enough to travel by themselves.
JobSpec TableSpec(int rows) {
  std::string examples = "a,b,next,y\n";
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&examples, "w", i * 7 % 90, ",w", i * i % 70, ",w", i * 31 % 80, ",",
                    i * 7 % 90 % 2, "\n");
  }
  testing::WriteFile("words.csv", examples);
  const std::string embedding =
      absl::StrCat("embedding { output_dim: 8 pooling: MEAN input_dim: ", rows, " }");
  const std::string column = "hash { buckets: 3000 } as_id: true";
  JobSpec spec = *ParseJobSpec(
      absl::StrCat("name: 'tables' model { layers { name: 'history' inputs: 'words' ", embedding,
                   " } layers { name: 'next_word' inputs: 'next' variables_of: 'history' ",
                   embedding,
                   " } layers { inputs: ['history', 'next_word'] concatenate {} } "
                   "layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY } "
                   "data { train { csv { files: 'words.csv' columns { name: 'a' feature: 'words' ",
                   column, " } columns { name: 'b' feature: 'words' ", column,
                   " } columns { name: 'next' feature: 'next' ", column,
                   " } label { name: 'y' } } } } optimizer { adagrad { learning_rate: 0.1 } } "
                   "synchronous { replicas: 2 } batch_size: 16 epochs: 2 seed: 5"),
      "tables.textproto");
  spec.mutable_data()->set_directory(::testing::TempDir());
  return spec;
}

TEST_F(GpuTrainingTest, RowsOfALargeTableTravelByThemselvesAndBitsStay) {
  StartCluster(/*workers=*/2, "cuda");
  const std::vector<std::vector<float>> whole = Train(TableSpec(8191));
  std::vector<std::vector<float>> by_rows = Train(TableSpec(8192));
  StartCluster(/*workers=*/2, "cpu");
  const std::vector<std::vector<float>> on_cpus = Train(TableSpec(8192));
  ASSERT_EQ(by_rows.size(), 3u);
  ASSERT_EQ(by_rows.size(), on_cpus.size());
  for (size_t i = 0; i < on_cpus.size(); ++i) {
    EXPECT_THAT(by_rows[i], ::testing::Pointwise(::testing::FloatNear(1e-4f), on_cpus[i]));
  }
  const auto large = std::find_if(by_rows.begin(), by_rows.end(),
                                  [](const auto& values) { return values.size() == 8192 * 8; });
  ASSERT_NE(large, by_rows.end());
  large->resize(8191 * 8);  // No id has the last row.
  EXPECT_EQ(by_rows, whole);
}

// What a step sees follows from when its pull began; the loss goes down all the same.
TEST_F(GpuTrainingTest, AJobWhosePullsBeginAheadLearns) {
  StartCluster(/*workers=*/1, "cuda");
  JobSpec spec = WireSpec(Encoding::FLOAT32);
  spec.mutable_asynchronous()->set_pull_ahead(true);
  std::vector<double> losses;
  const auto job_id = client_->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  EXPECT_TRUE(client_
                  ->Watch(*job_id, 0,
                          [&](const JobEvent& event) {
                            if (!event.has_evaluated()) return;
                            losses.push_back(event.evaluated().metrics().at("eval_loss"));
                          })
                  .ok());
  const JobStatus status = *client_->Get(*job_id);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  ASSERT_FALSE(losses.empty());
  EXPECT_LT(losses.back(), 0.6);  // Without learning: 0.69.
}

TEST_F(GpuTrainingTest, AWorkerWithTwoGpusTrainsAsOneWithOne) {
  cuda_emulation::SetDeviceCount(2);
  if ((*TestLibrary())->GpuCount() < 2) GTEST_SKIP() << "needs two GPUs";
  StartCluster(/*workers=*/2, "cuda:0");
  const std::vector<std::vector<float>> on_one = Train(SynchronousSpec());
  StartCluster(/*workers=*/2, "cuda:0,1");
  const uint64_t before = cuda_emulation::Counted().peer_copies;
  const std::vector<std::vector<float>> on_two = Train(SynchronousSpec());
  EXPECT_TRUE(worker::OnRealGpu() || cuda_emulation::Counted().peer_copies > before);
  EXPECT_EQ(Train(SynchronousSpec()), on_two);
  ASSERT_EQ(on_two.size(), on_one.size());
  for (size_t i = 0; i < on_one.size(); ++i) {
    EXPECT_THAT(on_two[i], ::testing::Pointwise(::testing::FloatNear(1e-4f), on_one[i]));
  }
}

// The coordinator refused what was longer than 100 characters, and the worker with it.
TEST_F(GpuTrainingTest, AWorkerWithGpusOfLongNamesJoins) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetDeviceCount(2);
  cuda_emulation::SetNameOf(0, "NVIDIA RTX 6000 Ada Generation of a very long name, and then some");
  cuda_emulation::SetNameOf(1, "NVIDIA GeForce RTX 4090 of a very long name, and then some more");
  StartCluster(/*workers=*/1, "cuda:0,1");
  EXPECT_FALSE(Train(SmallSpec()).empty());
}

TEST_F(GpuTrainingTest, WhatAGpuIsUsedForIsTold) {
  StartCluster(/*workers=*/1, "cuda");
  JobSpec spec = SmallSpec();
  spec.clear_epochs();
  spec.set_steps(1u << 30);
  const auto job_id = client_->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  // With the first heartbeat after the first step.
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  JobExplanation explanation;
  do {
    ASSERT_LT(absl::Now(), deadline) << "nobody tells: " << explanation.ShortDebugString();
    const auto told = client_->Explain(*job_id);
    ASSERT_TRUE(told.ok()) << told.status();
    explanation = *told;
  } while (explanation.workers().empty() || !explanation.workers(0).has_device_use());
  const WorkerReport& worker = explanation.workers(0);
  EXPECT_THAT(worker.device(), StartsWith("cuda:0 ("));
  EXPECT_GT(worker.device_use().memory_used(), 0u);
  EXPECT_LE(worker.device_use().memory_used(), worker.device_use().memory());
  EXPECT_GE(worker.device_use().busy(), 0);
  EXPECT_LE(worker.device_use().busy(), 1);
  EXPECT_TRUE(client_->Cancel(*job_id).ok());
}

// The GPU looks at the gradients, and who sends them says which element it is.
TEST_F(GpuTrainingTest, AGradientThatIsNotFiniteFailsTheJobNamingTheElement) {
  std::string examples;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&examples, "1 1:", i % 7, " 2:3e38\n");
  testing::WriteFile("large.txt", examples);
  JobSpec spec = SmallSpec();
  spec.mutable_data()->set_directory(::testing::TempDir());
  spec.mutable_data()->mutable_train()->mutable_libsvm()->set_file("large.txt");
  spec.mutable_data()->clear_evaluate();
  ModelSpec& model = *spec.mutable_model();
  model.mutable_layers(0)->mutable_dense()->set_kernel_initializer(ZEROS);
  model.add_layers()->mutable_rescaling()->set_scale(1000);
  StartCluster(/*workers=*/1, "cuda");
  const auto job_id = client_->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  const JobStatus status = Finish(*job_id);
  EXPECT_EQ(status.state(), FAILED);
  EXPECT_THAT(status.message(),
              HasSubstr("step 0: the loss is finite, but the gradient of variable "
                        "'logit/kernel' is -inf at element 1"));
}

TEST_F(GpuTrainingTest, RepeatedSynchronousRunsHaveEqualBits) {
  std::vector<std::vector<float>> first;
  for (const uint64_t order : {0, 1, 2}) {
    cuda_emulation::SetOrder(order);
    StartCluster(/*workers=*/2, "cuda");
    const std::vector<std::vector<float>> values = Train(SynchronousSpec());
    if (order == 0) first = values;
    EXPECT_EQ(values, first);
  }
}

TEST_F(GpuTrainingTest, ASynchronousJobThatLosesAGpuHasTheBitsOfOneThatDoesNot) {
  MILLRACE_NEEDS_EMULATION();
  JobSpec spec = SynchronousSpec();
  spec.clear_epochs();
  spec.set_steps(kManySteps / 5);
  cuda_emulation::SetDeviceCount(2);
  StartCluster(/*workers=*/1, "cuda:0");
  const std::vector<std::vector<float>> undisturbed = Train(spec);
  StartCluster(/*workers=*/1, "cuda:0");
  const auto worker = StartWorker("cuda:1");
  ASSERT_TRUE(worker.ok()) << worker.status();
  cuda_emulation::FailKernelOf(1, 100);
  EXPECT_EQ(Train(spec), undisturbed);
  EXPECT_TRUE(absl::IsUnavailable((*worker)->Wait()));
}

TEST_F(GpuTrainingTest, AJobThatGoesOnFromACheckpointHasTheBitsOfOneThatDidNotStop) {
  StartCluster(/*workers=*/2, "cuda");
  const std::vector<std::vector<float>> undisturbed = Train(SynchronousSpec());
  const std::string directory = ::testing::TempDir() + "/checkpoints_of_gpus";
  std::filesystem::remove_all(directory);
  JobSpec first = SynchronousSpec();
  first.clear_epochs();
  first.set_steps(8);  // In the middle of an epoch.
  first.mutable_checkpoints()->set_directory(directory);
  EXPECT_NE(Train(first), undisturbed);
  StartCluster(/*workers=*/2, "cuda");
  JobSpec second = SynchronousSpec();
  second.mutable_restore()->set_directory(directory);
  EXPECT_EQ(Train(second), undisturbed);
}

TEST_F(GpuTrainingTest, AJobIsComputedInItsPrecision) {
  StartCluster(/*workers=*/2, "cuda");
  const std::vector<std::vector<float>> in_float32 = Train(SynchronousSpec());
  JobSpec spec = SynchronousSpec();
  spec.mutable_precision()->set_compute(PrecisionSpec::BFLOAT16);
  const std::vector<std::vector<float>> in_bfloat16 = Train(spec);
  EXPECT_NE(in_bfloat16, in_float32);
  ASSERT_EQ(in_bfloat16.size(), in_float32.size());
  for (size_t i = 0; i < in_float32.size(); ++i) {
    EXPECT_THAT(in_bfloat16[i], ::testing::Pointwise(::testing::FloatNear(2e-2f), in_float32[i]));
  }
}

// Gradients become narrow where the GPU has written them, and where it writes those of later steps.
TEST_F(GpuTrainingTest, NumbersTravelInTheJobsEncodingAsOnCpus) {
  cuda_emulation::SetDeviceCount(2);
  const int gpus = (*TestLibrary())->GpuCount();
  for (const Encoding::Kind wire : {Encoding::FLOAT16, Encoding::BFLOAT16}) {
    StartCluster(/*workers=*/2, "cpu");
    const std::vector<std::vector<float>> on_cpus = Train(WireSpec(wire));
    EXPECT_NE(Train(WireSpec(Encoding::FLOAT32)), on_cpus);
    for (const char* const device : {"cuda:0", "cuda:0,1"}) {
      if (gpus < 2 && std::string(device) != "cuda:0") continue;
      StartCluster(/*workers=*/2, device);
      const std::vector<std::vector<float>> on_gpus = Train(WireSpec(wire));
      EXPECT_EQ(Train(WireSpec(wire)), on_gpus) << device;
      ASSERT_EQ(on_gpus.size(), on_cpus.size());
      for (size_t i = 0; i < on_gpus.size(); ++i) {
        EXPECT_THAT(on_gpus[i], ::testing::Pointwise(::testing::FloatNear(2e-3f), on_cpus[i]));
      }
    }
  }
}

TEST_F(GpuTrainingTest, TheWorkerOfALostGpuLeavesAndTheJobGoesOn) {
  MILLRACE_NEEDS_EMULATION();
  StartCluster(/*workers=*/1, "cpu");
  const auto worker = StartWorker("cuda:0");
  ASSERT_TRUE(worker.ok()) << worker.status();
  cuda_emulation::FailKernel(5);
  JobSpec spec = SmallSpec();
  spec.clear_epochs();
  spec.set_steps(kManySteps);
  const auto job_id = client_->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  const absl::Status end = (*worker)->Wait();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(end.message()), StartsWith("cuda:0"));
  const JobStatus status = Finish(*job_id);
  EXPECT_EQ(status.state(), SUCCEEDED) << status.message();
  EXPECT_EQ(status.step(), kManySteps);
}

// Whoever plans the job, the other one computes otherwise.
TEST_F(GpuTrainingTest, ASynchronousJobOnSeveralKindsOfDevicesSaysSo) {
  StartCluster(/*workers=*/1, "cpu");
  const auto worker = StartWorker("cuda:0");
  ASSERT_TRUE(worker.ok()) << worker.status();
  JobSpec spec = SynchronousSpec();
  spec.mutable_synchronous()->set_allow_mixed_workers(true);
  spec.clear_epochs();
  spec.set_steps(1u << 30);
  const auto job_id = client_->Submit(spec);
  ASSERT_TRUE(job_id.ok()) << job_id.status();
  std::string told;
  EXPECT_TRUE(client_
                  ->Watch(*job_id, 0,
                          [&](const JobEvent& event) {
                            if (event.notice().message().find("computes on '") == std::string::npos)
                              return;
                            told = event.notice().message();
                            EXPECT_TRUE(client_->Cancel(*job_id).ok());
                          })
                  .ok());
  EXPECT_THAT(told, AllOf(HasSubstr("'cuda, "), HasSubstr("'cpu, "),
                          HasSubstr("its bits depend on which worker has a step")));
}

// It fits no GPU of the cluster's workers, which is known when the job comes.
TEST_F(GpuTrainingTest, AModelThatNoGpuHasMemoryForIsRefused) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory(size_t{1} << 20);
  for (int run = 0; run < 5; ++run) {
    StartCluster(/*workers=*/2, "cuda");
    const absl::Status refused = client_->Submit(SmallSpec()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("cuda:0"));
  }
}

// The worker with the GPU is asked first.
TEST_F(GpuTrainingTest, AWorkerOnTheCpuTakesAJobThatTheGpuHasNoMemoryFor) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory(size_t{1} << 20);
  StartCluster(/*workers=*/1, "cuda");
  std::promise<void> welcomed;
  worker::WorkerOptions options;
  options.name = "cpu-worker";
  options.coordinator_address = cluster_->address();
  options.device = "cpu";
  options.on_welcomed = [&welcomed, told = false]() mutable {
    if (!std::exchange(told, true)) welcomed.set_value();
  };
  const auto worker = worker::Worker::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  welcomed.get_future().wait();
  const uint64_t before = cuda_emulation::Counted().kernels;
  Train(SmallSpec());
  EXPECT_EQ(cuda_emulation::Counted().kernels, before);
}

TEST_F(GpuTrainingTest, WithoutAGpuAWorkerSaysSoOrTakesTheCpu) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetDriverMissing();
  worker::WorkerOptions options;
  options.coordinator_address = "127.0.0.1:1";
  options.load_cuda = TestLibrary;
  options.device = "cuda";
  EXPECT_THAT(std::string(worker::Worker::Start(options).status().message()),
              AllOf(StartsWith("device: cuda:0: "), HasSubstr("driver")));
  options.device = "auto";
  EXPECT_TRUE(worker::Worker::Start(options).ok());
}

}  // namespace
}  // namespace millrace
