// Models on several GPUs: what they give beside one GPU, and what happens when one of them fails.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_memory_need.h"
#include "worker/device/cuda/replicas_test_util.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kNormalized[] = R"pb(
  layers { conv2d { filters: 3 kernel_size: 3 } }
  layers { batch_normalization {} }
  layers { flatten {} }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

TEST_F(ReplicasTest, SeveralGpusGiveWhatOneGives) {
  ExpectLikeOne(plan_, {RandomPictures(7), RandomPictures(6), RandomPictures(3), RandomPictures(2),
                        RandomPictures(1), RandomPictures(7)});
}

// Examples are rounded alike, whichever GPU has them.
TEST_F(ReplicasTest, NarrowValuesOfSeveralGpusAreThoseOfOne) {
  ModelPlan plan = PlanOrDie(
      "layers { flatten {} } layers { dense { units: 9 activation: RELU } } "
      "layers { dense { units: 7 } } layers { dense { units: 4 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      kPicture, 4);
  plan.precision = PrecisionSpec::BFLOAT16;
  ExpectLikeOne(plan, {RandomPictures(7), RandomPictures(3), RandomPictures(1)});
}

// One table, asked twice for the ids of each example: as they are, of which some have none.
TEST_F(ReplicasTest, RaggedIdsOfASharedTableAreDivided) {
  const ModelPlan plan = PlanOfRaggedIds();
  Batch batch;
  batch.size = 5;
  batch.labels = {IdTensor({0, 2, 1, 1, 0})};
  batch.features.resize(1);
  for (int64_t i = 0; i < 11; ++i) batch.features[0].ids.push_back(i * 7 % 9);
  batch.features[0].ends = {2, 2, 7, 10, 11};
  ExpectLikeOne(plan, {batch});
}

TEST_F(ReplicasTest, WeightsOfExamplesAreDivided) {
  Batch batch = RandomPictures(5);
  batch.weights = {1, 0.5f, 2, 0, 3};
  ExpectLikeOne(plan_, {batch});
}

TEST_F(ReplicasTest, StatisticsAreTheMeanOverExamples) {
  const ModelPlan plan = PlanOrDie(kNormalized, kPicture, 4);
  const std::unique_ptr<Model> one = Compile(plan, 1);
  const std::unique_ptr<Model> two = Compile(plan, 2);
  const Batch batch = RandomPictures(5);
  KeptGradients first(plan);
  KeptGradients second(plan);
  KeptGradients both(plan);
  TrainOrDie(ExamplesOf(batch, 0, 3), 0, one.get(), &first);
  TrainOrDie(ExamplesOf(batch, 3, 5), 0, one.get(), &second);
  TrainOrDie(batch, 0, two.get(), &both);
  for (size_t v = 0; v < plan.variables.size(); ++v) {
    std::vector<float> expected;
    for (size_t i = 0; i < first.gradient(v).size(); ++i) {
      expected.push_back((3 * first.gradient(v)[i] + 2 * second.gradient(v)[i]) / 5);
    }
    EXPECT_THAT(both.gradient(v), Pointwise(FloatNear(1e-5f), expected))
        << plan.variables[v].name();
  }
}

TEST_F(ReplicasTest, BitsDependOnTheNumberOfGpusAlone) {
  for (const int gpus : GpuCounts()) {
    KeptGradients gradients(plan_);
    std::vector<std::vector<float>> first;
    for (const uint64_t order : {0, 1, 2, 3, 4}) {
      cuda_emulation::SetOrder(order);
      cuda_emulation::SetPeerAccess(order % 2 == 0);
      const std::unique_ptr<Model> model = Compile(plan_, gpus);
      for (const size_t size : {7, 2, 5}) {
        TrainOrDie(RandomPictures(size), size, model.get(), &gradients);
        ApplySgd(0.1f, gradients, model.get());
      }
      if (order == 0) first = gradients.gradients();
      EXPECT_EQ(gradients.gradients(), first) << gpus << " GPUs, order " << order;
    }
  }
}

TEST_F(ReplicasTest, StepsAllocateNothingAndGpusCopyFromEachOther) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const std::unique_ptr<Model> model = Compile(plan_, 3);
  KeptGradients gradients(plan_);
  TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
  const cuda_emulation::Usage in_use = cuda_emulation::InUse();
  const cuda_emulation::Counts before = cuda_emulation::Counted();
  TrainOrDie(RandomPictures(7), 1, model.get(), &gradients);
  EXPECT_EQ(cuda_emulation::InUse().allocations, in_use.allocations);
  EXPECT_EQ(cuda_emulation::InUse().pinned_allocations, in_use.pinned_allocations);
  EXPECT_EQ(cuda_emulation::InUse().graphs, in_use.graphs);
  EXPECT_GT(cuda_emulation::Counted().peer_copies, before.peer_copies);
}

TEST_F(ReplicasTest, GiveAllBack) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  {
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    KeptGradients gradients(plan_);
    TrainOrDie(RandomPictures(7), 0, model.get(), &gradients);
  }
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

TEST_F(ReplicasTest, TheGpuWithTooLittleMemoryIsNamed) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  cuda_emulation::SetMemoryOf(1, cuda_emulation::InUseOf(1) + (64 << 20) + CudaMemoryNeed::kMargin);
  auto device = *Open({0, 1});
  const absl::Status status = device->Compile(plan_, {1 << 18, 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batches of 262144 examples (batch_size)"),
                    HasSubstr("memory of cuda:1"), HasSubstr("examples would fit")));
  const std::string message(status.message());
  const size_t fitting = std::stoul(message.substr(message.find("up to ") + 6));
  EXPECT_TRUE(device->Compile(plan_, {fitting, 0}).ok());
  EXPECT_FALSE(device->Compile(plan_, {fitting + 2, 0}).ok());
}

TEST_F(ReplicasTest, ALostGpuIsNamedAndLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  for (const int kernel : {1, 9, 20}) {
    StartAnew(/*order=*/0);
    lost_.clear();
    const std::unique_ptr<Model> model = Compile(plan_, 3);
    KeptGradients gradients(plan_);
    cuda_emulation::FailKernelOf(1, kernel);
    const absl::Status status = model->Train(RandomPictures(7), 0, &gradients).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("cuda:1: "));
    ASSERT_THAT(lost_, SizeIs(1));
    EXPECT_EQ(lost_[0], status);
  }
}

// Passes are captured: what a step launches itself are sums, those of the first GPU first.
TEST_F(ReplicasTest, TheGpuThatDoesNotTakeASumIsNamed) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  for (const int gpu : {0, 1}) {
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    KeptGradients gradients(plan_);
    TrainOrDie(RandomPictures(6), 0, model.get(), &gradients);
    cuda_emulation::FailLaunch(gpu + 1);
    const absl::Status status = model->Train(RandomPictures(6), 0, &gradients).status();
    EXPECT_THAT(std::string(status.message()), StartsWith(gpu == 0 ? "cuda:0: " : "cuda:1: "));
  }
}

// It is found by whoever gives back the model of the lost one. Were it waited for without a limit,
// the emulation would stop the process.
TEST_F(ReplicasTest, AModelOfALostGpuMayEndThoughAnotherGpuHangs) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  options_.timeout = absl::Seconds(2);
  const std::unique_ptr<CudaDevice> device = *Open({0, 1});
  std::unique_ptr<Model> model = *device->Compile(plan_, {kLargest, kLargest});
  FillValues(/*seed=*/1, 0.3f, model.get());
  const uint64_t before = cuda_emulation::Counted().kernels;
  uint64_t of_forwards = 0;
  KeptGradients gradients(plan_, [&] { of_forwards = cuda_emulation::Counted().kernels - before; });
  TrainOrDie(RandomPictures(6), 0, model.get(), &gradients);
  cuda_emulation::FailKernelOf(1, 1);
  cuda_emulation::HangKernel(static_cast<int>(of_forwards / 2) + 2);  // The first GPU's, backwards.
  const absl::Status status = model->Train(RandomPictures(6), 0, &gradients).status();
  EXPECT_THAT(std::string(status.message()), StartsWith("cuda:1: "));
  model.reset();
  EXPECT_EQ(device->Compile(plan_, {kLargest, kLargest}).status(),
            absl::UnavailableError("cuda:0,1: does not answer"));
}

// What it has enqueued is waited for, but not for ever.
TEST_F(ReplicasTest, AStepThatFailsWhileAGpuHangsLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  options_.timeout = absl::Seconds(2);
  const std::unique_ptr<Model> model = Compile(plan_, 2);
  KeptGradients gradients(plan_);
  TrainOrDie(RandomPictures(6), 0, model.get(), &gradients);
  cuda_emulation::HangKernel(1);
  cuda_emulation::FailLaunch(1);  // Of a sum of gradients: passes are captured.
  const absl::Status status = model->Train(RandomPictures(6), 0, &gradients).status();
  EXPECT_EQ(status, absl::UnavailableError("cuda:0,1: has not finished a step within 2 s"));
  EXPECT_THAT(lost_, ElementsAre(status));
}

TEST_F(ReplicasTest, AStepThatFailsLeavesTheModelAsItWas) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  KeptGradients expected(plan_);
  const std::unique_ptr<Model> other = Compile(plan_, 2);
  TrainOrDie(RandomPictures(6), 1, other.get(), &expected);
  int failures = 0;
  for (int launch = 1;; launch += 5) {
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    KeptGradients gradients(plan_);
    TrainOrDie(RandomPictures(6), 0, model.get(), &gradients);
    cuda_emulation::FailLaunch(launch);
    const absl::Status status = model->Train(RandomPictures(5), 2, &gradients).status();
    if (status.ok()) break;
    ++failures;
    KeptGradients again(plan_);
    TrainOrDie(RandomPictures(6), 1, model.get(), &again);
    EXPECT_EQ(again.gradients(), expected.gradients()) << launch;
  }
  EXPECT_GT(failures, 5);
}

// The step that follows is the first GPU's alone, while the other one may still be at the step that
// failed.
TEST_F(ReplicasTest, AStepThatFailsDisturbsNoSmallerOne) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  KeptGradients expected(plan_);
  TrainOrDie(RandomPictures(1), 1, Compile(plan_, 2).get(), &expected);
  for (const uint64_t order : {0, 10, 21, 27, 48}) {
    StartAnew(order);
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    KeptGradients gradients(plan_);
    TrainOrDie(RandomPictures(6), 0, model.get(), &gradients);
    for (int launch = 1;; ++launch) {
      cuda_emulation::FailLaunch(launch);
      if (model->Train(RandomPictures(6), 2, &gradients).ok()) break;
      TrainOrDie(RandomPictures(1), 1, model.get(), &gradients);
      EXPECT_EQ(gradients.gradients(), expected.gradients()) << launch << ", order " << order;
    }
  }
}

// What the first GPU waits for when it gives memory back is not what the second one does.
TEST_F(ReplicasTest, AModelMayEndWhileValuesArrive) {
  for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
    StartAnew(order);
    const std::unique_ptr<Model> model = Compile(plan_, 2);
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      model->Arrived(v, 0, model->values(v).size());
    }
  }
}

TEST_F(ReplicasTest, ADeviceSaysWhichGpusItIs) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  auto device = *Open({2, 0});
  EXPECT_EQ(device->name(), "cuda:2,0");
  EXPECT_EQ(device->description(), "cuda:2,0 (2 x Emulated GPU, sm_90, CUDA 13.0)");
  const std::unique_ptr<Model> model = *device->Compile(plan_, {kLargest, 0});
  EXPECT_THAT(model->numerics(), StartsWith("cuda, 2 x Emulated GPU (sm_90), float32, "));
  EXPECT_EQ(device->meter()->memory(), uint64_t{2} << 30);
  EXPECT_EQ(device->meter()->memory_used(),
            cuda_emulation::InUseOf(0) + cuda_emulation::InUseOf(2));
  EXPECT_THAT(std::string(Open({0, 4}).status().message()),
              StartsWith("cuda:4: no such GPU: this process may use 4"));
}

TEST_F(ReplicasTest, GpusOfSeveralKindsAreNamedEachAndTheReleaseOnce) {
  MILLRACE_NEEDS_EMULATION(kLeastGpus);
  cuda_emulation::SetNameOf(1, "NVIDIA B");
  EXPECT_EQ((*Open({0, 1, 2, 3}))->description(),
            "cuda:0,1,2,3 (Emulated GPU, sm_90, NVIDIA B, sm_90, 2 x Emulated GPU, sm_90, CUDA "
            "13.0)");
}

}  // namespace
}  // namespace millrace::worker
