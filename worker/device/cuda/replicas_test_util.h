// Models on several GPUs, for tests.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_REPLICAS_TEST_UTIL_H_
#define MILLRACE_WORKER_DEVICE_CUDA_REPLICAS_TEST_UTIL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {

// Without batch normalization, which normalizes by each GPU's own examples.
inline constexpr char kPlain[] = R"pb(
  layers { conv2d { filters: 5 kernel_size: 3 activation: RELU } }
  layers { dropout { rate: 0.3 } }
  layers { flatten {} }
  layers {
    dense {
      units: 7
      activation: TANH
      kernel_regularizer { l1: 0.01 l2: 0.02 }
    }
  }
  layers { layer_normalization {} }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
  metrics: ACCURACY
)pb";
inline const Shape kPicture = {5, 4, 2};
inline constexpr size_t kLargest = 7;
inline constexpr int kLeastGpus = 2;

class ReplicasTest : public ::testing::Test {
 protected:
  // A real machine with fewer than `least_gpus` has the emulated ones tested.
  explicit ReplicasTest(int least_gpus = kLeastGpus) : library_(TestLibrary(least_gpus)) {
    StartAnew(/*order=*/0);
  }
  ~ReplicasTest() override { cuda_emulation::Reset(); }

  static void StartAnew(uint64_t order) {
    cuda_emulation::Reset();
    cuda_emulation::SetDeviceCount(4);
    cuda_emulation::SetOrder(order);
  }

  // Of several, as far as there are so many.
  std::vector<int> GpuCounts() const {
    std::vector<int> counts = {2, 3, 4};
    counts.resize(static_cast<size_t>(std::min(library_->GpuCount(), 4)) - 1);
    return counts;
  }

  absl::StatusOr<std::unique_ptr<CudaDevice>> Open(std::vector<int> gpus) {
    options_.gpus = std::move(gpus);
    return CudaDevice::Open(library_, options_,
                            [this](const absl::Status& why) { lost_.push_back(why); });
  }

  // On the first `gpus` of them.
  std::unique_ptr<Model> Compile(const ModelPlan& plan, int gpus) {
    std::vector<int> indices;
    for (int i = 0; i < gpus; ++i) indices.push_back(i);
    auto device = Open(indices);
    EXPECT_TRUE(device.ok()) << device.status();
    auto model = (*device)->Compile(plan, {kLargest, kLargest});
    EXPECT_TRUE(model.ok()) << model.status();
    FillValues(/*seed=*/1, 0.3f, model->get());
    return *std::move(model);
  }

  Batch RandomPictures(size_t size) const { return RandomBatch(size, size, kPicture, 4); }

  // That several GPUs give what one does, but for rounding.
  void ExpectLikeOne(const ModelPlan& plan, const std::vector<Batch>& batches) {
    const std::unique_ptr<Model> one = Compile(plan, 1);
    KeptGradients expected(plan);
    KeptGradients actual(plan);
    for (const int gpus : GpuCounts()) {
      const std::unique_ptr<Model> several = Compile(plan, gpus);
      for (const Batch& batch : batches) {
        SCOPED_TRACE(::testing::Message() << batch.size << " examples on " << gpus << " GPUs");
        const BatchResult by_one = TrainOrDie(batch, /*seed=*/9, one.get(), &expected);
        const BatchResult by_several = TrainOrDie(batch, /*seed=*/9, several.get(), &actual);
        EXPECT_NEAR(by_several.loss_sum, by_one.loss_sum, 1e-5 * by_one.loss_sum);
        EXPECT_EQ(by_several.accuracy_sum, by_one.accuracy_sum);
        ExpectClose(plan, actual, expected);
        ExpectEqualEvaluation(batch, one.get(), several.get());
      }
    }
  }

  static void ExpectClose(const ModelPlan& plan, const KeptGradients& actual,
                          const KeptGradients& expected) {
    for (size_t v = 0; v < plan.variables.size(); ++v) {
      EXPECT_THAT(actual.gradient(v),
                  ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.gradient(v)))
          << plan.variables[v].name();
    }
  }

  static void ExpectEqualEvaluation(const Batch& batch, Model* one, Model* several) {
    EvaluationSums by_one;
    EvaluationSums by_several;
    ASSERT_TRUE(one->Evaluate(batch, &by_one).ok());
    ASSERT_TRUE(several->Evaluate(batch, &by_several).ok());
    EXPECT_EQ(by_several.examples, by_one.examples);
    EXPECT_NEAR(by_several.loss_sum, by_one.loss_sum, 1e-5 * by_one.loss_sum);
    EXPECT_EQ(by_several.accuracy_sum, by_one.accuracy_sum);
  }

  cuda::Library* const library_;
  const ModelPlan plan_ = PlanOrDie(kPlain, kPicture, 4);
  CudaDeviceOptions options_;  // But for `gpus`.
  std::vector<absl::Status> lost_;
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CUDA_REPLICAS_TEST_UTIL_H_
