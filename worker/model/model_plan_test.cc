#include "worker/model/model_plan.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

constexpr char kMnistCnn[] = R"pb(
  layers {
    name: "conv"
    conv2d { filters: 32 kernel_size: 3 activation: RELU }
  }
  layers { max_pool2d {} }
  layers { dropout { rate: 0.25 } }
  layers { flatten {} }
  layers { dense { units: 128 activation: RELU no_bias: true } }
  layers { dense { units: 10 kernel_initializer: HE_NORMAL bias_initializer: ONES } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
  metrics: ACCURACY
)pb";

ModelSpec Parse(const std::string& text) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

ModelPlan PlanOrDie(const std::string& text, const Shape& input, int32_t label_count) {
  absl::StatusOr<ModelPlan> plan = PlanModel(Parse(text), FloatsAndClass(input, label_count));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(ModelPlanTest, InfersShapesLayerByLayer) {
  const ModelPlan plan = PlanOrDie(kMnistCnn, {28, 28, 1}, 10);
  ASSERT_EQ(plan.layers.size(), 6u);
  EXPECT_THAT(plan.layers[0].output, ElementsAre(26, 26, 32));
  EXPECT_THAT(plan.layers[1].output, ElementsAre(13, 13, 32));
  EXPECT_THAT(plan.layers[2].output, ElementsAre(13, 13, 32));
  EXPECT_THAT(plan.layers[3].output, ElementsAre(5408));
  EXPECT_THAT(plan.layers[4].input(), ElementsAre(5408));
  EXPECT_THAT(plan.layers[5].output, ElementsAre(10));
  ASSERT_EQ(plan.outputs.size(), 1u);
  EXPECT_EQ(plan.outputs[0].layer, 5u);
  EXPECT_EQ(plan.outputs[0].width, 10u);
}

TEST(ModelPlanTest, NamesVariablesByTheirLayers) {
  const ModelPlan plan = PlanOrDie(kMnistCnn, {28, 28, 1}, 10);
  ASSERT_EQ(plan.variables.size(), 5u);
  EXPECT_EQ(plan.variables[0].name(), "conv/kernel");
  EXPECT_THAT(plan.variables[0].shape(), ElementsAre(3, 3, 1, 32));
  EXPECT_EQ(plan.variables[1].name(), "conv/bias");
  EXPECT_THAT(plan.variables[1].shape(), ElementsAre(32));
  EXPECT_EQ(plan.variables[2].name(), "dense_4/kernel");
  EXPECT_THAT(plan.variables[2].shape(), ElementsAre(5408, 128));
  EXPECT_EQ(plan.variables[3].name(), "dense_5/kernel");
  EXPECT_EQ(plan.variables[4].name(), "dense_5/bias");
  EXPECT_EQ(plan.layers[4].variable(kKernel), 2);
  EXPECT_EQ(plan.layers[4].variable(kBias), -1);
  EXPECT_EQ(plan.layers[5].variable(kBias), 4);
}

TEST(ModelPlanTest, FillsInKerasDefaults) {
  const ModelPlan plan = PlanOrDie(kMnistCnn, {28, 28, 1}, 10);
  const Conv2D& conv = plan.layers[0].spec.conv2d();
  EXPECT_THAT(conv.kernel_size(), ElementsAre(3, 3));
  EXPECT_THAT(conv.strides(), ElementsAre(1, 1));
  EXPECT_EQ(conv.kernel_initializer(), GLOROT_UNIFORM);
  EXPECT_EQ(conv.bias_initializer(), ZEROS);
  EXPECT_THAT(plan.layers[1].spec.max_pool2d().pool_size(), ElementsAre(2, 2));
  EXPECT_THAT(plan.layers[1].spec.max_pool2d().strides(), ElementsAre(2, 2));
  EXPECT_EQ(plan.layers[1].spec.name(), "max_pool2d_1");
}

TEST(ModelPlanTest, ResolvesInitialValuesWithKerasFans) {
  const ModelPlan plan = PlanOrDie(kMnistCnn, {28, 28, 1}, 10);
  EXPECT_FLOAT_EQ(plan.variables[0].initial_value().uniform().high(),
                  static_cast<float>(std::sqrt(6.0 / (9 * 1 + 9 * 32))));
  EXPECT_EQ(plan.variables[1].initial_value().constant(), 0);
  EXPECT_FLOAT_EQ(plan.variables[2].initial_value().uniform().low(),
                  static_cast<float>(-std::sqrt(6.0 / (5408 + 128))));
  EXPECT_FLOAT_EQ(plan.variables[3].initial_value().truncated_normal().stddev(),
                  static_cast<float>(std::sqrt(2.0 / 128) / 0.87962566103423978));
  EXPECT_EQ(plan.variables[4].initial_value().constant(), 1);
}

TEST(ModelPlanTest, GroupsAndDilationShapeConvolutions) {
  const ModelPlan plan = PlanOrDie(
      "layers { conv2d { filters: 6 kernel_size: 3 dilation_rate: [1, 2] groups: 2 } } "
      "layers { conv2d { filters: 3 kernel_size: 3 dilation_rate: 3 padding: SAME } } "
      "layers { flatten {} } layers { dense { units: 2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {8, 9, 4}, 2);
  EXPECT_THAT(plan.layers[0].output, ElementsAre(6, 5, 6));
  EXPECT_THAT(plan.layers[1].output, ElementsAre(6, 5, 3));
  EXPECT_EQ(plan.layers[1].spec.conv2d().groups(), 1u);
  EXPECT_THAT(plan.variables[0].shape(), ElementsAre(3, 3, 2, 6));
  EXPECT_FLOAT_EQ(plan.variables[0].initial_value().uniform().high(),
                  static_cast<float>(std::sqrt(6.0 / (9 * 2 + 9 * 6))));
}

TEST(ModelPlanTest, DepthwiseConvolutionsHaveFiltersForEachChannel) {
  const ModelPlan plan = PlanOrDie(
      "layers { name: 'a' depthwise_conv2d { kernel_size: [3, 2] depth_multiplier: 4 strides: 2 } "
      "} layers { name: 'b' depthwise_conv2d { kernel_size: 2 no_bias: true } } "
      "layers { flatten {} } layers { dense { units: 2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {8, 9, 3}, 2);
  EXPECT_THAT(plan.layers[0].output, ElementsAre(3, 4, 12));
  EXPECT_THAT(plan.layers[1].output, ElementsAre(2, 3, 12));
  EXPECT_EQ(plan.layers[1].spec.depthwise_conv2d().depth_multiplier(), 1u);
  EXPECT_THAT(plan.layers[1].spec.depthwise_conv2d().dilation_rate(), ElementsAre(1, 1));
  ASSERT_EQ(plan.variables.size(), 5u);
  EXPECT_EQ(plan.variables[0].name(), "a/kernel");
  EXPECT_THAT(plan.variables[0].shape(), ElementsAre(3, 2, 3, 4));
  EXPECT_FLOAT_EQ(plan.variables[0].initial_value().uniform().high(),
                  static_cast<float>(std::sqrt(6.0 / (6 * 3 + 6 * 4))));
  EXPECT_EQ(plan.variables[1].name(), "a/bias");
  EXPECT_THAT(plan.variables[1].shape(), ElementsAre(12));
  EXPECT_THAT(plan.variables[2].shape(), ElementsAre(2, 2, 12, 1));
}

TEST(ModelPlanTest, LayersOfSequences) {
  const ModelPlan plan = PlanOrDie(
      "layers { conv1d { filters: 6 kernel_size: 3 groups: 2 padding: CAUSAL dilation_rate: 4 } } "
      "layers { max_pool1d {} } layers { average_pooling1d { pool_size: 3 strides: 1 padding: SAME "
      "} } layers { conv1d { filters: 5 kernel_size: 2 strides: 2 } } layers { permute { dims: [2, "
      "1] } } layers { global_max_pooling1d {} } layers { dense { units: 2 } } "
      "loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {11, 4}, 2);
  EXPECT_THAT(plan.layers[0].output, ElementsAre(11, 6));
  EXPECT_THAT(plan.layers[1].output, ElementsAre(5, 6));
  EXPECT_EQ(plan.layers[1].spec.max_pool1d().pool_size(), 2u);
  EXPECT_EQ(plan.layers[1].spec.max_pool1d().strides(), 2u);
  EXPECT_THAT(plan.layers[2].output, ElementsAre(5, 6));
  EXPECT_THAT(plan.layers[3].output, ElementsAre(2, 5));
  EXPECT_THAT(plan.layers[4].output, ElementsAre(5, 2));
  EXPECT_THAT(plan.layers[5].output, ElementsAre(2));
  EXPECT_THAT(plan.variables[0].shape(), ElementsAre(3, 2, 6));
  EXPECT_FLOAT_EQ(plan.variables[0].initial_value().uniform().high(),
                  static_cast<float>(std::sqrt(6.0 / (3 * 2 + 3 * 6))));
}

TEST(ModelPlanTest, DenseIsAlongTheLastDimension) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 6 } } layers { dense { units: 1 no_bias: true } } "
      "layers { flatten {} } layers { dense { units: 2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {5, 3, 4}, 2);
  EXPECT_THAT(plan.layers[0].output, ElementsAre(5, 3, 6));
  EXPECT_THAT(plan.layers[1].output, ElementsAre(5, 3, 1));
  EXPECT_THAT(plan.variables[0].shape(), ElementsAre(4, 6));
  EXPECT_THAT(plan.variables[2].shape(), ElementsAre(6, 1));
  EXPECT_FLOAT_EQ(plan.variables[0].initial_value().uniform().high(),
                  static_cast<float>(std::sqrt(6.0 / (4 + 6))));
}

TEST(ModelPlanTest, MergesRepeatInputsAlongDimensionsOf1) {
  const ModelPlan plan = PlanOrDie(
      "layers { name: 'a' conv2d { filters: 2 kernel_size: [1, 5] } } "
      "layers { name: 'b' conv2d { filters: 2 kernel_size: [4, 1] } inputs: 'features' } "
      "layers { name: 'c' multiply {} inputs: ['a', 'b'] } "
      "layers { name: 'd' global_average_pooling2d {} } "
      "layers { add {} inputs: ['d', 'c', 'a'] } layers { flatten {} } "
      "layers { dense { units: 2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {4, 5, 3}, 2);
  EXPECT_THAT(plan.layers[2].output, ElementsAre(4, 5, 2));
  EXPECT_THAT(plan.layers[4].output, ElementsAre(4, 5, 2));
}

TEST(ModelPlanTest, RegularizersOfEachVariable) {
  const ModelPlan plan = PlanOrDie(
      "layers { depthwise_conv2d { kernel_size: 1 depthwise_regularizer { l1: 1 } "
      "bias_regularizer { l1: 2 } } } layers { batch_normalization { gamma_regularizer { l1: 3 } "
      "beta_regularizer { l1: 4 } } } layers { layer_normalization { no_scale: true "
      "gamma_regularizer { l1: 5 } beta_regularizer { l1: 6 } } } layers { flatten {} } "
      "layers { dense { units: 2 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {4, 5, 3}, 2);
  std::vector<double> l1;
  for (const Regularizer& regularizer : plan.regularizers) l1.push_back(regularizer.l1());
  // The moving averages have none.
  EXPECT_THAT(l1, ElementsAre(1, 2, 3, 4, 0, 0, 6, 0, 0));
}

TEST(ModelPlanTest, BinaryModelsMayAskForAuc) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 1 } } loss: BINARY_CROSSENTROPY metrics: AUC metrics: ACCURACY",
      {123}, 2);
  ASSERT_EQ(plan.outputs[0].metrics.size(), 2u);
  EXPECT_EQ(plan.outputs[0].metrics[0].name, "auc");
  EXPECT_EQ(plan.outputs[0].metrics[1].name, "accuracy");
}

TEST(ModelPlanTest, CheckLabelsTellsWhereTheLargestIs) {
  const ModelPlan plan = PlanOrDie(kMnistCnn, {28, 28, 1}, 10);
  EXPECT_TRUE(CheckLabels(plan, FloatsAndClass({28, 28, 1}, 10)).ok());
  EXPECT_EQ(CheckLabels(plan, FloatsAndClass({28, 28, 1}, 12, "t10k-labels: example 17")).message(),
            "model.layers[5] 'dense_5': the last layer has 10 units, the labels go up to 11 "
            "(t10k-labels: example 17); give it at least 12 units");
  EXPECT_EQ(CheckLabels(plan, FloatsAndClass({28, 28, 1}, int64_t{1} << 62)).message(),
            "model.layers[5] 'dense_5': the last layer has 10 units, the labels go up to "
            "4611686018427387903; they must be below 16777216, the most units that a layer may "
            "have");
}

// A spec of 16 MiB has room for millions of layers of a few bytes, which took 1.4 GiB to plan.
TEST(ModelPlanTest, LayersWithoutNumberAreRefusedBeforeTheyArePlanned) {
  ModelSpec spec = Parse("loss: SPARSE_CATEGORICAL_CROSSENTROPY");
  for (int i = 0; i < 1000000; ++i) spec.add_layers()->mutable_flatten();
  const absl::Status status = PlanModel(spec, FloatsAndClass({4}, 2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "model.layers: 1000000 layers; a model has at most 10000");
}

struct Refusal {
  const char* model;
  Shape input;
  int32_t label_count;
  const char* message;
};

class RefusedModelTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedModelTest, SaysWhatIsWrongAndWhatWouldFit) {
  const Refusal& refusal = GetParam();
  const absl::StatusOr<ModelPlan> plan =
      PlanModel(Parse(refusal.model), FloatsAndClass(refusal.input, refusal.label_count));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(plan.status().message(), refusal.message);
}

#define SPARSE "loss: SPARSE_CATEGORICAL_CROSSENTROPY"
#define BINARY "loss: BINARY_CROSSENTROPY"

INSTANTIATE_TEST_SUITE_P(
    Layers, RefusedModelTest,
    ::testing::Values(
        Refusal{SPARSE, {4}, 2, "model.layers is empty; a model has at least one layer"},
        Refusal{"layers { flatten {} } " SPARSE,
                {4},
                2,
                "model.layers: no layer has variables to train; add a dense or conv2d layer"},
        Refusal{"layers { conv2d { filters: 32 kernel_size: 3 } } layers { dense { units: 5 } "
                "} " SPARSE,
                {28, 28, 1},
                5,
                "model.layers[1] 'dense_1': SPARSE_CATEGORICAL_CROSSENTROPY takes [classes], the "
                "last output is [26, 26, 5]; end the model with a flatten layer and a dense "
                "layer"},
        Refusal{"layers { dense {} } " SPARSE,
                {4},
                2,
                "model.layers[0] 'dense_0': units is 0; it must be at least 1"},
        Refusal{"layers { conv2d { kernel_size: 3 } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'conv2d_0': filters is 0; it must be at least 1"},
        Refusal{"layers { conv2d { filters: 1 } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'conv2d_0': kernel_size is []; give one number, or height and "
                "width"},
        Refusal{"layers { conv2d { filters: 1 kernel_size: [ 3, 3, 3 ] } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'conv2d_0': kernel_size is [3, 3, 3]; give one number, or height "
                "and width"},
        Refusal{"layers { conv2d { filters: 1 kernel_size: 3 strides: [ 1, 0 ] } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'conv2d_0': strides is [1, 0]; each number must be at least 1"},
        Refusal{"layers { conv2d { filters: 1 kernel_size: [ 3, 9 ] } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'conv2d_0': kernel_size is [3, 9], its input is [8, 8, 1]: along "
                "width it fits up to 8 with padding VALID"},
        Refusal{"layers { max_pool2d { pool_size: 16 padding: SAME } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'max_pool2d_0': pool_size is [16, 16], its input is [8, 8, 1]: "
                "along height it fits up to 15 with padding SAME"},
        Refusal{"layers { max_pool2d {} } " SPARSE,
                {8},
                2,
                "model.layers[0] 'max_pool2d_0': max_pool2d takes images [height, width, "
                "channels], its input is [8]"},
        Refusal{"layers { dropout { rate: 1 } } " SPARSE,
                {8},
                2,
                "model.layers[0] 'dropout_0': rate is 1; it must be at least 0 and below 1"},
        Refusal{"layers { dropout { rate: nan } } " SPARSE,
                {8},
                2,
                "model.layers[0] 'dropout_0': rate is nan; it must be at least 0 and below 1"},
        Refusal{"layers { rescaling { scale: 1e39 } } " SPARSE,
                {8},
                2,
                "model.layers[0] 'rescaling_0': scale is 1e+39; it must be a finite number of "
                "float32"},
        Refusal{"layers { rescaling { offset: -inf } } " SPARSE,
                {8},
                2,
                "model.layers[0] 'rescaling_0': offset is -inf; it must be a finite number of "
                "float32"}));

INSTANTIATE_TEST_SUITE_P(
    Convolutions, RefusedModelTest,
    ::testing::Values(
        Refusal{"layers { conv2d { filters: 4 kernel_size: 3 groups: 2 } } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'conv2d_0': groups is 2, with 3 channels and 4 filters; it must "
                "divide both"},
        Refusal{"layers { conv2d { filters: 4 kernel_size: 3 strides: [2, 1] dilation_rate: 2 } "
                "} " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'conv2d_0': dilation_rate is [2, 2], strides is [2, 1]; one of "
                "them must be 1"},
        Refusal{"layers { conv2d { filters: 4 kernel_size: 3 dilation_rate: [1, 4] } } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'conv2d_0': kernel_size is [3, 3] and dilation_rate [1, 4], "
                "together [3, 9], its input is [8, 8, 3]: along width it fits up to 8 with padding "
                "VALID"},
        Refusal{"layers { conv2d { filters: 4 kernel_size: 3 padding: CAUSAL } } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'conv2d_0': padding is CAUSAL; use VALID or SAME"},
        Refusal{"layers { depthwise_conv2d { kernel_size: 3 strides: [1, 2] } } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'depthwise_conv2d_0': strides is [1, 2]; height and width must be "
                "equal"},
        Refusal{"layers { depthwise_conv2d { kernel_size: 3 } } " SPARSE,
                {8, 8},
                2,
                "model.layers[0] 'depthwise_conv2d_0': depthwise_conv2d takes images [height, "
                "width, channels], its input is [8, 8]"},
        Refusal{"layers { conv1d { filters: 4 kernel_size: 3 } } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'conv1d_0': conv1d takes sequences [steps, channels], its input "
                "is [8, 8, 3]"},
        Refusal{"layers { conv1d { filters: 4 } } " SPARSE,
                {8, 3},
                2,
                "model.layers[0] 'conv1d_0': kernel_size is 0; it must be at least 1"},
        Refusal{"layers { conv1d { filters: 4 kernel_size: 9 padding: CAUSAL } } " SPARSE,
                {8, 3},
                2,
                "model.layers[0] 'conv1d_0': kernel_size is 9, its input is [8, 3]: along steps it "
                "fits up to 8 with padding CAUSAL"},
        Refusal{"layers { conv1d { filters: 4 kernel_size: 3 dilation_rate: 4 } } " SPARSE,
                {8, 3},
                2,
                "model.layers[0] 'conv1d_0': kernel_size is 3 and dilation_rate 4, together 9, its "
                "input is [8, 3]: along steps it fits up to 8 with padding VALID"}));

INSTANTIATE_TEST_SUITE_P(
    SequencesAndShapes, RefusedModelTest,
    ::testing::Values(
        Refusal{"layers { max_pool1d {} } " SPARSE,
                {8},
                2,
                "model.layers[0] 'max_pool1d_0': max_pool1d takes sequences [steps, channels], its "
                "input is [8]"},
        Refusal{"layers { average_pooling1d { pool_size: 16 padding: SAME } } " SPARSE,
                {8, 1},
                2,
                "model.layers[0] 'average_pooling1d_0': pool_size is 16, its input is [8, 1]: "
                "along steps it fits up to 15 with padding SAME"},
        Refusal{"layers { max_pool1d { padding: CAUSAL } } " SPARSE,
                {8, 1},
                2,
                "model.layers[0] 'max_pool1d_0': padding is CAUSAL; use VALID or SAME"},
        Refusal{"layers { global_average_pooling1d {} } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'global_average_pooling1d_0': global_average_pooling1d takes "
                "sequences [steps, channels], its input is [8, 8, 3]"},
        Refusal{"layers { permute { dims: [2, 1] } } " SPARSE,
                {8, 8, 3},
                2,
                "model.layers[0] 'permute_0': dims is [2, 1], its input is [8, 8, 3]; give each of "
                "1 to 3 once"},
        Refusal{"layers { permute { dims: [2, 2] } } " SPARSE,
                {8, 3},
                2,
                "model.layers[0] 'permute_0': dims is [2, 2], its input is [8, 3]; give each of 1 "
                "to 2 once"},
        Refusal{"layers { name: 'a' dense { units: 3 activation: SOFTMAX } } layers { reshape { "
                "target_shape: [1, 3] } } layers { permute { dims: [2, 1] } } layers { flatten {} "
                "} " SPARSE,
                {4},
                2,
                "model.layers[0] 'a': its activation is SOFTMAX; the loss takes logits: remove "
                "it"}));

INSTANTIATE_TEST_SUITE_P(
    Names, RefusedModelTest,
    ::testing::Values(
        Refusal{"layers { name: 'a' dense { units: 2 } } layers { name: 'a' dense { units: 2 } "
                "} " SPARSE,
                {4},
                2,
                "model.layers[1] 'a': model.layers[0] has that name too; give each layer a name of "
                "its own"},
        Refusal{"layers { name: 'dense_1' flatten {} } layers { dense { units: 2 } } " SPARSE,
                {4},
                2,
                "model.layers[1] 'dense_1': model.layers[0] has that name too; give each layer a "
                "name of its own"},
        Refusal{"layers { name: 'a/b' dense { units: 2 } } " SPARSE,
                {4},
                2,
                "model.layers[0] 'a/b': a name has letters, digits, '_', '-' and '.', at most "
                "100"}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, RefusedModelTest,
    ::testing::Values(
        Refusal{"layers { dense { units: 4294967295 } } " SPARSE,
                {1},
                2,
                "model.layers[0] 'dense_0': its output would be [4294967295] for each example; at "
                "most 268435456 elements are supported"},
        Refusal{"layers { dense { units: 268435456 } } " SPARSE,
                {8192},
                2,
                "model.layers[0] 'dense_0': its kernel would be [8192, 268435456]; a variable has "
                "at most 1099511627776 elements"},
        Refusal{"layers { conv2d { filters: 4294967295 kernel_size: 1 } } " SPARSE,
                {16384, 16384, 1},
                2,
                "model.layers[0] 'conv2d_0': its output would be [16384, 16384, 4294967295] for "
                "each example; at most 268435456 elements are supported"},
        Refusal{"layers { dense { units: 2 } } " SPARSE,
                {uint64_t{1} << 40, uint64_t{1} << 40},
                2,
                "examples have the shape [1099511627776, 1099511627776]; models take 1 to "
                "268435456 features"},
        Refusal{"layers { dense { units: 2 } } " SPARSE,
                {0},
                2,
                "examples have the shape [0]; models take 1 to 268435456 features"}));

INSTANTIATE_TEST_SUITE_P(
    Losses, RefusedModelTest,
    ::testing::Values(
        Refusal{"layers { dense { units: 5 } }",
                {4},
                2,
                "model.loss is 0; use one of SPARSE_CATEGORICAL_CROSSENTROPY, BINARY_CROSSENTROPY, "
                "CATEGORICAL_CROSSENTROPY, MEAN_SQUARED_ERROR, MEAN_ABSOLUTE_ERROR, HUBER"},
        Refusal{"layers { dense { units: 5 } } " SPARSE,
                {4},
                10,
                "model.layers[0] 'dense_0': the last layer has 5 units, the labels go up to 9; "
                "give it at least 10 units"},
        Refusal{"layers { dense { units: 10 } } " BINARY,
                {4},
                2,
                "model.layers[0] 'dense_0': BINARY_CROSSENTROPY takes [1], the last output is "
                "[10]; end the model with a dense layer of 1 unit"},
        Refusal{"layers { dense { units: 1 } } " BINARY,
                {4},
                10,
                "model.loss: BINARY_CROSSENTROPY takes labels 0 and 1, the labels go up to 9; use "
                "SPARSE_CATEGORICAL_CROSSENTROPY"},
        Refusal{"layers { conv2d { filters: 2 kernel_size: 3 } } " SPARSE,
                {8, 8, 1},
                2,
                "model.layers[0] 'conv2d_0': SPARSE_CATEGORICAL_CROSSENTROPY takes [classes], the "
                "last output is [6, 6, 2]; end the model with a flatten layer and a dense layer"},
        Refusal{"layers { dense { units: 3 activation: SOFTMAX } } " SPARSE,
                {4},
                2,
                "model.layers[0] 'dense_0': its activation is SOFTMAX; the loss takes logits: "
                "remove it"},
        Refusal{"layers { dense { units: 1 } } layers { activation { function: SIGMOID } } layers "
                "{ dropout { rate: 0.5 } } layers { flatten {} } " BINARY,
                {4},
                2,
                "model.layers[1] 'activation_1': its activation is SIGMOID; the loss takes logits: "
                "remove it"},
        Refusal{"layers { dense { units: 3 } } metrics: ACCURACY metrics: AUC " SPARSE,
                {4},
                2,
                "model.metrics[1]: AUC needs the loss BINARY_CROSSENTROPY, it is "
                "SPARSE_CATEGORICAL_CROSSENTROPY"},
        Refusal{
            "layers { dense { units: 3 } } metrics: METRIC_UNSPECIFIED " SPARSE,
            {4},
            2,
            "model.metrics[0] is 0; use one of ACCURACY, AUC, TOP_K_ACCURACY, PRECISION, RECALL, "
            "MAE, MSE, RMSE, CONFUSION_MATRIX"}));

TEST(ModelPlanTest, LayersWithoutAKindAreToldTheKinds) {
  const absl::Status status =
      PlanModel(Parse("layers { name: 'x' } " SPARSE), FloatsAndClass({4}, 2)).status();
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("model.layers[0] 'x': has no kind; use one of dense, conv2d, "
                                    "max_pool2d, flatten, dropout, activation, add, "));
}

TEST(ModelPlanTest, ValuesOutsideTheEnumsAreRefused) {
  ModelSpec spec = Parse("layers { dense { units: 2 } } " SPARSE);
  spec.mutable_layers(0)->mutable_dense()->set_activation(static_cast<Activation>(99));
  EXPECT_EQ(
      PlanModel(spec, FloatsAndClass({4}, 2)).status().message(),
      "model.layers[0] 'dense_0': activation is 99; use one of LINEAR, RELU, SIGMOID, SOFTMAX, "
      "TANH, RELU6 and ELU");
  spec.mutable_layers(0)->mutable_dense()->set_activation(GELU);
  EXPECT_EQ(PlanModel(spec, FloatsAndClass({4}, 2)).status().message(),
            "model.layers[0] 'dense_0': activation is GELU; put an activation layer with this "
            "function after it");
  spec.mutable_layers(0)->mutable_dense()->set_activation(RELU);
  spec.mutable_layers(0)->mutable_dense()->set_kernel_initializer(static_cast<Initializer>(99));
  EXPECT_THAT(std::string(PlanModel(spec, FloatsAndClass({4}, 2)).status().message()),
              ::testing::HasSubstr("kernel_initializer is 99; use one of"));
}

TEST(ModelPlanTest, ValuesOutsideTheEnumsAreRefusedInConvolutions) {
  ModelSpec spec = Parse("layers { depthwise_conv2d { kernel_size: 2 } } " SPARSE);
  DepthwiseConv2D* depthwise = spec.mutable_layers(0)->mutable_depthwise_conv2d();
  depthwise->set_depthwise_initializer(static_cast<Initializer>(99));
  EXPECT_THAT(std::string(PlanModel(spec, FloatsAndClass({4, 4, 1}, 2)).status().message()),
              ::testing::HasSubstr("depthwise_initializer is 99; use one of"));
  depthwise->set_padding(static_cast<Padding>(99));
  EXPECT_EQ(PlanModel(spec, FloatsAndClass({4, 4, 1}, 2)).status().message(),
            "model.layers[0] 'depthwise_conv2d_0': padding is 99; use VALID or SAME");
  spec = Parse("layers { conv1d { filters: 1 kernel_size: 2 } } " SPARSE);
  spec.mutable_layers(0)->mutable_conv1d()->set_padding(static_cast<Padding>(99));
  EXPECT_EQ(PlanModel(spec, FloatsAndClass({4, 1}, 2)).status().message(),
            "model.layers[0] 'conv1d_0': padding is 99; use VALID, SAME or CAUSAL");
}

}  // namespace
}  // namespace millrace::worker
