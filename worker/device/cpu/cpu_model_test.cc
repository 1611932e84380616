#include "worker/device/cpu/cpu_model.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;

const Shape kSmallImage = {9, 8, 2};
constexpr size_t kFewExamples = 12;

constexpr char kOneUnit[] =
    "layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY metrics: [ACCURACY, AUC]";

// Keeps what it is told early, too.
class EarlyGradients final : public GradientSink {
 public:
  explicit EarlyGradients(const ModelPlan& plan) : kept_(plan), early_(plan.variables.size()) {}

  absl::Span<float> Buffer(size_t variable) override { return kept_.Buffer(variable); }
  void FinishedFirst(size_t variable, size_t count) override {
    ASSERT_GE(count, early_[variable].size());
    const absl::Span<const float> now = kept_.Buffer(variable).subspan(0, count);
    early_[variable].insert(early_[variable].end(), now.begin() + early_[variable].size(),
                            now.end());
    ++tellings_;
  }
  void Finished(size_t variable) override { kept_.Finished(variable); }

  const std::vector<float>& gradient(size_t variable) const { return kept_.gradient(variable); }
  const std::vector<float>& early(size_t variable) const { return early_[variable]; }
  int tellings() const { return tellings_; }

 private:
  KeptGradients kept_;
  std::vector<std::vector<float>> early_;
  int tellings_ = 0;
};

// 700 x 512 elements are three parts.
TEST(CpuModelTest, PartsOfALongKernelAreFinalWhenTheyAreTold) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 512 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", {700}, 512);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 1);
  FillValues(/*seed=*/1, 0.3f, model.get());
  const Batch batch = RandomBatch(/*seed=*/3, 1, {700}, 512);
  EarlyGradients gradients(plan);
  ASSERT_TRUE(model->Train(batch, /*seed=*/0, &gradients).ok());
  EXPECT_EQ(gradients.tellings(), 3);
  EXPECT_EQ(gradients.early(0), gradients.gradient(0));
  // Of one example it is the product of the input and the bias's gradient.
  for (size_t i = 0; i < 700; ++i) {
    for (size_t j = 0; j < 512; ++j) {
      ASSERT_FLOAT_EQ(gradients.gradient(0)[i * 512 + j],
                      batch.features[0].floats[i] * gradients.gradient(1)[j]);
    }
  }
}

// What is added to it is not there yet.
TEST(CpuModelTest, NothingOfASharedOrRegularizedKernelIsToldEarly) {
  for (const char* text : {"layers { dense { units: 600 kernel_regularizer { l2: 0.1 } } } "
                           "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
                           "layers { name: 'a' dense { units: 600 } } "
                           "layers { name: 'b' dense { units: 600 } variables_of: 'a' } "
                           "loss: SPARSE_CATEGORICAL_CROSSENTROPY"}) {
    const ModelPlan plan = PlanOrDie(text, {600}, 600);
    const std::unique_ptr<Model> model = CompileOrDie(plan, 1);
    FillValues(/*seed=*/1, 0.3f, model.get());
    EarlyGradients gradients(plan);
    ASSERT_TRUE(model->Train(RandomBatch(/*seed=*/3, 1, {600}, 600), /*seed=*/0, &gradients).ok());
    EXPECT_EQ(gradients.tellings(), 0) << text;
  }
}

TEST(CpuModelTest, SeveralThreadsComputeTheSame) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kSmallImage, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kFewExamples, kSmallImage, 4);
  std::vector<double> losses;
  for (const int threads : {1, 2, 2}) {
    const std::unique_ptr<Model> model = CompileOrDie(plan, kFewExamples, threads);
    FillValues(/*seed=*/1, 0.3f, model.get());
    KeptGradients gradients(plan);
    losses.push_back(TrainOrDie(batch, 2, model.get(), &gradients).loss_sum);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5 * losses[0]);
  EXPECT_EQ(losses[1], losses[2]);
}

TEST(CpuModelTest, ModelsLargerThanTheMachineAreRefused) {
  const ModelPlan plan =
      PlanOrDie("layers { dense { units: 4194304 } }" + std::string(kOneUnit), {262144}, 2);
  const absl::Status status = CpuModel::Compile(plan, {4, 0}, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("needs 16384."));
  EXPECT_THAT(std::string(status.message()), HasSubstr("batches of 4 examples"));
}

}  // namespace
}  // namespace millrace::worker
