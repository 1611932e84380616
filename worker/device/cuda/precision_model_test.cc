// Models that a GPU computes in less than float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

constexpr char kDenseOfTwo[] =
    "layers { dense { units: 8 activation: RELU } } layers { dense { units: 2 } } "
    "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY";
constexpr char kConvolutionOfThree[] =
    "layers { conv2d { filters: 4 kernel_size: 2 activation: RELU } } layers { max_pool2d {} } "
    "layers { flatten {} } layers { dense { units: 3 } } "
    "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY";

// Products of whole matrices: of pixels, of rows, and of layers that are frozen, at the bottom or
// not.
constexpr char kWholeProducts[] =
    "layers { conv2d { filters: 4 kernel_size: 1 } trainable: false } "
    "layers { conv2d { filters: 5 kernel_size: 1 activation: RELU } } layers { flatten {} } "
    "layers { dense { units: 9 activation: TANH } } "
    "layers { dense { units: 7 activation: RELU } trainable: false } layers { dense { units: 3 } } "
    "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY";

struct LessPrecision {
  PrecisionSpec::Compute compute;
  std::string name;
};

class PrecisionModelTest : public ::testing::TestWithParam<LessPrecision> {
 protected:
  PrecisionModelTest() { cuda_emulation::Reset(); }
  ~PrecisionModelTest() override { cuda_emulation::Reset(); }

  static ModelPlan PlanOf(const std::string& text, const Shape& input, int32_t labels,
                          PrecisionSpec::Compute precision = GetParam().compute) {
    ModelPlan plan = PlanOrDie(text, input, labels);
    plan.precision = precision;
    return plan;
  }

  // Gradients of the last of some steps.
  static std::vector<std::vector<float>> Train(const ModelPlan& plan) {
    const std::unique_ptr<Model> model = CompileOrDie(plan, 6);
    FillValues(/*seed=*/1, 0.3f, model.get());
    KeptGradients gradients(plan);
    for (const uint64_t step : {0, 1, 2}) {
      TrainOrDie(RandomBatch(step, 6, {6, 6, 1}, 3), step, model.get(), &gradients);
      ApplySgd(0.1f, gradients, model.get());
    }
    return gradients.gradients();
  }
};

TEST_P(PrecisionModelTest, NumericsSayIt) {
  const auto numerics = [](PrecisionSpec::Compute precision) {
    const std::string all = CompileOrDie(PlanOf(kDenseOfTwo, {2}, 2, precision), 4)->numerics();
    return all.substr(0, all.find(", products "));  // They differ, too.
  };
  const std::string of_float32 = numerics(PrecisionSpec::FLOAT32);
  EXPECT_THAT(of_float32, ::testing::HasSubstr("), float32, "));
  EXPECT_EQ(numerics(GetParam().compute),
            absl::StrReplaceAll(of_float32, {{"float32", GetParam().name}}));
}

TEST_P(PrecisionModelTest, LearnsExclusiveOr) {
  const BatchResult result = LearnExclusiveOr(PlanOf(kDenseOfTwo, {2}, 2));
  EXPECT_LT(result.loss_sum, 0.2);
  EXPECT_EQ(result.accuracy_sum, 4);
}

TEST_P(PrecisionModelTest, ConvolutionsLearnWhereAPatternIs) {
  EXPECT_GT(LearnBrighterThird(PlanOf(kConvolutionOfThree, {6, 6, 1}, 3), 100), 0.95);
}

TEST_P(PrecisionModelTest, BitsAreItsOwnAndDoNotDependOnTheOrderOfThreadsAndStreams) {
  const std::vector<std::vector<float>> first = Train(PlanOf(kConvolutionOfThree, {6, 6, 1}, 3));
  for (const uint64_t order : {1, 2, 3}) {
    cuda_emulation::SetOrder(order);
    EXPECT_EQ(Train(PlanOf(kConvolutionOfThree, {6, 6, 1}, 3)), first) << order;
  }
  EXPECT_NE(Train(PlanOf(kConvolutionOfThree, {6, 6, 1}, 3, PrecisionSpec::FLOAT32)), first);
}

// What is rounded forwards is what a step finds backwards, whatever came before.
TEST_P(PrecisionModelTest, EvaluationsAndShorterBatchesBetweenStepsChangeNothing) {
  const ModelPlan plan = PlanOf(kWholeProducts, {6, 6, 1}, 3);
  const std::unique_ptr<Model> model = CompileOrDie(plan, 6);
  FillValues(/*seed=*/1, 0.3f, model.get());
  KeptGradients gradients(plan);
  const auto train = [&](uint64_t step, size_t size) {
    TrainOrDie(RandomBatch(step, size, {6, 6, 1}, 3), step, model.get(), &gradients);
  };
  train(/*step=*/1, 6);
  const std::vector<std::vector<float>> first = gradients.gradients();
  train(/*step=*/2, 4);
  EXPECT_NE(gradients.gradients(), first);
  EvaluationSums sums;
  EXPECT_TRUE(model->Evaluate(RandomBatch(/*seed=*/3, 5, {6, 6, 1}, 3), &sums).ok());
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  train(/*step=*/1, 6);
  EXPECT_EQ(gradients.gradients(), first);
  train(/*step=*/2, 4);
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

INSTANTIATE_TEST_SUITE_P(Precisions, PrecisionModelTest,
                         ::testing::Values(LessPrecision{PrecisionSpec::TF32, "tf32"},
                                           LessPrecision{PrecisionSpec::BFLOAT16, "bfloat16"}),
                         [](const auto& instance) { return instance.param.name; });

// A chain of dense layers, with and without biases, frozen and trained, with `between` after all
// but the last.
std::string Chain(const std::string& between) {
  return "layers { dense { units: 9 activation: RELU } } " + between +
         "layers { dense { units: 12 } trainable: false } " + between +
         "layers { dense { units: 7 activation: RELU } trainable: false } " + between +
         "layers { dense { units: 10 activation: RELU no_bias: true } } " + between +
         "layers { dense { units: 5 } } " + between +
         "layers { flatten {} } layers { dense { units: 3 } } " +
         "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY";
}

// What a step gives where all variables have whole 64ths, so that bfloat16 has every bias.
GivenByStep GivenByChain(const std::string& between) {
  ModelPlan plan = PlanOrDie(Chain(between), {2, 4}, 3);
  plan.precision = PrecisionSpec::BFLOAT16;
  const std::unique_ptr<Model> model = CompileOrDie(plan, 33);
  ModelValues values;
  int next = 0;
  for (const VariableSpec& variable : plan.variables) {
    values.emplace_back(ElementCount({variable.shape().begin(), variable.shape().end()}));
    for (float& value : values.back()) value = static_cast<float>((next += 29) % 65 - 32) / 64;
  }
  WriteValues(values, model.get());
  return GivenBy(RandomBatch(/*seed=*/1, 33, {2, 4}, 3), /*seed=*/1, plan, model.get());
}

float LargestIn(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// What stands between the layers of the second model keeps its values in float32, of which products
// take what the first one's narrow values are. Only the sums for biases see other gradients.
TEST(NarrowModelTest, NarrowValuesChangeTheGradientsOfBiasesAlone) {
  cuda_emulation::Reset();
  const ModelPlan plan = PlanOrDie(Chain(""), {2, 4}, 3);
  const GivenByStep given = GivenByChain("");
  const GivenByStep expected = GivenByChain("layers { rescaling { scale: 1 } } ");
  // On a real one the two models' products may be two of cuBLASLt's kernels, with sums in two
  // orders, so that here and there a value is rounded the other way.
  const bool has_one_order = !OnRealGpu();
  EXPECT_NEAR(given.loss_sum, expected.loss_sum, has_one_order ? 0 : 0x1p-8 * expected.loss_sum);
  size_t biases_that_differ = 0;
  for (size_t i = 0; i < given.gradients.size(); ++i) {
    SCOPED_TRACE(plan.variables[i].name());
    const std::vector<float>& gradient = given.gradients[i];
    const std::vector<float>& other = expected.gradients[i];
    const bool is_bias = plan.variables[i].shape_size() == 1;
    if (!is_bias && has_one_order) {
      EXPECT_EQ(gradient, other);
      continue;
    }
    biases_that_differ += is_bias && gradient != other ? 1 : 0;
    ASSERT_EQ(gradient.size(), other.size());
    // Each of the terms is rounded by at most 2^-9 of its size.
    for (size_t k = 0; k < gradient.size(); ++k) {
      EXPECT_NEAR(gradient[k], other[k], 0x1p-6 * LargestIn(other));
    }
  }
  EXPECT_GT(biases_that_differ, 0u) << "nothing was narrow";
}

}  // namespace
}  // namespace millrace::worker
