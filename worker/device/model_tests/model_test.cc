// What every device does with a model of chains.
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Shape kImage = {9, 8, 2};
constexpr size_t kBatch = 12;

constexpr char kLogistic[] =
    "layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY metrics: [ACCURACY, AUC]";

std::vector<float> AllValues(Model* model) {
  std::vector<float> all;
  for (size_t variable = 0; variable < model->variables().size(); ++variable) {
    const absl::Span<float> values = model->values(variable);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Full and short batches in turns.
void TrainSomeSteps(const ModelPlan& plan, Model* model) {
  KeptGradients gradients(plan);
  for (uint64_t step = 0; step < 8; ++step) {
    const Batch batch = RandomBatch(step, step % 3 == 2 ? 5 : kBatch, kImage, 4);
    TrainOrDie(batch, step, model, &gradients);
    ApplySgd(0.3f, gradients, model);
  }
}

std::vector<float> ValuesAfterSomeSteps(const ModelPlan& plan) {
  const std::unique_ptr<Model> model = CompileOrDie(plan, kBatch);
  FillValues(/*seed=*/1, 0.3f, model.get());
  TrainSomeSteps(plan, model.get());
  return AllValues(model.get());
}

TEST(DeviceModelTest, EqualBitsInEveryThread) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const std::vector<float> expected = ValuesAfterSomeSteps(plan);
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& values : found) {
    threads.emplace_back([&] { values = ValuesAfterSomeSteps(plan); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& values : found) EXPECT_EQ(values, expected);
}

TEST(DeviceModelTest, ModelsMoveBetweenThreads) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const std::vector<float> expected = ValuesAfterSomeSteps(plan);
  // All are made in this thread and run at the same time in others: no memory may be shared.
  std::vector<std::unique_ptr<Model>> models;
  for (int i = 0; i < 3; ++i) {
    models.push_back(CompileOrDie(plan, kBatch));
    FillValues(/*seed=*/1, 0.3f, models.back().get());
  }
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Model>& model : models) {
    threads.emplace_back([&plan, &model] { TrainSomeSteps(plan, model.get()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::unique_ptr<Model>& model : models) EXPECT_EQ(AllValues(model.get()), expected);
}

TEST(DeviceModelTest, ShortBatchEqualsTheSameExamplesAlone) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kBatch, kImage, 4);
  const Batch part = ExamplesOf(batch, 0, 5);
  const std::unique_ptr<Model> large = CompileOrDie(plan, kBatch);
  const std::unique_ptr<Model> small = CompileOrDie(plan, 5);
  KeptGradients large_gradients(plan);
  KeptGradients small_gradients(plan);
  for (Model* model : {large.get(), small.get()}) FillValues(/*seed=*/1, 0.3f, model);

  TrainOrDie(batch, /*seed=*/0, large.get(), &large_gradients);
  const BatchResult of_large = TrainOrDie(part, /*seed=*/7, large.get(), &large_gradients);
  const BatchResult of_small = TrainOrDie(part, /*seed=*/7, small.get(), &small_gradients);
  EXPECT_EQ(of_large.loss_sum, of_small.loss_sum);
  EXPECT_EQ(of_large.accuracy_sum, of_small.accuracy_sum);
  EXPECT_EQ(large_gradients.gradients(), small_gradients.gradients());
}

TEST(DeviceModelTest, LossSumsAddUpOverTheBatches) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kBatch, kImage, 4);
  const std::unique_ptr<Model> model = CompileOrDie(plan, kBatch);
  FillValues(/*seed=*/1, 0.3f, model.get());
  EvaluationSums whole;
  ASSERT_TRUE(model->Evaluate(batch, &whole).ok());
  EvaluationSums parts;
  for (size_t begin = 0; begin < kBatch; begin += 5) {
    const size_t end = std::min(begin + 5, kBatch);
    ASSERT_TRUE(model->Evaluate(ExamplesOf(batch, begin, end), &parts).ok());
  }
  EXPECT_EQ(parts.examples, whole.examples);
  EXPECT_EQ(parts.accuracy_sum, whole.accuracy_sum);
  // Sums in another order: float32 rounding of each logit.
  EXPECT_NEAR(parts.loss_sum, whole.loss_sum, 1e-5 * whole.loss_sum);
}

TEST(DeviceModelTest, ManyBatchSizesTakeTurns) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kBatch, kImage, 4);
  const std::unique_ptr<Model> model = CompileOrDie(plan, kBatch);
  FillValues(/*seed=*/1, 0.3f, model.get());
  KeptGradients gradients(plan);
  std::vector<double> first;
  for (int round = 0; round < 2; ++round) {
    for (size_t size = 1; size <= kBatch; ++size) {
      const double loss =
          TrainOrDie(ExamplesOf(batch, 0, size), 2, model.get(), &gradients).loss_sum;
      if (round == 0) first.push_back(loss);
      EXPECT_EQ(loss, first[size - 1]) << size;
    }
  }
}

TEST(DeviceModelTest, LastLayersGradientsAreFinishedFirst) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const std::unique_ptr<Model> model = CompileOrDie(plan, kBatch);
  KeptGradients gradients(plan);
  TrainOrDie(RandomBatch(/*seed=*/3, kBatch, kImage, 4), 0, model.get(), &gradients);
  EXPECT_THAT(gradients.finished(), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
}

TEST(DeviceModelTest, DropoutFollowsTheSeedInTrainingOnly) {
  const ModelPlan plan = PlanOrDie(kPictureNetwork, kImage, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kBatch, kImage, 4);
  const std::unique_ptr<Model> model = CompileOrDie(plan, kBatch);
  FillValues(/*seed=*/1, 0.3f, model.get());
  KeptGradients gradients(plan);
  const double one = TrainOrDie(batch, 1, model.get(), &gradients).loss_sum;
  const double two = TrainOrDie(batch, 2, model.get(), &gradients).loss_sum;
  EXPECT_NE(one, two);
  EXPECT_EQ(TrainOrDie(batch, 1, model.get(), &gradients).loss_sum, one);
  EvaluationSums sums[2];
  for (EvaluationSums& each : sums) ASSERT_TRUE(model->Evaluate(batch, &each).ok());
  EXPECT_EQ(sums[0].loss_sum, sums[1].loss_sum);
}

TEST(DeviceModelTest, NanLossEndsTheStepBeforeAnyGradient) {
  const ModelPlan plan = PlanOrDie(kLogistic, {3}, 2);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  KeptGradients gradients(plan);
  Batch batch = RandomBatch(/*seed=*/3, 4, {3}, 2);
  batch.features[0].floats[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(model->Train(batch, 0, &gradients).status(), absl::OutOfRangeError("the loss is nan"));
  EXPECT_THAT(gradients.finished(), IsEmpty());
}

TEST(DeviceModelTest, NanVariablesShowInTheLossBehindEveryActivation) {
  // A relu that takes NaN for 0 would hide that the training has diverged.
  for (const std::string activation : {"LINEAR", "RELU", "SIGMOID", "SOFTMAX"}) {
    for (const std::string& layers :
         {"layers { dense { units: 20 activation: " + activation + " } }",
          "layers { dense { units: 20 } } layers { activation { function: " + activation +
              " } }"}) {
      SCOPED_TRACE(layers);
      const ModelPlan plan = PlanOrDie(layers + kLogistic, {3}, 2);
      const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
      FillValues(/*seed=*/1, 0.3f, model.get());
      model->values(0)[5] = std::numeric_limits<float>::quiet_NaN();
      KeptGradients gradients(plan);
      EXPECT_EQ(model->Train(RandomBatch(3, 4, {3}, 2), 0, &gradients).status().code(),
                absl::StatusCode::kOutOfRange);
    }
  }
}

TEST(DeviceModelTest, NanVariablesShowInTheLossBehindPooling) {
  const ModelPlan plan = PlanOrDie(
      "layers { conv2d { filters: 4 kernel_size: 3 activation: RELU } } layers { max_pool2d {} } "
      "layers { flatten {} }" +
          std::string(kLogistic),
      {8, 8, 1}, 2);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  FillValues(/*seed=*/1, 0.3f, model.get());
  model->values(0)[5] = std::numeric_limits<float>::quiet_NaN();
  KeptGradients gradients(plan);
  EXPECT_EQ(model->Train(RandomBatch(3, 4, {8, 8, 1}, 2), 0, &gradients).status(),
            absl::OutOfRangeError("the loss is nan"));
}

TEST(DeviceModelTest, LabelsOutsideTheLossAreRefused) {
  const ModelPlan plan = PlanOrDie(kLogistic, {3}, 2);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  KeptGradients gradients(plan);
  Batch batch = RandomBatch(/*seed=*/3, 4, {3}, 2);
  batch.labels[0].ids[2] = 2;
  EXPECT_EQ(
      model->Train(batch, 0, &gradients).status(),
      absl::InvalidArgumentError("a batch has the label 2 in 'label'; the loss takes 0 to 1"));
  batch.labels[0].ids[2] = -1;
  EvaluationSums sums;
  EXPECT_EQ(model->Evaluate(batch, &sums).code(), absl::StatusCode::kInvalidArgument);
}

TEST(DeviceModelTest, BatchesWithoutExamplesAreRefused) {
  const ModelPlan plan = PlanOrDie(kLogistic, {3}, 2);
  EXPECT_EQ(MakeTestDevice(1)->Compile(plan, {0, 4}).status(),
            absl::InvalidArgumentError("a batch has at least 1 example"));
}

TEST(DeviceModelTest, EvaluatesLargerBatchesThanItTrainsOn) {
  const ModelPlan plan = PlanOrDie(
      "layers { conv2d { filters: 2 kernel_size: 3 } } layers { max_pool2d {} } "
      "layers { flatten {} } layers { dense { units: 3 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {8, 8, 1}, 3);
  absl::StatusOr<std::unique_ptr<Model>> made = MakeTestDevice(1)->Compile(plan, {2, 12});
  ASSERT_TRUE(made.ok()) << made.status();
  const std::unique_ptr<Model> model = *std::move(made);
  FillValues(/*seed=*/1, 0.3f, model.get());
  const Batch batch = RandomBatch(/*seed=*/3, 12, {8, 8, 1}, 3);
  EvaluationSums whole;
  ASSERT_TRUE(model->Evaluate(batch, &whole).ok());
  double parts = 0;
  KeptGradients gradients(plan);
  for (size_t begin = 0; begin < 12; begin += 2) {
    parts += TrainOrDie(ExamplesOf(batch, begin, begin + 2), 0, model.get(), &gradients).loss_sum;
  }
  EXPECT_NEAR(whole.loss_sum, parts, 1e-4);
}

TEST(DeviceModelTest, EvaluationKeepsScoresForTheAuc) {
  const ModelPlan plan = PlanOrDie(kLogistic, {1}, 2);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  model->values(0)[0] = 1;
  EvaluationSums sums;
  ASSERT_TRUE(model->Evaluate(FloatsAndClasses({-1, 2, 3, -4}, {1, 0, 1, 0}), &sums).ok());
  EXPECT_THAT(sums.curves["auc"].scores(), ElementsAre(-1, 2, 3, -4));
  EXPECT_THAT(sums.curves["auc"].positives(), ElementsAre(true, false, true, false));
  const std::map<std::string, double> metrics = EvaluationMetrics(sums);
  EXPECT_EQ(metrics.at("accuracy"), 0.5);
  EXPECT_EQ(metrics.at("auc"), 0.75);
}

TEST(DeviceModelTest, LearnsExclusiveOr) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 8 activation: RELU } } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY",
      {2}, 2);
  const BatchResult result = LearnExclusiveOr(plan);
  EXPECT_LT(result.loss_sum, 0.2);
  EXPECT_EQ(result.accuracy_sum, 4);
}

TEST(DeviceModelTest, ConvolutionsLearnWhereAPatternIs) {
  const ModelPlan plan = PlanOrDie(
      "layers { conv2d { filters: 4 kernel_size: 2 activation: RELU } } layers { max_pool2d {} } "
      "layers { flatten {} } layers { dropout { rate: 0.1 } } layers { dense { units: 3 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY",
      {6, 6, 1}, 3);
  EXPECT_GT(LearnBrighterThird(plan, 200), 0.95);
}

}  // namespace
}  // namespace millrace::worker
