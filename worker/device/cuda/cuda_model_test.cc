// What only models on a GPU do; what all models do is tested in worker/device/model_tests.
#include "worker/device/cuda/cuda_model.h"

#include <sys/prctl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_memory_need.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kBlock[] = R"pb(
  layers { conv2d { filters: 8 kernel_size: 3 padding: SAME no_bias: true } }
  layers { batch_normalization {} }
  layers {
    name: "stem"
    activation { function: RELU }
  }
  layers { conv2d { filters: 8 kernel_size: 3 padding: SAME } }
  layers {
    add {}
    inputs: [ "conv2d_3", "stem" ]
  }
  layers { max_pool2d {} }
  layers { dropout { rate: 0.2 } }
  layers { flatten {} }
  layers {
    dense {
      units: 12
      activation: TANH
      kernel_regularizer { l2: 0.01 }
    }
  }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
  metrics: ACCURACY
)pb";
const Shape kPicture = {7, 6, 3};
constexpr size_t kExamplesOfABatch = 6;

// Lists of three ids below 9: their embeddings' mean, and 3 classes.
ModelPlan PlanOfIds() {
  ExampleSpec examples = FloatsAndClass({3}, 3);
  examples.features[0].type = ElementType::kId;
  examples.features[0].limit = 9;
  return PlanOrDie(
      "layers { embedding { input_dim: 9 output_dim: 5 pooling: MEAN } } "
      "layers { dense { units: 3 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      examples);
}

Batch IdsBatch(size_t size) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < 3 * size; ++i) ids.push_back(static_cast<int64_t>(i * 7 % 9));
  Batch batch;
  batch.size = size;
  batch.features = {IdTensor(ids)};
  batch.labels = {IdTensor(std::vector<int64_t>(size, 1))};
  return batch;
}

// The device is lost when the last one of them has been handed over.
class LastOfTheDevice final : public GradientSink {
 public:
  explicit LastOfTheDevice(const ModelPlan& plan) : kept_(plan), left_(plan.variables.size()) {}

  absl::Span<float> Buffer(size_t variable) override { return kept_.Buffer(variable); }
  void Finished(size_t /*variable*/) override {
    if (--left_ == 0) cuda_emulation::LoseDevice();
  }

 private:
  KeptGradients kept_;
  size_t left_;
};

class CudaModelTest : public ::testing::Test {
 protected:
  CudaModelTest() { cuda_emulation::Reset(); }
  ~CudaModelTest() override { cuda_emulation::Reset(); }

  absl::StatusOr<std::unique_ptr<Model>> Compile(const ModelPlan& plan, const BatchSizes& batches) {
    auto device = CudaDevice::Open(TestLibrary(), options_,
                                   [this](const absl::Status& why) { lost_.push_back(why); });
    if (!device.ok()) return device.status();
    return (*device)->Compile(plan, batches);
  }

  std::unique_ptr<Model> CompileBlock(size_t batch = kExamplesOfABatch) {
    auto model = Compile(plan_, {batch, batch});
    EXPECT_TRUE(model.ok()) << model.status();
    FillValues(/*seed=*/1, 0.3f, model->get());
    return *std::move(model);
  }

  Batch BlockBatch(uint64_t seed, size_t size = kExamplesOfABatch) const {
    return RandomBatch(seed, size, kPicture, 4);
  }

  const ModelPlan plan_ = PlanOrDie(kBlock, kPicture, 4);
  CudaDeviceOptions options_;
  std::vector<absl::Status> lost_;
};

TEST_F(CudaModelTest, ComputesWhatTheProcessorDoes) {
  const std::unique_ptr<Model> gpu = CompileBlock();
  const std::unique_ptr<Model> cpu = *CpuDevice(1).Compile(plan_, {6, 6});
  FillValues(/*seed=*/1, 0.3f, cpu.get());
  KeptGradients on_gpu(plan_);
  KeptGradients on_cpu(plan_);
  for (const size_t size : {6, 1, 5}) {
    const Batch batch = BlockBatch(size, size);
    const BatchResult expected = TrainOrDie(batch, /*seed=*/9, cpu.get(), &on_cpu);
    const BatchResult actual = TrainOrDie(batch, /*seed=*/9, gpu.get(), &on_gpu);
    EXPECT_NEAR(actual.loss_sum, expected.loss_sum, 1e-4 * expected.loss_sum);
    EXPECT_EQ(actual.accuracy_sum, expected.accuracy_sum);
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      EXPECT_THAT(on_gpu.gradient(v),
                  ::testing::Pointwise(::testing::FloatNear(2e-4f), on_cpu.gradient(v)))
          << plan_.variables[v].name();
    }
  }
}

// A kernel of its own for ReLU reads and writes all values once more.
TEST_F(CudaModelTest, ReluIsAPartOfTheKernelsThatWriteWhatItTakes) {
  MILLRACE_NEEDS_EMULATION();
  const auto kernels_of = [&](const std::string& layers) {
    const ModelPlan plan = PlanOrDie(
        layers + " layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", {3}, 4);
    const std::unique_ptr<Model> model = *Compile(plan, {5, 5});
    const Batch batch = RandomBatch(/*seed=*/1, /*size=*/5, {3}, 4);
    EvaluationSums sums;
    EXPECT_TRUE(model->Evaluate(batch, &sums).ok());
    const uint64_t before = cuda_emulation::Counted().kernels;
    EXPECT_TRUE(model->Evaluate(batch, &sums).ok());
    return cuda_emulation::Counted().kernels - before;
  };
  const std::string norm = "layers { dense { units: 6 } } layers { batch_normalization {} }";
  const std::string sum =
      "layers { name: 'a' dense { units: 6 } } layers { name: 'b' dense { units: 6 } } "
      "layers { add {} inputs: ['a', 'b'] }";
  const std::string relu = "layers { activation { function: RELU } }";
  cuda_emulation::SetDeviceCount(2);
  for (const std::vector<int>& gpus : {std::vector<int>{0}, {0, 1}}) {
    options_.gpus = gpus;
    EXPECT_EQ(kernels_of(norm + relu), kernels_of(norm));
    EXPECT_EQ(kernels_of(sum + relu), kernels_of(sum));
    const uint64_t linear = kernels_of("layers { dense { units: 6 } }");
    EXPECT_EQ(kernels_of("layers { dense { units: 6 activation: RELU } }"), linear);
    cuda_emulation::SetReluKeepsNan(false);
    EXPECT_EQ(kernels_of("layers { dense { units: 6 activation: RELU } }"), linear + gpus.size());
    cuda_emulation::SetReluKeepsNan(true);
  }
}

// Waiting took 50 us more than was asked for, each time.
TEST_F(CudaModelTest, AThreadThatTrainsWakesUpInTime) {
  const std::unique_ptr<Model> model = CompileBlock();
  KeptGradients gradients(plan_);
  TrainOrDie(BlockBatch(1), /*seed=*/1, model.get(), &gradients);
  EXPECT_LE(prctl(PR_GET_TIMERSLACK), 1000);
}

TEST_F(CudaModelTest, BitsDoNotDependOnTheOrderOfThreadsAndStreams) {
  KeptGradients gradients(plan_);
  std::vector<std::vector<float>> first;
  for (const uint64_t order : {0, 1, 2, 3}) {
    cuda_emulation::SetOrder(order);
    const std::unique_ptr<Model> model = CompileBlock();
    for (const uint64_t step : {0, 1}) {
      TrainOrDie(BlockBatch(step), step, model.get(), &gradients);
      ApplySgd(0.1f, gradients, model.get());
    }
    if (order == 0) first = gradients.gradients();
    EXPECT_EQ(gradients.gradients(), first) << order;
  }
}

TEST_F(CudaModelTest, AModelWhoseSumsHaveAnyOrderSaysSo) {
  EXPECT_THAT(CompileBlock()->numerics(), Not(HasSubstr("any order")));
  options_.deterministic = false;
  EXPECT_THAT(CompileBlock()->numerics(), EndsWith(", any order"));
}

// Be they the first of their kind.
TEST_F(CudaModelTest, StepsAndEvaluationsAllocateNothingAndLaunchWhatWasCaptured) {
  MILLRACE_NEEDS_EMULATION();
  const auto check = [this](const ModelPlan& plan, const Batch& batch) {
    const std::unique_ptr<Model> model = *Compile(plan, {batch.size, batch.size});
    FillValues(/*seed=*/1, 0.3f, model.get());
    KeptGradients gradients(plan);
    EvaluationSums sums;
    const cuda_emulation::Usage in_use = cuda_emulation::InUse();
    const cuda_emulation::Counts before = cuda_emulation::Counted();
    EXPECT_TRUE(model->Evaluate(batch, &sums).ok());
    TrainOrDie(batch, 1, model.get(), &gradients);
    const cuda_emulation::Counts after = cuda_emulation::Counted();
    EXPECT_EQ(cuda_emulation::InUse(), in_use);
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.pinned_allocations, before.pinned_allocations);
    EXPECT_EQ(after.graph_nodes, before.graph_nodes);
    EXPECT_EQ(after.launches, before.launches);
    EXPECT_EQ(after.graph_launches, before.graph_launches + 3);
    EXPECT_GT(after.kernels, before.kernels);
  };
  check(plan_, BlockBatch(1));
  check(PlanOfIds(), IdsBatch(6));
}

TEST_F(CudaModelTest, GivesAllBack) {
  MILLRACE_NEEDS_EMULATION();
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  {
    const std::unique_ptr<Model> model = CompileBlock();
    KeptGradients gradients(plan_);
    TrainOrDie(BlockBatch(0), 0, model.get(), &gradients);
  }
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

TEST_F(CudaModelTest, WhatDoesNotFitIsRefusedWithTheBatchSizeThatWould) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory((64 << 20) + CudaMemoryNeed::kMargin);
  for (const auto precision : {PrecisionSpec::FLOAT32, PrecisionSpec::BFLOAT16}) {
    ModelPlan plan = plan_;
    plan.precision = precision;
    const absl::Status status = Compile(plan, {1 << 16, 0}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    const std::string message(status.message());
    EXPECT_THAT(message, AllOf(HasSubstr("batches of 65536 examples (batch_size)"),
                               HasSubstr("cuda:0"), HasSubstr("examples would fit")));
    const size_t begin = message.find("up to ") + 6;
    const size_t fitting = std::stoul(message.substr(begin));
    EXPECT_TRUE(Compile(plan, {fitting, 0}).ok());
    EXPECT_FALSE(Compile(plan, {fitting + 1, 0}).ok());
  }
}

// Their rooms are those of larger batches, so that is not the largest size.
TEST_F(CudaModelTest, BatchSizeThatFitsBesideCompactTablesIsNotSaidToBeTheLargest) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory((64 << 20) + CudaMemoryNeed::kMargin);
  ModelPlan plan = plan_;
  plan.host_bytes = 1;
  const std::string message(Compile(plan, {1 << 16, 0}).status().message());
  const size_t begin = message.rfind("batches of ");
  ASSERT_THAT(message.substr(begin), HasSubstr(" examples would fit, perhaps larger ones"));
  const size_t fitting = std::stoul(message.substr(begin + std::string("batches of ").size()));
  EXPECT_TRUE(Compile(plan, {fitting, 0}).ok());
}

// Batches of more than 2 TiB, which are made on the host.
TEST_F(CudaModelTest, WhatDoesNotFitIntoTheHostsMemoryIsRefused) {
  const absl::Status status = Compile(plan_, {size_t{1} << 32, 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batches of 4294967296 examples (batch_size)"),
                    HasSubstr("of this machine's memory beside the GPU's")));
}

// Ids have memory of their own, since that of ragged ones may become more.
TEST_F(CudaModelTest, TakesTheMemoryThatIsCountedBeforeInOneAllocationAndAnotherForIds) {
  MILLRACE_NEEDS_EMULATION();
  const auto check = [this](const ModelPlan& plan, size_t allocations, const auto& batch_of) {
    cuda_emulation::Reset();
    const cuda_emulation::Usage before = cuda_emulation::InUse();
    std::unique_ptr<Model> model = *Compile(plan, {6, 6});
    KeptGradients gradients(plan);
    for (const size_t size : {6, 1, 5}) TrainOrDie(batch_of(size), 1, model.get(), &gradients);
    EXPECT_EQ(cuda_emulation::InUse().allocations, before.allocations + allocations);
    const uint64_t taken = cuda_emulation::InUseOf(0);
    model.reset();
    cuda_emulation::SetMemory(taken + CudaMemoryNeed::kMargin);
    EXPECT_TRUE(Compile(plan, {6, 6}).ok());
    cuda_emulation::SetMemory(taken + CudaMemoryNeed::kMargin - 1);
    EXPECT_EQ(Compile(plan, {6, 6}).status().code(), absl::StatusCode::kResourceExhausted);
  };
  for (const ModelPlan& plan : {plan_, PullingAhead(plan_)}) {
    check(plan, 1, [this](size_t size) { return BlockBatch(size, size); });
  }
  for (const ModelPlan& plan : {PlanOfIds(), PullingAhead(PlanOfIds())}) check(plan, 2, IdsBatch);
}

// Values and batch have two places there.
TEST_F(CudaModelTest, WhoPullsAheadHearsWhatTheModelNeedsWithoutThat) {
  MILLRACE_NEEDS_EMULATION();
  cuda_emulation::SetMemory((32 << 20) + CudaMemoryNeed::kMargin);
  const std::string plain(Compile(plan_, {1 << 16, 0}).status().message());
  ASSERT_THAT(plain, AllOf(HasSubstr(" needs "), HasSubstr(" GiB of the memory"),
                           Not(HasSubstr("pull_ahead"))));
  const size_t begin = plain.find(" needs ");
  const std::string needs = plain.substr(begin, plain.find(" of the memory") - begin);
  const absl::Status status = Compile(PullingAhead(plan_), {1 << 16, 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(status.message());
  EXPECT_THAT(message, EndsWith("; without asynchronous.pull_ahead the model" + needs));
  EXPECT_THAT(message, Not(HasSubstr("(batch_size)," + needs)));
}

TEST_F(CudaModelTest, MemoryThatIsGoneAfterAllIsAnErrorThatSaysSoAndWhatWasTakenIsGivenBack) {
  MILLRACE_NEEDS_EMULATION();
  const ModelPlan plan = PlanOfIds();
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  for (void (*const fail)(int) :
       {&cuda_emulation::FailAllocation, &cuda_emulation::FailPinnedAllocation}) {
    int failures = 0;
    for (int n = 1;; ++n) {
      fail(n);
      const absl::Status status = Compile(plan, {6, 6}).status();
      EXPECT_EQ(cuda_emulation::InUse(), before) << n;
      if (status.ok()) break;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      ++failures;
    }
    EXPECT_GE(failures, 2);
    cuda_emulation::Reset();
  }
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(CudaModelTest, AKernelThatFailsLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<Model> model = CompileBlock();
  KeptGradients gradients(plan_);
  cuda_emulation::FailKernel(7);
  const absl::Status status = model->Train(BlockBatch(0), 0, &gradients).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), StartsWith("cuda:0: "));
  ASSERT_THAT(lost_, SizeIs(1));
  EXPECT_EQ(lost_[0], status);
}

// Were anything waited for, or given back, the emulation would stop the process.
TEST_F(CudaModelTest, AStepThatDoesNotEndLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION();
  options_.timeout = absl::Seconds(1);
  options_.shared = std::make_shared<SharedGpus>();
  std::unique_ptr<Model> model = CompileBlock();
  const std::unique_ptr<Model> other = CompileBlock();
  KeptGradients gradients(plan_);
  TrainOrDie(BlockBatch(0), 0, model.get(), &gradients);
  cuda_emulation::HangKernel(7);
  const absl::Status status = model->Train(BlockBatch(0), 0, &gradients).status();
  EXPECT_EQ(status, absl::UnavailableError("cuda:0: has not finished a step within 1 s"));
  ASSERT_THAT(lost_, SizeIs(2)) << "each device's listener is told";
  EXPECT_EQ(lost_[0], status);
  model.reset();
  const uint64_t launches = cuda_emulation::Counted().graph_launches;
  EvaluationSums sums;
  EXPECT_EQ(other->Train(BlockBatch(0), 0, &gradients).status(), status);
  EXPECT_EQ(other->Evaluate(BlockBatch(0), &sums), status);
  EXPECT_EQ(cuda_emulation::Counted().graph_launches, launches) << "nobody waits for it again";
  EXPECT_EQ(Compile(plan_, {6, 6}).status(), absl::UnavailableError("cuda:0: does not answer"));
}

// Their memory, too, is of no use any more.
TEST_F(CudaModelTest, AStepOnIdsThatDoesNotEndLosesTheDevice) {
  MILLRACE_NEEDS_EMULATION();
  options_.timeout = absl::Seconds(1);
  const ModelPlan plan = PlanOfIds();
  const std::unique_ptr<Model> model = *Compile(plan, {6, 0});
  FillValues(/*seed=*/1, 0.3f, model.get());
  KeptGradients gradients(plan);
  cuda_emulation::HangKernel(1);
  EXPECT_EQ(model->Train(IdsBatch(6), 0, &gradients).status(),
            absl::UnavailableError("cuda:0: has not finished a step within 1 s"));
  EXPECT_THAT(lost_, SizeIs(1));
}

// What comes after that is for the next step.
TEST_F(CudaModelTest, AStepWhoseGradientsHaveLeftSucceedsThoughTheDeviceIsLostThen) {
  MILLRACE_NEEDS_EMULATION();
  const ModelPlan plan = PullingAhead(plan_);
  const std::unique_ptr<Model> model = *Compile(plan, {6, 0});
  FillValues(/*seed=*/1, 0.3f, model.get());
  LastOfTheDevice gradients(plan);
  EXPECT_TRUE(model->Train(BlockBatch(0), 0, &gradients).ok());
  EXPECT_THAT(lost_, SizeIs(1)) << "it is told of at once";
  EXPECT_EQ(model->Train(BlockBatch(0), 0, &gradients).status().code(),
            absl::StatusCode::kUnavailable);
}

// Where a step fails while its graphs are captured, be it at the first of its size or another.
TEST_F(CudaModelTest, AStepThatFailsLeavesTheModelAsItWas) {
  MILLRACE_NEEDS_EMULATION();
  KeptGradients expected(plan_);
  const std::unique_ptr<Model> other = CompileBlock();
  TrainOrDie(BlockBatch(1), 1, other.get(), &expected);
  const auto of_six = expected.gradients();
  TrainOrDie(BlockBatch(2, 5), 2, other.get(), &expected);
  const auto of_five = expected.gradients();
  int failures = 0;
  for (int launch = 1;; launch += 3) {
    const std::unique_ptr<Model> model = CompileBlock();
    KeptGradients gradients(plan_);
    TrainOrDie(BlockBatch(0), 0, model.get(), &gradients);
    cuda_emulation::FailLaunch(launch);
    const absl::Status status = model->Train(BlockBatch(2, 5), 2, &gradients).status();
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    ++failures;
    KeptGradients again(plan_);
    TrainOrDie(BlockBatch(1), 1, model.get(), &again);
    EXPECT_EQ(again.gradients(), of_six) << launch;
    TrainOrDie(BlockBatch(2, 5), 2, model.get(), &again);
    EXPECT_EQ(again.gradients(), of_five) << launch;
  }
  EXPECT_GT(failures, 5);
}

TEST_F(CudaModelTest, ALossOfTheDeviceIsToldWhereverItIsFound) {
  MILLRACE_NEEDS_EMULATION();
  auto device = *CudaDevice::Open(TestLibrary(), options_,
                                  [this](const absl::Status& why) { lost_.push_back(why); });
  cuda_emulation::LoseDevice();
  EXPECT_EQ(device->Compile(plan_, {6, 6}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(lost_, SizeIs(1));
}

TEST_F(CudaModelTest, AGpuThatCannotBeUsedIsNotLost) {
  MILLRACE_NEEDS_EMULATION();
  auto device = *CudaDevice::Open(TestLibrary(), options_,
                                  [this](const absl::Status& why) { lost_.push_back(why); });
  cuda_emulation::SetKernelsMissing();
  EXPECT_FALSE(device->Compile(plan_, {6, 6}).ok());
  EXPECT_THAT(lost_, IsEmpty());
}

// Ids are sorted for the gradient, which the first one does not have.
TEST_F(CudaModelTest, ATrainedEmbeddingMayTakeTheIdsOfAFrozenOne) {
  ExampleSpec examples = FloatsAndClass({3}, 3);
  examples.features[0].name = "words";
  examples.features[0].type = ElementType::kId;
  examples.features[0].limit = 9;
  const ModelPlan plan = PlanOrDie(
      "layers { name: 'a' inputs: 'words' trainable: false "
      "  embedding { input_dim: 9 output_dim: 5 pooling: MEAN } } "
      "layers { name: 'b' inputs: 'words' "
      "  embedding { input_dim: 9 output_dim: 5 pooling: MEAN } } "
      "layers { inputs: ['a', 'b'] add {} } layers { dense { units: 3 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      examples);
  const std::unique_ptr<Model> gpu = *Compile(plan, {6, 0});
  const std::unique_ptr<Model> cpu = *CpuDevice(1).Compile(plan, {6, 0});
  FillValues(/*seed=*/1, 0.3f, gpu.get());
  FillValues(/*seed=*/1, 0.3f, cpu.get());
  KeptGradients on_gpu(plan);
  KeptGradients on_cpu(plan);
  TrainOrDie(IdsBatch(6), 0, gpu.get(), &on_gpu);
  TrainOrDie(IdsBatch(6), 0, cpu.get(), &on_cpu);
  EXPECT_EQ(on_gpu.finished().size(), on_cpu.finished().size());
  for (const size_t v : on_cpu.finished()) {
    EXPECT_THAT(on_gpu.gradient(v),
                ::testing::Pointwise(::testing::FloatNear(1e-5f), on_cpu.gradient(v)));
  }
}

// In turns: embeddings of one feature that are pooled and not, and more ids than there was room
// for, which is not to be had at first.
TEST_F(CudaModelTest, RaggedIdsMayBecomeMore) {
  const ModelPlan plan = PlanOfRaggedIds();
  for (const bool deterministic : {true, false}) {
    SCOPED_TRACE(deterministic);
    options_.deterministic = deterministic;
    const std::unique_ptr<Model> gpu = *Compile(plan, {3, 3});
    const std::unique_ptr<Model> cpu = *CpuDevice(1).Compile(plan, {3, 3});
    FillValues(/*seed=*/1, 0.3f, gpu.get());
    FillValues(/*seed=*/1, 0.3f, cpu.get());
    KeptGradients on_gpu(plan);
    KeptGradients on_cpu(plan);
    Batch few;
    for (const size_t ids : {4, 300, 0, 7}) {
      Batch batch;
      batch.size = 3;
      batch.labels = {IdTensor({0, 2, 1})};
      batch.features.resize(1);
      for (size_t i = 0; i < ids; ++i) {
        batch.features[0].ids.push_back(static_cast<int64_t>((i * 7 + i / 5) % 9));
      }
      batch.features[0].ends = {ids / 2, ids / 2, ids};
      if (ids == 300 && !OnRealGpu()) {
        cuda_emulation::FailAllocation(1);
        EXPECT_EQ(gpu->Train(batch, 0, &on_gpu).status().code(),
                  absl::StatusCode::kResourceExhausted);
        TrainOrDie(few, 0, gpu.get(), &on_gpu);
      }
      few = batch;
      TrainOrDie(batch, 0, gpu.get(), &on_gpu);
      TrainOrDie(batch, 0, cpu.get(), &on_cpu);
      for (size_t v = 0; v < plan.variables.size(); ++v) {
        EXPECT_THAT(on_gpu.gradient(v),
                    ::testing::Pointwise(::testing::FloatNear(1e-5f), on_cpu.gradient(v)));
      }
    }
  }
}

}  // namespace
}  // namespace millrace::worker
