// What graphs, frozen layers and BatchNormalization add to models.
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/device/model_tests/test_device.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr size_t kBatchSize = 12;
const Shape kInput = {6, 5, 3};

constexpr char kResidual[] = R"pb(
  layers { conv2d { filters: 8 kernel_size: 3 padding: SAME no_bias: true } }
  layers { batch_normalization {} }
  layers {
    name: "stem"
    activation { function: RELU }
  }
  layers { conv2d { filters: 8 kernel_size: 3 padding: SAME no_bias: true } }
  layers {
    name: "block"
    batch_normalization {}
  }
  layers {
    add {}
    inputs: [ "block", "stem" ]
  }
  layers { activation { function: RELU } }
  layers { global_average_pooling2d {} }
  layers { dropout { rate: 0.2 } }
  layers { dense { units: 4 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

double LossOf(Model* model, const Batch& batch, KeptGradients* gradients) {
  const absl::StatusOr<BatchResult> result = model->Train(batch, /*seed=*/2, gradients);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->loss_sum;
}

// Moving averages as the ps servers would do it.
void ApplyStep(const ModelPlan& plan, const KeptGradients& gradients, Model* model) {
  for (const size_t variable : gradients.finished()) {
    const absl::Span<float> values = model->values(variable);
    const std::vector<float>& gradient = gradients.gradient(variable);
    const UpdateRule& update = plan.variables[variable].update();
    for (size_t i = 0; i < values.size(); ++i) {
      const float momentum = static_cast<float>(update.moving_average().momentum());
      values[i] = update.has_moving_average() ? momentum * values[i] + (1 - momentum) * gradient[i]
                                              : values[i] - 0.1f * gradient[i];
    }
  }
}

std::vector<std::vector<float>> GradientsAfterSomeSteps(const ModelPlan& plan, int threads) {
  const std::unique_ptr<Model> model = CompileOrDie(plan, kBatchSize, threads);
  FillValues(/*seed=*/1, 0.5f, model.get());
  KeptGradients gradients(plan);
  for (uint64_t step = 0; step < 6; ++step) {
    gradients = KeptGradients(plan);
    const size_t size = step % 3 == 2 ? 5 : kBatchSize;
    LossOf(model.get(), RandomBatch(step, size, kInput, 4), &gradients);
    ApplyStep(plan, gradients, model.get());
  }
  return gradients.gradients();
}

TEST(GraphModelTest, EqualBitsForEqualThreads) {
  const ModelPlan plan = PlanOrDie(kResidual, kInput, 4);
  for (const int threads : {1, 2}) {
    EXPECT_EQ(GradientsAfterSomeSteps(plan, threads), GradientsAfterSomeSteps(plan, threads));
  }
}

TEST(GraphModelTest, ShortBatchEqualsTheSameExamplesAlone) {
  const ModelPlan plan = PlanOrDie(kResidual, kInput, 4);
  const Batch batch = RandomBatch(/*seed=*/3, kBatchSize, kInput, 4);
  const std::unique_ptr<Model> large = CompileOrDie(plan, kBatchSize);
  const std::unique_ptr<Model> small = CompileOrDie(plan, 5);
  for (Model* model : {large.get(), small.get()}) FillValues(/*seed=*/1, 0.3f, model);
  KeptGradients of_large(plan);
  KeptGradients of_small(plan);
  LossOf(large.get(), batch, &of_large);
  EXPECT_EQ(LossOf(large.get(), ExamplesOf(batch, 0, 5), &of_large),
            LossOf(small.get(), ExamplesOf(batch, 0, 5), &of_small));
  EXPECT_EQ(of_large.gradients(), of_small.gradients());
}

TEST(GraphModelTest, BatchNormalizationPushesWhatItsBatchIsLike) {
  const ModelPlan plan = PlanOrDie(
      "layers { batch_normalization {} } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {2}, 2);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  KeptGradients gradients(plan);
  LossOf(model.get(), FloatsAndClasses({1, -8, 2, 0, 3, 4, 6, 8}, {0, 1, 0, 1}), &gradients);
  EXPECT_THAT(gradients.gradient(2), ElementsAre(3, 1));
  if (TestDeviceParts() == 1) {
    EXPECT_THAT(gradients.gradient(3), ElementsAre(3.5, 35));
  } else {  // The mean of the variances of each two examples.
    EXPECT_THAT(gradients.gradient(3), ElementsAre(1.25, 10));
  }
  EXPECT_THAT(gradients.finished(), UnorderedElementsAre(5, 4, 2, 3, 1, 0));
  // A batch of one varies by nothing.
  LossOf(model.get(), FloatsAndClasses({1, -8}, {0}), &gradients);
  EXPECT_THAT(gradients.gradient(2), ElementsAre(1, -8));
  EXPECT_THAT(gradients.gradient(3), ElementsAre(0, 0));
}

TEST(GraphModelTest, FrozenLayersAreNotGoneBackTo) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 3 } trainable: false } layers { batch_normalization {} } "
      "layers { dense { units: 4 } trainable: false } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {2}, 2);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  FillValues(/*seed=*/1, 0.3f, model.get());
  KeptGradients gradients(plan);
  LossOf(model.get(), RandomBatch(3, 4, {2}, 2), &gradients);
  EXPECT_THAT(gradients.finished(), UnorderedElementsAre(9, 8, 4, 5, 3, 2));
}

TEST(GraphModelTest, NanShowsInTheLossBehindEveryLayer) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ModelPlan plan = PlanOrDie(kResidual, kInput, 4);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 4);
  KeptGradients gradients(plan);
  const Batch batch = RandomBatch(3, 4, kInput, 4);
  for (size_t variable = 0; variable < plan.variables.size(); ++variable) {
    FillValues(/*seed=*/1, 0.3f, model.get());
    model->values(variable)[1] = nan;
    SCOPED_TRACE(plan.variables[variable].name());
    // In training it is the batch that says what a batch is like.
    if (!plan.variables[variable].update().has_moving_average()) {
      EXPECT_EQ(model->Train(batch, 0, &gradients).status(),
                absl::OutOfRangeError("the loss is nan"));
    }
    EvaluationSums sums;
    ASSERT_TRUE(model->Evaluate(batch, &sums).ok());
    EXPECT_NE(sums.loss_sum, sums.loss_sum);
  }
}

TEST(GraphModelTest, BytesAreNumbersFrom0To255) {
  ModelSpec spec;
  spec.add_layers()->mutable_dense()->set_units(2);
  spec.set_loss(SPARSE_CATEGORICAL_CROSSENTROPY);
  ExampleSpec examples = FloatsAndClass({3}, 2);
  const absl::StatusOr<ModelPlan> of_floats = PlanModel(spec, examples);
  examples.features[0].type = ElementType::kByte;
  const absl::StatusOr<ModelPlan> of_bytes = PlanModel(spec, examples);
  ASSERT_TRUE(of_floats.ok() && of_bytes.ok());
  const Batch floats = FloatsAndClasses({0, 255, 7, 100, 128, 1}, {0, 1});
  Batch bytes = floats;
  bytes.features[0].floats.clear();
  bytes.features[0].bytes = {0, 255, 7, 100, 128, 1};
  KeptGradients gradients(*of_floats);
  const std::unique_ptr<Model> float_model = CompileOrDie(*of_floats, 2);
  const std::unique_ptr<Model> byte_model = CompileOrDie(*of_bytes, 2);
  for (Model* model : {float_model.get(), byte_model.get()}) FillValues(1, 0.01f, model);
  EXPECT_EQ(LossOf(float_model.get(), floats, &gradients),
            LossOf(byte_model.get(), bytes, &gradients));
}

// A table of 3 rows of 2, of which logits are sums or means.
class EmbeddingTest : public ::testing::Test {
 protected:
  void Make(Embedding::Pooling pooling, bool ragged) {
    ModelSpec spec;
    Embedding* embedding = spec.add_layers()->mutable_embedding();
    embedding->set_input_dim(3);
    embedding->set_output_dim(2);
    embedding->set_pooling(pooling);
    spec.set_loss(SPARSE_CATEGORICAL_CROSSENTROPY);
    ExampleSpec examples = FloatsAndClass({}, 2);
    examples.features[0].name = "words";
    examples.features[0].type = ElementType::kId;
    examples.features[0].ragged = ragged;
    absl::StatusOr<ModelPlan> plan = PlanModel(spec, examples);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    model_ = CompileOrDie(plan_, 3);
    FillValues(/*seed=*/5, 1, model_.get());
    batch_.size = 3;
    batch_.labels = {IdTensor({0, 1, 1})};
  }

  void ExpectGradientsAreDifferenceQuotients() {
    KeptGradients gradients(plan_);
    LossOf(model_.get(), batch_, &gradients);
    const std::vector<float> gradient = gradients.gradient(0);
    for (size_t i = 0; i < gradient.size(); ++i) {
      float* const value = &model_->values(0)[i];
      *value += 1.0f / 128;
      const double above = LossOf(model_.get(), batch_, &gradients);
      *value -= 2.0f / 128;
      const double below = LossOf(model_.get(), batch_, &gradients);
      *value += 1.0f / 128;
      EXPECT_NEAR(gradient[i], (above - below) * 64 / 3, 1e-4) << i;
    }
  }

  ModelPlan plan_;
  std::unique_ptr<Model> model_;
  Batch batch_;
};

TEST_F(EmbeddingTest, GivesTheRowsOfTheIds) {
  Make(Embedding::NONE, /*ragged=*/false);
  batch_.features = {IdTensor({2, 0, 2})};
  ExpectGradientsAreDifferenceQuotients();
}

TEST_F(EmbeddingTest, PoolsAnyNumberOfIds) {
  for (const Embedding::Pooling pooling : {Embedding::SUM, Embedding::MEAN}) {
    Make(pooling, /*ragged=*/true);
    batch_.features = {IdTensor({2, 0, 2, 1})};
    batch_.features[0].ends = {3, 3, 4};
    ExpectGradientsAreDifferenceQuotients();
  }
}

TEST_F(EmbeddingTest, IdsWithoutARowAreRefused) {
  Make(Embedding::NONE, /*ragged=*/false);
  batch_.features = {IdTensor({2, 3, 0})};
  KeptGradients gradients(plan_);
  EXPECT_EQ(model_->Train(batch_, 0, &gradients).status(),
            absl::InvalidArgumentError("a batch has the id 3 in the feature 'words'; "
                                       "model.layers[0] 'embedding_0' takes 0 to 2"));
}

// They were added up: what was pushed had the size of both.
TEST(GraphModelTest, StatisticsOfALayerThatIsCalledTwiceAreTheirMean) {
  const std::string text =
      "layers { name: 'n' batch_normalization {} } "
      "layers { name: 'm' batch_normalization {} inputs: 'features' variables_of: 'n' } "
      "layers { add {} inputs: ['n', 'm'] } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY";
  const ModelPlan plan = PlanOrDie(text, {3}, 2);
  const ModelPlan once = PlanOrDie(
      "layers { name: 'n' batch_normalization {} } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {3}, 2);
  const Batch batch = RandomBatch(/*seed=*/4, 6, {3}, 2);
  const auto statistics = [&](const ModelPlan& model_plan) {
    const std::unique_ptr<Model> model = CompileOrDie(model_plan, 6);
    FillValues(/*seed=*/1, 1, model.get());
    KeptGradients gradients(model_plan);
    LossOf(model.get(), batch, &gradients);
    std::vector<std::vector<float>> found;
    for (size_t i = 0; i < model_plan.variables.size(); ++i) {
      if (!model_plan.variables[i].update().has_moving_average()) continue;
      found.push_back(gradients.gradient(i));
    }
    return found;
  };
  const auto twice = statistics(plan);
  ASSERT_EQ(twice.size(), 2u);
  EXPECT_EQ(twice, statistics(once));
}

}  // namespace
}  // namespace millrace::worker
