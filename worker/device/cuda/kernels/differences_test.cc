// Each kind of layer against float64: what it gives, and its gradients against central differences
// by each number. Flatten and Reshape are views, as Permute may be: nothing computes them.
#include "worker/device/cuda/kernels/testing/differences.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/layer_test_util.h"

namespace millrace::worker {
namespace {

const Tolerance kFloat64Tolerance(/*of_y=*/5e-6, /*of_gradients=*/2e-5);

void ExpectDifferences(LayerCase c) {
  KeepFromKinks(&c);
  ExpectLikeFloat64(c, Steps::kOfEach, kFloat64Tolerance);
}

struct DifferenceCase {
  std::string name;
  std::string spec;
  std::vector<Shape> inputs;
  size_t batch = 3;
  bool trainable = true;
};

void PrintTo(const DifferenceCase& c, std::ostream* stream) { *stream << c.name; }

class LayerDifferencesTest : public ::testing::TestWithParam<DifferenceCase> {};

TEST_P(LayerDifferencesTest, ValuesAndGradientsAreThoseOfFloat64) {
  const DifferenceCase& c = GetParam();
  ExpectDifferences(MakeLayerCase(c.spec, c.inputs, c.batch, c.trainable));
}

std::vector<DifferenceCase> DenseCases() {
  std::vector<DifferenceCase> cases;
  for (const char* function : {"LINEAR", "RELU", "SIGMOID", "SOFTMAX", "TANH", "RELU6", "ELU"}) {
    cases.push_back({absl::StrCat("Dense", function),
                     absl::StrCat("dense { units: 4 activation: ", function, " }"),
                     {{2, 5}}});
  }
  cases.push_back({"DenseWithoutBias", "dense { units: 3 no_bias: true }", {{7}}, 1});
  cases.push_back({"DenseFrozen", "dense { units: 3 activation: TANH }", {{7}}, 2, false});
  return cases;
}

std::vector<DifferenceCase> ActivationCases() {
  std::vector<DifferenceCase> cases;
  for (const char* function : {"RELU", "SIGMOID", "SOFTMAX", "TANH", "RELU6", "ELU", "LEAKY_RELU",
                               "SILU", "GELU", "GELU_TANH"}) {
    cases.push_back({absl::StrCat("Activation", function),
                     absl::StrCat("activation { function: ", function, " }"),
                     {{2, 9}}});
  }
  cases.push_back(
      {"LeakyReluOfASlope", "activation { function: LEAKY_RELU negative_slope: 0.75 }", {{9}}});
  return cases;
}

std::vector<DifferenceCase> ConvolutionCases() {
  return {
      {"Conv2D", "conv2d { filters: 3 kernel_size: [2, 3] }", {{4, 5, 2}}, 2},
      {"Conv2DSameStridedRelu",
       "conv2d { filters: 2 kernel_size: 3 strides: [2, 1] padding: SAME activation: RELU }",
       {{5, 4, 2}},
       2},
      {"Conv2DGroupedDilatedTanh",
       "conv2d { filters: 4 kernel_size: 2 dilation_rate: [2, 1] groups: 2 activation: TANH }",
       {{4, 4, 4}},
       2},
      {"Conv2DOfOnePixelSoftmax",
       "conv2d { filters: 3 kernel_size: 1 activation: SOFTMAX }",
       {{2, 3, 4}}},
      {"Conv2DFrozen", "conv2d { filters: 3 kernel_size: 2 no_bias: true }", {{3, 4, 2}}, 1, false},
      {"DepthwiseConv2D",
       "depthwise_conv2d { kernel_size: [3, 2] depth_multiplier: 2 activation: SIGMOID }",
       {{4, 4, 3}},
       2},
      {"DepthwiseConv2DStrided",
       "depthwise_conv2d { kernel_size: 3 strides: 2 padding: SAME no_bias: true }",
       {{5, 4, 3}},
       2},
      {"DepthwiseConv2DDilatedRelu6",
       "depthwise_conv2d { kernel_size: 2 dilation_rate: 2 padding: SAME activation: RELU6 }",
       {{4, 3, 2}},
       2},
      {"Conv1DCausal",
       "conv1d { filters: 4 kernel_size: 3 padding: CAUSAL dilation_rate: 2 groups: 2 }",
       {{7, 4}},
       2},
      {"Conv1DSameStridedElu",
       "conv1d { filters: 3 kernel_size: 2 strides: 2 padding: SAME activation: ELU }",
       {{7, 3}},
       2},
  };
}

std::vector<DifferenceCase> PoolingCases() {
  std::vector<DifferenceCase> cases;
  for (const char* kind : {"max_pool", "average_pooling"}) {
    cases.push_back(
        {absl::StrCat(kind, "2d"), absl::StrCat(kind, "2d { pool_size: [2, 3] }"), {{5, 6, 3}}, 2});
    cases.push_back({absl::StrCat(kind, "2d_same"),
                     absl::StrCat(kind, "2d { pool_size: 3 strides: [2, 1] padding: SAME }"),
                     {{4, 5, 2}},
                     2});
    cases.push_back({absl::StrCat(kind, "1d"),
                     absl::StrCat(kind, "1d { pool_size: 3 strides: 2 padding: SAME }"),
                     {{8, 3}}});
  }
  for (const char* kind : {"global_max_pooling", "global_average_pooling"}) {
    cases.push_back({absl::StrCat(kind, "2d"), absl::StrCat(kind, "2d {}"), {{3, 4, 5}}});
    cases.push_back({absl::StrCat(kind, "1d"), absl::StrCat(kind, "1d {}"), {{7, 3}}});
  }
  return cases;
}

std::vector<DifferenceCase> NormalizationCases() {
  std::vector<DifferenceCase> cases;
  for (const char* kind : {"batch_normalization", "layer_normalization"}) {
    const auto spec = [&](const char* fields) { return absl::StrCat(kind, " { ", fields, " }"); };
    cases.push_back({kind, spec("epsilon: 0.01"), {{3, 5}}, 6});
    cases.push_back({absl::StrCat(kind, "_plain"), spec("no_scale: true no_center: true"), {{7}}});
    cases.push_back({absl::StrCat(kind, "_frozen"), spec(""), {{2, 5}}, 3, false});
  }
  return cases;
}

std::vector<DifferenceCase> MergeCases() {
  std::vector<DifferenceCase> cases;
  for (const char* kind : {"add", "multiply", "average", "maximum"}) {
    const std::string spec = absl::StrCat(kind, " {}");
    cases.push_back({kind, spec, {{3, 4}, {3, 4}, {3, 4}}});
    cases.push_back({absl::StrCat(kind, "_repeated"), spec, {{2, 3, 4}, {3, 1}, {4}, {1}}});
  }
  cases.push_back({"subtract", "subtract {}", {{3, 4}, {3, 4}}});
  cases.push_back({"subtract_repeated", "subtract {}", {{3, 1}, {2, 1, 4}}});
  return cases;
}

std::vector<DifferenceCase> RearrangementCases() {
  return {
      {"ConcatenateLast", "concatenate {}", {{2, 3}, {2, 5}, {2, 1}}},
      {"ConcatenateFirst", "concatenate { axis: 1 }", {{2, 3}, {4, 3}}},
      {"Permute", "permute { dims: [3, 1, 2] }", {{3, 5, 2}}},
      {"ZeroPadding2D", "zero_padding2d { padding: [1, 2, 0, 3] }", {{3, 4, 2}}},
      {"UpSampling2D", "up_sampling2d { size: [2, 3] }", {{3, 4, 2}}},
      {"Rescaling", "rescaling { scale: -0.75 offset: 3 }", {{7}}},
      {"Dropout", "dropout { rate: 0.4 }", {{3, 11}}},
  };
}

std::string DifferenceName(const ::testing::TestParamInfo<DifferenceCase>& instance) {
  return instance.param.name;
}

INSTANTIATE_TEST_SUITE_P(Dense, LayerDifferencesTest, ::testing::ValuesIn(DenseCases()),
                         DifferenceName);
INSTANTIATE_TEST_SUITE_P(Activations, LayerDifferencesTest, ::testing::ValuesIn(ActivationCases()),
                         DifferenceName);
INSTANTIATE_TEST_SUITE_P(Convolutions, LayerDifferencesTest,
                         ::testing::ValuesIn(ConvolutionCases()), DifferenceName);
INSTANTIATE_TEST_SUITE_P(Poolings, LayerDifferencesTest, ::testing::ValuesIn(PoolingCases()),
                         DifferenceName);
INSTANTIATE_TEST_SUITE_P(Normalizations, LayerDifferencesTest,
                         ::testing::ValuesIn(NormalizationCases()), DifferenceName);
INSTANTIATE_TEST_SUITE_P(Merges, LayerDifferencesTest, ::testing::ValuesIn(MergeCases()),
                         DifferenceName);
INSTANTIATE_TEST_SUITE_P(Rearrangements, LayerDifferencesTest,
                         ::testing::ValuesIn(RearrangementCases()), DifferenceName);

TEST(DifferencesTest, GradientsOfTables) {
  for (const char* pooling : {"NONE", "SUM", "MEAN"}) {
    const std::string spec =
        absl::StrCat("embedding { input_dim: 5 output_dim: 3 pooling: ", pooling, " }");
    ExpectDifferences(MakeEmbeddingCase(spec, {2, 3}, 3));
    if (std::string(pooling) == "NONE") continue;
    ExpectDifferences(MakeEmbeddingCase(spec, {}, 4, /*lengths=*/{3, 0, 1, 7}));
  }
}

TEST(DifferencesTest, ReluWithinSums) {
  LayerCase c = MakeLayerCase("add {}", {{3, 5}, {3, 5}}, 3);
  c.then = RELU;
  ExpectDifferences(c);
}

TEST(DifferencesTest, ReluWithinBatchNormalizations) {
  for (const bool trainable : {true, false}) {
    LayerCase c = MakeLayerCase("batch_normalization {}", {{4, 3}}, 5, trainable);
    for (const double y : Float64Forward(c, Float64Values(c))) {
      ASSERT_GT(std::abs(y), 1e-4) << "values too close to ReLU's kink";
    }
    c.then = RELU;
    ExpectDifferences(c);
  }
}

TEST(DifferencesTest, EvaluationsDropNothingAndTakeMovingStatistics) {
  for (const char* spec : {"dropout { rate: 0.4 }", "batch_normalization {}"}) {
    LayerCase c = MakeLayerCase(spec, {{4, 3}}, 5);
    c.training = false;
    ExpectDifferences(c);
  }
}

// By an input that is asked for while another is not, and by one value that is all inputs.
TEST(DifferencesTest, InputsOfMergesThatAreOneOrNotAskedFor) {
  for (const char* spec :
       {"add {}", "subtract {}", "multiply {}", "average {}", "concatenate {}"}) {
    LayerCase c = MakeLayerCase(spec, {{3, 4}, {3, 4}}, 2);
    c.one_value = true;
    ExpectDifferences(c);
    c.one_value = false;
    c.asked = {false, true};
    ExpectDifferences(c);
  }
}

}  // namespace
}  // namespace millrace::worker
