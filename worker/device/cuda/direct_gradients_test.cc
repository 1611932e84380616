// Gradients that a GPU copies to where they leave from.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_host_memory.h"
#include "worker/device/cuda/gradient_exchange.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/model/memory_budget.h"

namespace millrace::worker {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Pointwise;

// A kernel that several GPUs copy straight to a set, between small variables before and after it.
constexpr char kWithALargeOne[] = R"pb(
  layers { dense { units: 12 activation: TANH } }
  layers { batch_normalization {} }
  layers { dense { units: 1400 activation: TANH } }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";
static_assert(12 * 1400 * sizeof(float) >= GradientExchange::kLeastDirectBytes);
static_assert(1400 * 4 * sizeof(float) < GradientExchange::kLeastDirectBytes);

// So many layers of small variables, whose gradients are less than CudaGradients::kGroupBytes.
std::string DeepModel(int layers) {
  std::string text;
  for (int i = 0; i < layers; ++i) {
    absl::StrAppend(&text, "layers { dense { units: 30 activation: TANH } }");
  }
  return text + "layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY";
}

// A set of gradients in a model's host memory, in the order of the variables, or the other way
// round.
class DirectGradients final : public GradientSink {
 public:
  DirectGradients(const ModelPlan& plan, std::shared_ptr<HostMemory> memory, bool reversed = false)
      : memory_(std::move(memory)), begins_(plan.variables.size()) {
    constexpr size_t kAlignment = HostMemory::kAlignment / sizeof(float);
    for (const VariableSpec& variable : plan.variables) {
      const auto& shape = variable.shape();
      sizes_.push_back(ElementCount({shape.begin(), shape.end()}));
    }
    size_t elements = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const size_t variable = reversed ? sizes_.size() - 1 - i : i;
      begins_[variable] = elements;
      elements += (sizes_[variable] + kAlignment - 1) / kAlignment * kAlignment;
    }
    floats_ = static_cast<float*>(memory_->Allocate(elements * sizeof(float)));
    std::memset(floats_, 0, elements * sizeof(float));
  }
  ~DirectGradients() override { memory_->Free(floats_); }

  absl::Span<float> Buffer(size_t variable) override {
    return absl::MakeSpan(floats_ + begins_[variable], sizes_[variable]);
  }
  absl::Span<float> DeviceBuffer(size_t variable) override { return Buffer(variable); }
  void Finished(size_t variable) override {
    const absl::Span<float> gradient = Buffer(variable);
    finished_.resize(sizes_.size());
    finished_[variable].assign(gradient.begin(), gradient.end());
  }

  // As each was when it was finished.
  const std::vector<std::vector<float>>& gradients() const { return finished_; }

 private:
  const std::shared_ptr<HostMemory> memory_;
  std::vector<size_t> begins_;
  std::vector<size_t> sizes_;
  float* floats_ = nullptr;
  std::vector<std::vector<float>> finished_;
};

class DirectGradientsTest : public ::testing::Test {
 protected:
  DirectGradientsTest() {
    cuda_emulation::Reset();
    cuda_emulation::SetDeviceCount(3);
  }
  ~DirectGradientsTest() override { cuda_emulation::Reset(); }

  std::unique_ptr<Model> Compile() const {
    cuda::Library* const library = TestLibrary(std::max(1, static_cast<int>(options_.gpus.size())));
    auto device = *CudaDevice::Open(library, options_, [](const absl::Status&) {});
    auto model = *device->Compile(plan_, {4, 4});
    FillValues(/*seed=*/1, 0.3f, model.get());
    return model;
  }

  std::vector<std::unique_ptr<DirectGradients>> Sets(size_t count, const Model& model) const {
    std::vector<std::unique_ptr<DirectGradients>> sets;
    for (size_t i = 0; i < count; ++i) {
      sets.push_back(std::make_unique<DirectGradients>(plan_, model.host_memory()));
    }
    return sets;
  }

  Batch BatchOf(uint64_t step, size_t size = 4) const { return RandomBatch(step, size, {7}, 4); }

  std::vector<std::vector<float>> Expected(uint64_t step, size_t size = 4) const {
    KeptGradients gradients(plan_);
    TrainOrDie(BatchOf(step, size), step, Compile().get(), &gradients);
    return gradients.gradients();
  }

  CudaDeviceOptions options_;
  ModelPlan plan_ = PlanOrDie(R"pb(
                                layers { dense { units: 12 activation: TANH } }
                                layers { batch_normalization {} }
                                layers { dense { units: 4 } }
                                loss: SPARSE_CATEGORICAL_CROSSENTROPY
                              )pb",
                              {7}, 4);
};

TEST_F(DirectGradientsTest, HaveTheBitsOfThoseThatAreCopied) {
  for (const uint64_t order : {0, 1, 2, 3, 4, 5}) {
    if (order == 3) plan_ = PlanOrDie(kWithALargeOne, {7}, 4);
    cuda_emulation::SetOrder(order);
    options_.gpus.resize(1 + order % 3);
    std::iota(options_.gpus.begin(), options_.gpus.end(), 0);
    const std::unique_ptr<Model> model = Compile();
    auto sets = Sets(3, *model);
    sets[1] = std::make_unique<DirectGradients>(plan_, model->host_memory(), /*reversed=*/true);
    KeptGradients kept(plan_);
    for (uint64_t step = 0; step < 8; ++step) {
      const size_t size = step % 4 == 3 ? 2 : 4;
      GradientSink* const sink =
          step % 4 == 2 ? static_cast<GradientSink*>(&kept) : sets[step % sets.size()].get();
      ASSERT_TRUE(model->Train(BatchOf(step, size), step, sink).ok());
      const auto& actual = sink == &kept ? kept.gradients() : sets[step % sets.size()]->gradients();
      std::vector<std::vector<float>> expected = Expected(step, size);
      for (size_t v = 0; v < expected.size(); ++v) {
        EXPECT_EQ(actual[v], expected[v]) << order << " " << step << " " << v;
        const absl::Span<float> left = sink->Buffer(v);
        EXPECT_EQ(std::vector<float>(left.begin(), left.end()), expected[v]) << v;
      }
    }
  }
}

// What is taken and given back within a step blocks it, too.
TEST_F(DirectGradientsTest, StepsTakeNothingAnyMoreOnceEachSetHasHadEachSizeOfBatch) {
  MILLRACE_NEEDS_EMULATION();
  for (const size_t gpus : {1, 2}) {
    options_.gpus.resize(gpus);
    std::iota(options_.gpus.begin(), options_.gpus.end(), 0);
    const std::unique_ptr<Model> model = Compile();
    const auto sets = Sets(kGradientSets, *model);
    const auto train = [&](uint64_t begin, uint64_t end) {
      for (uint64_t step = begin; step < end; ++step) {
        const Batch batch = BatchOf(step, step % 4 == 3 ? 2 : 4);
        ASSERT_TRUE(model->Train(batch, step, sets[step % sets.size()].get()).ok());
        if (step % 3 != 2) continue;
        EvaluationSums sums;
        ASSERT_TRUE(model->Evaluate(batch, &sums).ok());
      }
    };
    train(0, 4 * kGradientSets);
    const cuda_emulation::Usage in_use = cuda_emulation::InUse();
    const cuda_emulation::Counts before = cuda_emulation::Counted();
    train(4 * kGradientSets, 12 * kGradientSets);
    const cuda_emulation::Counts after = cuda_emulation::Counted();
    EXPECT_EQ(after.allocations, before.allocations) << gpus;
    EXPECT_EQ(after.pinned_allocations, before.pinned_allocations) << gpus;
    EXPECT_EQ(after.events, before.events) << gpus;
    EXPECT_EQ(after.graph_nodes, before.graph_nodes) << gpus;
    EXPECT_EQ(cuda_emulation::InUse(), in_use) << gpus;
  }
}

TEST_F(DirectGradientsTest, EachSetIsCapturedOnceAndMoreThanAFewMakeRoomForEachOther) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<Model> model = Compile();
  const auto sets = Sets(10, *model);
  const auto train = [&](size_t set) {
    ASSERT_TRUE(model->Train(BatchOf(set), set, sets[set].get()).ok());
    EXPECT_EQ(sets[set]->gradients(), Expected(set));
  };
  for (size_t set = 0; set < kGradientSets; ++set) train(set);
  const cuda_emulation::Usage in_use = cuda_emulation::InUse();
  const cuda_emulation::Counts before = cuda_emulation::Counted();
  for (size_t set = 0; set < kGradientSets; ++set) {
    ASSERT_TRUE(model->Train(BatchOf(9), 9, sets[set].get()).ok());
    EXPECT_EQ(sets[set]->gradients(), sets[0]->gradients());
  }
  EXPECT_EQ(cuda_emulation::Counted().launches, before.launches);
  EXPECT_EQ(cuda_emulation::InUse().graphs, in_use.graphs);
  EXPECT_EQ(cuda_emulation::InUse().allocations, in_use.allocations);
  EXPECT_EQ(cuda_emulation::InUse().pinned_allocations, in_use.pinned_allocations);
  for (size_t set = 0; set < sets.size(); ++set) train(set);
  // One more than there are sets was there already: that of the model's own memory.
  EXPECT_EQ(cuda_emulation::InUse().graphs, in_use.graphs);
}

TEST_F(DirectGradientsTest, SeveralGpusCopyPiecesIntoAnySetWithTheSameGraphs) {
  MILLRACE_NEEDS_EMULATION(3);
  options_.gpus = {0, 1, 2};
  plan_ = PlanOrDie(kWithALargeOne, {7}, 4);
  const std::unique_ptr<Model> model = Compile();
  const auto sets = Sets(2, *model);
  const cuda_emulation::Usage in_use = cuda_emulation::InUse();
  for (const auto& set : sets) {
    ASSERT_TRUE(model->Train(BatchOf(9), 9, set.get()).ok());
    EXPECT_EQ(set->gradients(), sets[0]->gradients());
  }
  EXPECT_EQ(cuda_emulation::InUse().graphs, in_use.graphs);
}

// Each was a copy once. A step's others are as many as in a small model.
TEST_F(DirectGradientsTest, OfOneGpuSmallOnesThatLeaveTogetherAreOneCopy) {
  MILLRACE_NEEDS_EMULATION();
  const auto copies = [&](int layers, bool direct) {
    plan_ = PlanOrDie(DeepModel(layers), {7}, 4);
    const std::unique_ptr<Model> model = Compile();
    DirectGradients set(plan_, model->host_memory());
    KeptGradients kept(plan_);
    GradientSink* const sink = direct ? static_cast<GradientSink*>(&set) : &kept;
    const uint64_t before = cuda_emulation::Counted().copies;
    EXPECT_TRUE(model->Train(BatchOf(1), 1, sink).ok());
    return cuda_emulation::Counted().copies - before;
  };
  for (const bool direct : {false, true}) EXPECT_EQ(copies(60, direct), copies(0, direct));
}

// Each was a copy once, or two: outside of graphs, by the thread that enqueues the next bucket. Of
// all copies of the step, those of the batch, the losses and from GPU to GPU are a few dozen.
TEST_F(DirectGradientsTest, OfTwoGpusManySmallOnesAreFewCopies) {
  MILLRACE_NEEDS_EMULATION(2);
  options_.gpus = {0, 1};
  plan_ = PlanOrDie(DeepModel(60), {7}, 4);
  const std::unique_ptr<Model> model = Compile();
  const auto sets = Sets(2, *model);
  ASSERT_TRUE(model->Train(BatchOf(1), 1, sets[0].get()).ok());
  const uint64_t before = cuda_emulation::Counted().copies;
  ASSERT_TRUE(model->Train(BatchOf(1), 1, sets[1].get()).ok());
  EXPECT_LT(cuda_emulation::Counted().copies - before, plan_.variables.size());
  EXPECT_EQ(sets[1]->gradients(), Expected(1));
  options_.gpus = {0};
  const std::vector<std::vector<float>> by_one = Expected(1);
  for (size_t v = 0; v < by_one.size(); ++v) {
    EXPECT_THAT(sets[1]->gradients()[v], Pointwise(FloatNear(1e-5f), by_one[v])) << v;
  }
}

// Whoever the set belongs to may write there at once.
TEST_F(DirectGradientsTest, NothingComesToASetOnceItsStepHasEndedWithoutGradients) {
  plan_ = PlanOrDie(kWithALargeOne, {7}, 4);
  for (const uint64_t order : {0, 1, 2, 3, 4, 5, 6, 7}) {
    SCOPED_TRACE(::testing::Message() << "order " << order);
    cuda_emulation::SetOrder(order);
    options_.gpus.resize(1 + order % 2);
    std::iota(options_.gpus.begin(), options_.gpus.end(), 0);
    const std::unique_ptr<Model> model = Compile();
    const auto sets = Sets(2, *model);
    model->values(0)[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(model->Train(BatchOf(1), 1, sets[0].get()).status(),
              absl::OutOfRangeError("the loss is nan"));
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      std::ranges::fill(sets[0]->Buffer(v), 5.0f);
    }
    model->values(0)[0] = 0.25f;
    ASSERT_TRUE(model->Train(BatchOf(2), 2, sets[1].get()).ok());
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      EXPECT_THAT(sets[0]->Buffer(v), Each(5.0f)) << v;
    }
  }
}

// The others may not have done yet what they copy there.
TEST_F(DirectGradientsTest, OfSeveralGpusOneOfWhichIsLostSetsAreKept) {
  MILLRACE_NEEDS_EMULATION(3);
  options_.gpus = {0, 1, 2};
  plan_ = PlanOrDie(kWithALargeOne, {7}, 4);
  for (const int kernel : {1, 8, 15}) {
    for (const uint64_t order : {0, 1, 2, 3}) {
      cuda_emulation::Reset();
      cuda_emulation::SetDeviceCount(3);
      cuda_emulation::SetOrder(order);
      const std::unique_ptr<Model> model = Compile();
      auto sets = Sets(1, *model);
      cuda_emulation::FailKernelOf(1, kernel);
      EXPECT_FALSE(model->Train(BatchOf(1), 1, sets[0].get()).ok());
      sets.clear();
    }
  }
}

TEST_F(DirectGradientsTest, SetOutlivesModelAndDevice) {
  const size_t before = cuda_emulation::InUse().pinned_allocations;
  {
    std::unique_ptr<Model> model = Compile();
    const auto sets = Sets(1, *model);
    ASSERT_TRUE(model->Train(BatchOf(5), 5, sets[0].get()).ok());
    model.reset();
    if (!OnRealGpu()) {
      EXPECT_EQ(cuda_emulation::InUse().pinned_allocations, before + 1);
    }
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      const absl::Span<float> gradient = sets[0]->Buffer(v);
      EXPECT_EQ(std::vector<float>(gradient.begin(), gradient.end()), sets[0]->gradients()[v]);
    }
  }
  EXPECT_EQ(cuda_emulation::InUse().pinned_allocations, before);
}

TEST_F(DirectGradientsTest, MemoryOfADeviceThatDoesNotAnswerIsKept) {
  MILLRACE_NEEDS_EMULATION();
  const auto state = std::make_shared<DeviceState>("cuda:0", absl::Hours(1));
  CudaHostMemory memory(TestLibrary(), 0, /*several=*/false, state);
  void* const first = memory.Allocate(16);
  void* const second = memory.Allocate(16);
  const size_t both = cuda_emulation::InUse().pinned_allocations;
  memory.Free(first);
  state->Hang(absl::UnavailableError("hangs"));
  memory.Free(second);
  EXPECT_EQ(cuda_emulation::InUse().pinned_allocations, both - 1);
  EXPECT_EQ(memory.Allocate(16), nullptr);
  TestLibrary()->FreePinned(0, second);
}

TEST_F(DirectGradientsTest, MemoryThatIsNotToBeHadIsNull) {
  MILLRACE_NEEDS_EMULATION();
  const std::unique_ptr<Model> model = Compile();
  cuda_emulation::FailPinnedAllocation(1);
  EXPECT_EQ(model->host_memory()->Allocate(16), nullptr);
  void* const memory = model->host_memory()->Allocate(16);
  EXPECT_NE(memory, nullptr);
  model->host_memory()->Free(memory);
}

}  // namespace
}  // namespace millrace::worker
