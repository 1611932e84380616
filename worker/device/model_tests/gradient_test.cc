// Gradients against central differences of the loss.
//
// The values are float32, so a difference quotient cannot be exact: with a step h the loss's own
// rounding (about 1e-7 of it) gives an error of 1e-7 / h, and the third derivative one of order
// h^2. h = 2^-7 makes both about 1e-5 here. Where an activation has a kink (relu, the choice of a
// window's largest value) within h of a value, the quotient is off by a share of that value's
// gradient, so a few elements may differ; a wrong formula makes most of them differ.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

constexpr double kStep = 1.0 / 128;
constexpr size_t kExamples = 5;
constexpr uint64_t kSeed = 4;  // Of the dropout.

struct Case {
  std::string name;
  std::string layers;
  Shape input;
  bool binary = false;
  double kinked_share = 0;  // Of the elements, that may differ.
};

void PrintTo(const Case& c, std::ostream* stream) { *stream << c.name; }

class GradientTest : public ::testing::TestWithParam<Case> {
 protected:
  GradientTest() : plan_(MakePlan()), model_(CompileOrDie(plan_, kExamples)), gradients_(plan_) {
    FillValues(/*seed=*/8, /*scale=*/0.6f, model_.get());
    batch_ = RandomBatch(/*seed=*/9, kExamples, GetParam().input, GetParam().binary ? 2 : 3);
  }

  static ModelPlan MakePlan() {
    const std::string loss =
        GetParam().binary
            ? "layers { name: 'last' dense { units: 1 } } loss: BINARY_CROSSENTROPY"
            : "layers { name: 'last' dense { units: 3 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY";
    return PlanOrDie(GetParam().layers + loss, GetParam().input, 2);
  }

  double MeanLoss() {
    const absl::StatusOr<BatchResult> result = model_->Train(batch_, kSeed, &gradients_);
    EXPECT_TRUE(result.ok()) << result.status();
    return result->loss_sum / kExamples;
  }

  double Quotient(float* value) {
    const float kept = *value;
    const float above = kept + static_cast<float>(kStep);
    const float below = kept - static_cast<float>(kStep);
    *value = above;
    const double loss_above = MeanLoss();
    *value = below;
    const double loss_below = MeanLoss();
    *value = kept;
    return (loss_above - loss_below) / (static_cast<double>(above) - static_cast<double>(below));
  }

  ModelPlan plan_;
  std::unique_ptr<Model> model_;
  KeptGradients gradients_;
  Batch batch_;
};

TEST_P(GradientTest, EqualsTheDifferenceQuotient) {
  MeanLoss();
  const std::vector<std::vector<float>> gradients = gradients_.gradients();
  size_t elements = 0;
  size_t different = 0;
  for (size_t variable = 0; variable < gradients.size(); ++variable) {
    // Others are no gradients, or none is computed.
    if (plan_.variables[variable].has_update()) continue;
    const std::vector<float>& gradient = gradients[variable];
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double quotient = Quotient(&model_->values(variable)[i]);
      ++elements;
      if (std::abs(quotient - gradient[i]) < 1e-4 * std::max(1.0f, std::abs(gradient[i]))) continue;
      ++different;
      if (GetParam().kinked_share == 0) {
        ADD_FAILURE() << plan_.variables[variable].name() << "[" << i << "]: gradient "
                      << gradient[i] << ", difference quotient " << quotient;
      }
    }
  }
  EXPECT_LE(static_cast<double>(different), GetParam().kinked_share * static_cast<double>(elements))
      << different << " of " << elements << " elements differ";
}

constexpr char kConvSame[] =
    "layers { conv2d { filters: 3 kernel_size: [2, 3] strides: [2, 1] padding: SAME } } "
    "layers { conv2d { filters: 4 kernel_size: 2 activation: SIGMOID } } layers { flatten {} }";
constexpr char kConvRelu[] =
    "layers { conv2d { filters: 3 kernel_size: 3 activation: RELU } } "
    "layers { conv2d { filters: 2 kernel_size: 2 activation: RELU no_bias: true } } "
    "layers { flatten {} }";
constexpr char kPool[] =
    "layers { conv2d { filters: 4 kernel_size: 2 activation: SIGMOID } } "
    "layers { max_pool2d { pool_size: [2, 3] strides: 2 padding: SAME } } "
    "layers { conv2d { filters: 3 kernel_size: 1 } } layers { max_pool2d {} } layers { flatten {} "
    "}";
constexpr char kBatchNormalization[] =
    "layers { conv2d { filters: 3 kernel_size: 2 } } layers { batch_normalization {} } "
    "layers { activation { function: SIGMOID } } "
    "layers { conv2d { filters: 4 kernel_size: 2 } } layers { batch_normalization {} "
    "trainable: false } layers { conv2d { filters: 8 kernel_size: 1 } } "
    "layers { batch_normalization { no_scale: true } } layers { global_average_pooling2d {} }";
// Every layer's output is taken more than once.
constexpr char kGraph[] =
    "layers { name: 'a' dense { units: 5 activation: SIGMOID } } "
    "layers { name: 'b' dense { units: 5 activation: SIGMOID } } "
    "layers { name: 'c' add {} inputs: ['b', 'a', 'b'] } "
    "layers { name: 'd' concatenate {} inputs: ['c', 'a', 'features', 'c'] } "
    "layers { name: 'e' dense { units: 5 } inputs: 'd' } "
    "layers { name: 'f' dense { units: 5 activation: SIGMOID } variables_of: 'b' } "
    "layers { name: 'g' add {} inputs: ['f', 'e', 'c', 'b'] } layers { dropout { rate: 0.4 } } ";

// A value that an addition takes several times, first of all that take it: its gradient was doubled
// with each time, and what was added after it got twice its own.
constexpr char kTakenThrice[] =
    "layers { name: 'a' dense { units: 5 activation: SIGMOID } } "
    "layers { name: 'b' add {} inputs: ['a', 'a', 'a'] } ";
constexpr char kTakenTwiceBesideAnother[] =
    "layers { name: 'a' dense { units: 5 activation: SIGMOID } } "
    "layers { name: 'b' dense { units: 5 activation: SIGMOID } inputs: 'features' } "
    "layers { name: 'c' add {} inputs: ['a', 'a', 'b'] } "
    "layers { name: 'd' add {} inputs: ['c', 'b'] } ";

constexpr char kConvGroupedAndDilated[] =
    "layers { conv2d { filters: 6 kernel_size: [2, 3] padding: SAME dilation_rate: [2, 1] "
    "groups: 2 activation: TANH } } layers { conv2d { filters: 4 kernel_size: 2 groups: 2 "
    "dilation_rate: 2 } } layers { flatten {} }";
constexpr char kDepthwise[] =
    "layers { depthwise_conv2d { kernel_size: [3, 2] depth_multiplier: 2 padding: SAME "
    "activation: TANH } } layers { depthwise_conv2d { kernel_size: 2 strides: 2 no_bias: true } } "
    "layers { depthwise_conv2d { kernel_size: 2 dilation_rate: [1, 2] padding: SAME "
    "depthwise_regularizer { l2: 0.1 } } } layers { flatten {} }";
constexpr char kConv1D[] =
    "layers { conv1d { filters: 6 kernel_size: 3 padding: CAUSAL dilation_rate: 2 groups: 2 "
    "activation: TANH } } layers { conv1d { filters: 3 kernel_size: 2 strides: 2 padding: SAME } } "
    "layers { conv1d { filters: 3 kernel_size: 2 } } layers { flatten {} }";
constexpr char kPooledSequences[] =
    "layers { conv1d { filters: 4 kernel_size: 2 activation: SIGMOID } } "
    "layers { max_pool1d { pool_size: 3 strides: 2 padding: SAME } } "
    "layers { conv1d { filters: 4 kernel_size: 1 } } layers { average_pooling1d { strides: 1 } } "
    "layers { name: 'a' conv1d { filters: 3 kernel_size: 2 } } "
    "layers { name: 'mean' global_average_pooling1d {} } "
    "layers { name: 'max' global_max_pooling1d {} inputs: 'a' } "
    "layers { concatenate {} inputs: ['max', 'mean'] }";
constexpr char kAveragedWindows[] =
    "layers { conv2d { filters: 4 kernel_size: 2 activation: SIGMOID } } "
    "layers { average_pooling2d { pool_size: [2, 3] strides: 2 padding: SAME } } "
    "layers { conv2d { filters: 3 kernel_size: 1 } } layers { average_pooling2d { strides: 1 } } "
    "layers { flatten {} }";
constexpr char kGlobalMaximum[] =
    "layers { conv2d { filters: 5 kernel_size: 2 activation: TANH } } "
    "layers { global_max_pooling2d {} }";
constexpr char kPaddedAndRepeated[] =
    "layers { conv2d { filters: 3 kernel_size: 2 activation: TANH } } "
    "layers { zero_padding2d { padding: [1, 0, 2, 1] } } "
    "layers { conv2d { filters: 3 kernel_size: 2 activation: TANH } } "
    "layers { up_sampling2d { size: [2, 3] } } "
    "layers { conv2d { filters: 2 kernel_size: [3, 2] strides: 2 } } layers { flatten {} }";
constexpr char kRescaled[] =
    "layers { dense { units: 5 } } layers { rescaling { scale: -0.7 offset: 0.3 } } "
    "layers { activation { function: TANH } } layers { rescaling { scale: 2 } }";
constexpr char kSmoothFunctions[] =
    "layers { dense { units: 5 } } layers { activation { function: SILU } } "
    "layers { dense { units: 5 } } layers { activation { function: GELU } } "
    "layers { dense { units: 5 } } layers { activation { function: GELU_TANH } }";
// The slope of an exponential unit has a kink.
constexpr char kKinkedFunctions[] =
    "layers { dense { units: 9 } } "
    "layers { activation { function: LEAKY_RELU negative_slope: 0.2 } } "
    "layers { dense { units: 7 } } layers { activation { function: ELU } }";
constexpr char kPermuted[] =
    "layers { conv2d { filters: 4 kernel_size: 2 activation: TANH } } "
    "layers { permute { dims: [3, 1, 2] } } layers { conv2d { filters: 3 kernel_size: 2 } } "
    "layers { permute { dims: [2, 1, 3] } } layers { permute { dims: [1, 2, 3] } } "
    "layers { flatten {} }";
constexpr char kSqueezeAndExcite[] =
    "layers { name: 'x' conv2d { filters: 5 kernel_size: 2 activation: TANH } } "
    "layers { global_average_pooling2d {} } layers { dense { units: 5 activation: SIGMOID } } "
    "layers { name: 'weights' reshape { target_shape: [1, 1, 5] } } "
    "layers { multiply {} inputs: ['x', 'weights'] } layers { flatten {} }";
// Each merge repeats its first input, another, or both.
constexpr char kBroadcast[] =
    "layers { name: 'x' conv2d { filters: 3 kernel_size: 1 activation: TANH } } "
    "layers { name: 'row' conv2d { filters: 3 kernel_size: [4, 1] } inputs: 'features' } "
    "layers { name: 'column' conv2d { filters: 3 kernel_size: [1, 3] } inputs: 'features' } "
    "layers { name: 'mean' global_average_pooling2d {} inputs: 'x' } "
    "layers { name: 'one' dense { units: 1 } } "
    "layers { name: 'outer' multiply {} inputs: ['row', 'column'] } "
    "layers { name: 'sum' add {} inputs: ['mean', 'x', 'one', 'mean', 'x'] } "
    "layers { name: 'difference' subtract {} inputs: ['row', 'sum'] } "
    "layers { name: 'average' average {} inputs: ['outer', 'one', 'difference'] } "
    "layers { maximum {} inputs: ['column', 'average', 'x'] } layers { flatten {} }";
constexpr char kRegularized[] =
    "layers { dense { units: 5 } } layers { batch_normalization { beta_regularizer { l2: 0.2 } "
    "gamma_regularizer { l1: 0.1 l2: 0.3 } } } layers { dense { units: 5 } } "
    "layers { layer_normalization { beta_regularizer { l2: 0.1 } gamma_regularizer { l2: 0.2 } } }";
constexpr char kDenseOnSequences[] =
    "layers { name: 'a' dense { units: 5 activation: TANH kernel_regularizer { l2: 0.1 } } } "
    "layers { name: 'b' dense { units: 5 activation: SOFTMAX } variables_of: 'c' } "
    "layers { name: 'c' dense { units: 5 activation: SIGMOID } } "
    "layers { dense { units: 2 no_bias: true } } layers { flatten {} }";

// What is used more than once: values, and variables. In `graph` are both, which takes longer.
INSTANTIATE_TEST_SUITE_P(
    Graphs, GradientTest,
    ::testing::Values(Case{"dense_on_sequences", kDenseOnSequences, {4, 3}},
                      Case{"taken_thrice", kTakenThrice, {4}},
                      Case{"taken_twice_beside_another", kTakenTwiceBesideAnother, {4}}),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Sequences, GradientTest,
    ::testing::Values(Case{"conv1d", kConv1D, {7, 4}},
                      Case{"dense_on_images", kDenseOnSequences, {3, 2, 4}},
                      Case{"pooled_sequences", kPooledSequences, {9, 3}, false, 0.15}),
    [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Layers, GradientTest,
    ::testing::Values(
        Case{"dense", "layers { dense { units: 4 } }", {6}}, Case{"binary", "", {6}, true},
        Case{"dense_no_bias", "layers { dense { units: 4 no_bias: true } }", {6}, true},
        Case{"dense_sigmoid", "layers { dense { units: 9 activation: SIGMOID } }", {6}},
        Case{"dense_softmax", "layers { dense { units: 5 activation: SOFTMAX } }", {6}},
        Case{"dense_relu", "layers { dense { units: 9 activation: RELU } }", {6}, false, 0.1},
        Case{"activation_layers",
             "layers { dense { units: 5 } } layers { activation { function: SIGMOID } } "
             "layers { dense { units: 4 } } layers { activation { function: LINEAR } } "
             "layers { activation { function: SOFTMAX } }",
             {6}},
        Case{"activation_first", "layers { activation { function: SIGMOID } }", {6}},
        Case{"relu_layer",
             "layers { dense { units: 9 } } layers { activation { function: RELU } }",
             {6},
             true,
             0.1},
        Case{"dropout",
             "layers { dropout { rate: 0.3 } } layers { dense { units: 6 activation: SIGMOID } } "
             "layers { dropout { rate: 0.5 } }",
             {6}},
        Case{"conv_same_strided", kConvSame, {5, 4, 2}},
        Case{"conv_relu", kConvRelu, {6, 5, 2}, false, 0.15},
        Case{"conv_softmax_over_channels",
             "layers { conv2d { filters: 3 kernel_size: 2 activation: SOFTMAX } } "
             "layers { flatten {} }",
             {4, 4, 1}},
        Case{"conv_grouped_and_dilated", kConvGroupedAndDilated, {5, 6, 4}},
        Case{"depthwise", kDepthwise, {5, 6, 2}}, Case{"permuted", kPermuted, {4, 5, 2}},
        Case{"squeeze_and_excite", kSqueezeAndExcite, {4, 3, 2}},
        Case{"broadcast", kBroadcast, {4, 3, 2}, false, 0.1},
        Case{"regularized_normalizations", kRegularized, {6}},
        Case{"averaged_windows", kAveragedWindows, {6, 7, 2}},
        Case{"global_maximum", kGlobalMaximum, {5, 4, 2}, false, 0.1},
        Case{"padded_and_repeated", kPaddedAndRepeated, {4, 4, 2}},
        Case{"rescaled", kRescaled, {6}}, Case{"smooth_functions", kSmoothFunctions, {6}},
        Case{"kinked_functions", kKinkedFunctions, {6}, false, 0.15},
        Case{"batch_normalization", kBatchNormalization, {5, 4, 2}}, Case{"graph", kGraph, {4}},
        Case{"max_pool", kPool, {6, 7, 2}, false, 0.1}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace millrace::worker
