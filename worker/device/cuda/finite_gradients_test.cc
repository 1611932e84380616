// Gradients that a GPU looks at, so that the host need not.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_gradients.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int kMostGpus = 4;
constexpr float kLargest = std::numeric_limits<float>::max();

// Keeps how each gradient of a step was finished.
class ToldGradients final : public GradientSink {
 public:
  // `direct`: the device copies them to where they are wanted.
  ToldGradients(const ModelPlan& plan, std::shared_ptr<HostMemory> memory, bool direct)
      : memory_(std::move(memory)), direct_(direct) {
    constexpr size_t kAlignment = HostMemory::kAlignment / sizeof(float);
    size_t elements = 0;
    for (const VariableSpec& variable : plan.variables) {
      const auto& shape = variable.shape();
      begins_.push_back(elements);
      sizes_.push_back(ElementCount({shape.begin(), shape.end()}));
      elements += (sizes_.back() + kAlignment - 1) / kAlignment * kAlignment;
    }
    floats_ = static_cast<float*>(memory_->Allocate(elements * sizeof(float)));
    std::fill_n(floats_, elements, 0.0f);
  }
  ~ToldGradients() override { memory_->Free(floats_); }

  absl::Span<float> Buffer(size_t variable) override {
    return absl::MakeSpan(floats_ + begins_[variable], sizes_[variable]);
  }
  absl::Span<float> DeviceBuffer(size_t variable) override {
    return direct_ ? Buffer(variable) : absl::Span<float>();
  }
  void Finished(size_t variable) override { unknown_.push_back(variable); }
  void FinishedFinite(size_t variable) override { finite_.push_back(variable); }

  void Clear() {
    unknown_.clear();
    finite_.clear();
  }

  // In the order in which they were finished.
  const std::vector<size_t>& unknown() const { return unknown_; }
  const std::vector<size_t>& finite() const { return finite_; }

 private:
  const std::shared_ptr<HostMemory> memory_;
  const bool direct_;
  std::vector<size_t> begins_;
  std::vector<size_t> sizes_;
  float* floats_ = nullptr;
  std::vector<size_t> unknown_;
  std::vector<size_t> finite_;
};

// Two groups: the last two layers, of which the kernel in the middle is large, and the first one.
constexpr char kLayers[] = R"pb(
  layers { dense { units: 250 } }
  layers { dense { units: 300 } }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";
static_assert(250 * 300 * sizeof(float) >= CudaGradients::kGroupBytes);

class FiniteGradientsTest : public ::testing::Test {
 protected:
  FiniteGradientsTest() {
    cuda_emulation::Reset();
    cuda_emulation::SetDeviceCount(kMostGpus);
  }
  ~FiniteGradientsTest() override { cuda_emulation::Reset(); }

  // For batches of as many examples as there are GPUs.
  static std::unique_ptr<Model> Compile(const ModelPlan& plan, int gpus = 1,
                                        bool deterministic = true) {
    CudaDeviceOptions options;
    options.gpus.resize(static_cast<size_t>(gpus));
    std::iota(options.gpus.begin(), options.gpus.end(), 0);
    options.deterministic = deterministic;
    auto device = *CudaDevice::Open(TestLibrary(gpus), options, [](const absl::Status&) {});
    return *device->Compile(plan, {static_cast<size_t>(gpus), 0});
  }

  // The output is 0 whatever the features are, and so the loss finite. Far back gradients are
  // large: that of the first kernel is infinite where a feature is kLargest.
  static void FillSteep(Model* model) {
    FillValues(/*seed=*/1, 0.0f, model);
    for (float& value : model->values(2)) value = 1;
    Steepen(model);
  }
  // The same, but that of the second kernel is, and nothing gets behind it.
  static void FillSteepBehind(Model* model) {
    FillValues(/*seed=*/1, 0.0f, model);
    for (float& value : model->values(1)) value = kLargest;
    Steepen(model);
  }

  static Batch BatchOf(float feature) {
    return FloatsAndClasses(std::vector<float>(8, feature), {1});
  }

  const ModelPlan plan_ = PlanOrDie(kLayers, {8}, 4);

 private:
  static void Steepen(Model* model) {
    for (float& value : model->values(4)) value = 1000;
    for (size_t i = 0; i < model->values(4).size(); i += 4) model->values(4)[i] = 0;
  }
};

TEST_F(FiniteGradientsTest, AStepsGroupThatIsNotFiniteIsToldAndNoOther) {
  for (const uint64_t order : {0, 1, 2, 3, 4, 5, 6, 7}) {
    for (const bool direct : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "order " << order << (direct ? ", direct" : ""));
      cuda_emulation::SetOrder(order);
      const std::unique_ptr<Model> model = Compile(plan_);
      ToldGradients gradients(plan_, model->host_memory(), direct);
      FillSteep(model.get());
      for (const float feature : {1.0f, kLargest, 1.0f, kLargest, kLargest, 1.0f}) {
        gradients.Clear();
        ASSERT_TRUE(model->Train(BatchOf(feature), /*seed=*/1, &gradients).ok());
        if (feature == kLargest) {
          EXPECT_THAT(gradients.finite(), ElementsAre(5, 4, 3, 2));
          EXPECT_THAT(gradients.unknown(), ElementsAre(1, 0));
          EXPECT_FALSE(std::isfinite(gradients.Buffer(0)[0]));
        } else {
          EXPECT_THAT(gradients.finite(), ElementsAre(5, 4, 3, 2, 1, 0));
          EXPECT_THAT(gradients.unknown(), IsEmpty());
        }
      }
      FillSteepBehind(model.get());
      gradients.Clear();
      ASSERT_TRUE(model->Train(BatchOf(kLargest), /*seed=*/1, &gradients).ok());
      EXPECT_THAT(gradients.unknown(), ElementsAre(5, 4, 3, 2));
      EXPECT_THAT(gradients.finite(), ElementsAre(1, 0));
      EXPECT_FALSE(std::isfinite(gradients.Buffer(2)[0]));
    }
  }
}

// Everything is 0 but for one value, whose regularizer alone has an infinite gradient. The loss has
// its square, which is finite in float64.
TEST_F(FiniteGradientsTest, OneElementOfAnyVariableIsSeen) {
  ModelPlan plan = plan_;
  for (Regularizer& regularizer : plan.regularizers) regularizer.set_l2(1);
  const std::unique_ptr<Model> model = Compile(plan);
  ToldGradients gradients(plan, model->host_memory(), /*direct=*/true);
  const auto train = [&] {
    gradients.Clear();
    ASSERT_TRUE(model->Train(BatchOf(0), /*seed=*/1, &gradients).ok());
  };
  for (size_t v = 0; v < plan.variables.size(); ++v) {
    FillValues(/*seed=*/1, 0.0f, model.get());
    const size_t elements = gradients.Buffer(v).size();
    for (const size_t element : {size_t{0}, elements / 3, elements - 1}) {
      SCOPED_TRACE(::testing::Message() << "element " << element << " of " << v);
      model->values(v)[element] = kLargest;
      train();
      if (v < 2) {
        EXPECT_THAT(gradients.finite(), ElementsAre(5, 4, 3, 2));
        EXPECT_THAT(gradients.unknown(), ElementsAre(1, 0));
      } else {
        EXPECT_THAT(gradients.unknown(), ElementsAre(5, 4, 3, 2));
        EXPECT_THAT(gradients.finite(), ElementsAre(1, 0));
      }
      EXPECT_EQ(gradients.Buffer(v)[element], std::numeric_limits<float>::infinity());
      model->values(v)[element] = 0;
    }
    train();
    EXPECT_THAT(gradients.unknown(), IsEmpty());
  }
}

// Each looks at its piece of the sum; the two groups of one GPU are the buckets of several. Of the
// examples only the last one's gradients are infinite.
TEST_F(FiniteGradientsTest, OfSeveralGpusOnesPieceIsEnough) {
  for (const int gpus : {2, kMostGpus}) {
    for (const bool deterministic : {true, false}) {
      for (const uint64_t order : {0, 3}) {
        SCOPED_TRACE(::testing::Message() << gpus << " GPUs, order " << order
                                          << (deterministic ? "" : ", sums by NCCL"));
        cuda_emulation::SetOrder(order);
        const auto examples = static_cast<size_t>(gpus);
        const std::unique_ptr<Model> model = Compile(plan_, gpus, deterministic);
        ToldGradients gradients(plan_, model->host_memory(), /*direct=*/true);
        FillSteep(model.get());
        for (const bool finite : {true, false, true}) {
          gradients.Clear();
          std::vector<float> features(8 * examples, 1.0f);
          if (!finite) std::fill(features.end() - 8, features.end(), kLargest);
          const Batch batch =
              FloatsAndClasses(std::move(features), std::vector<int64_t>(examples, 1));
          ASSERT_TRUE(model->Train(batch, /*seed=*/1, &gradients).ok());
          EXPECT_EQ(std::isfinite(gradients.Buffer(0)[0]), finite);
          if (finite) {
            EXPECT_THAT(gradients.finite(), UnorderedElementsAre(0, 1, 2, 3, 4, 5));
            EXPECT_THAT(gradients.unknown(), IsEmpty());
          } else {
            EXPECT_THAT(gradients.finite(), UnorderedElementsAre(2, 3, 4, 5));
            EXPECT_THAT(gradients.unknown(), UnorderedElementsAre(0, 1));
          }
        }
      }
    }
  }
}

// As of one GPU, above; what is told does not depend on whose piece has the element. In the second
// round there is no example for the last GPU, and what it found before does not count.
TEST_F(FiniteGradientsTest, OfSeveralGpusOneElementOfAnyPieceIsSeen) {
  ModelPlan plan = plan_;
  for (Regularizer& regularizer : plan.regularizers) regularizer.set_l2(1);
  for (const int gpus : {3, kMostGpus}) {
    const std::unique_ptr<Model> model = Compile(plan, gpus);
    ToldGradients gradients(plan, model->host_memory(), /*direct=*/true);
    FillValues(/*seed=*/1, 0.0f, model.get());
    const auto all = static_cast<size_t>(gpus);
    const auto train = [&](size_t examples) {
      gradients.Clear();
      const Batch batch = FloatsAndClasses(std::vector<float>(8 * examples, 0.0f),
                                           std::vector<int64_t>(examples, 1));
      ASSERT_TRUE(model->Train(batch, /*seed=*/1, &gradients).ok());
    };
    for (const size_t examples : {all, all - 1}) {
      for (size_t v = 0; v < plan.variables.size(); ++v) {
        const size_t elements = gradients.Buffer(v).size();
        for (size_t quarter = 0; quarter <= 4; ++quarter) {
          const size_t element = quarter * (elements - 1) / 4;
          SCOPED_TRACE(::testing::Message() << "element " << element << " of " << v << ", "
                                            << examples << " of " << gpus << " GPUs");
          model->values(v)[element] = kLargest;
          train(examples);
          EXPECT_EQ(gradients.Buffer(v)[element], std::numeric_limits<float>::infinity());
          EXPECT_THAT(gradients.unknown(), Contains(v));
          EXPECT_EQ(gradients.finite().size(), v < 2 ? 4u : 2u);
          EXPECT_EQ(gradients.unknown().size(), v < 2 ? 2u : 4u);
          model->values(v)[element] = 0;
        }
      }
      // Of the kernel in the middle the last GPU has the end.
      model->values(2).back() = kLargest;
      train(all);
      EXPECT_THAT(gradients.unknown(), Contains(2));
      model->values(2).back() = 0;
      train(all - 1);
      EXPECT_THAT(gradients.unknown(), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace millrace::worker
