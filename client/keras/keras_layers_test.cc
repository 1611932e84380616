// Every class of layers, from files that Keras 2 and 3 wrote (testing/reference/keras_models.py),
// and what is refused of each.
#include "client/keras/keras_layers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/keras/keras_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class KerasLayersTest : public ::testing::TestWithParam<const char*> {
 protected:
  KerasModel ConvertSample(const std::string& name) {
    return ConvertOrFail(ReadKerasSample(absl::StrCat(name, ".", GetParam(), ".json")));
  }
};

TEST_P(KerasLayersTest, OfImages) {
  ExpectModel(ConvertSample("images").model, R"(
    layers { name: "rescaling" inputs: "features"
             rescaling { scale: 0.00392156862745098 offset: -0.5 } }
    layers { name: "padding" inputs: "rescaling" zero_padding2d { padding: [1, 2, 3, 4] } }
    layers { name: "larger" inputs: "padding" up_sampling2d { size: [2, 3] } }
    layers { name: "grouped" inputs: "larger"
             conv2d { filters: 6 kernel_size: [3, 3] strides: [1, 1] dilation_rate: [2, 2]
                      groups: 2 activation: ELU kernel_regularizer { l2: 0.01 }
                      bias_regularizer { l1: 0.5 } } }
    layers { name: "depthwise" inputs: "grouped"
             depthwise_conv2d { kernel_size: [3, 3] strides: [2, 2] depth_multiplier: 2
                                padding: SAME no_bias: true
                                depthwise_regularizer { l1: 0.1 l2: 0.2 } } }
    layers { name: "norm" inputs: "depthwise"
             batch_normalization { momentum: 0.99 epsilon: 0.001 no_center: true
                                   gamma_regularizer { l2: 0.1 } } }
    layers { name: "separable_depthwise" inputs: "norm"
             depthwise_conv2d { kernel_size: [2, 2] strides: [1, 1] no_bias: true } }
    layers { name: "separable" inputs: "separable_depthwise"
             conv2d { filters: 5 kernel_size: 1 kernel_initializer: HE_UNIFORM } }
    layers { name: "separable_activation" inputs: "separable" activation { function: GELU } }
    layers { name: "layer_norm" inputs: "separable_activation"
             layer_normalization { epsilon: 1e-06 beta_regularizer { l2: 0.1 } } }
    layers { name: "average" inputs: "layer_norm"
             average_pooling2d { pool_size: [2, 1] strides: [1, 1] padding: SAME } }
    layers { name: "relu6" inputs: "average" activation { function: RELU6 } }
    layers { name: "leaky_relu" inputs: "average"
             activation { function: LEAKY_RELU negative_slope: 0.125 } }
    layers { name: "leaky" inputs: "average"
             activation { function: LEAKY_RELU negative_slope: 0.25 } }
    layers { name: "elu" inputs: "average" activation { function: ELU } }
    layers { name: "softmax" inputs: "average" activation { function: SOFTMAX } }
    layers { name: "silu" inputs: "average" activation { function: SILU } }
    layers { name: "average_of" inputs: ["relu6", "leaky_relu", "leaky"] average {} }
    layers { name: "maximum" inputs: ["elu", "softmax", "silu"] maximum {} }
    layers { name: "product" inputs: ["average_of", "maximum"] multiply {} }
    layers { name: "difference" inputs: ["product", "maximum"] subtract {} }
    layers { name: "permute" inputs: "difference" permute { dims: [3, 1, 2] } }
    layers { name: "reshape" inputs: "permute" reshape { target_shape: [5, -1, 1] } }
    layers { name: "max" inputs: "reshape" global_max_pooling2d {} }
  )");
}

TEST_P(KerasLayersTest, OfSequences) {
  ExpectModel(ConvertSample("sequences").model, R"(
    layers { name: "embedding" inputs: "features"
             embedding { input_dim: 50 output_dim: 6 embeddings_regularizer { l2: 0.01 } } }
    layers { name: "causal" inputs: "embedding"
             conv1d { filters: 8 kernel_size: 3 padding: CAUSAL dilation_rate: 2
                      activation: RELU } }
    layers { name: "max_pool" inputs: "causal" max_pool1d { pool_size: 2 strides: 2 } }
    layers { name: "grouped" inputs: "max_pool"
             conv1d { filters: 4 kernel_size: 2 strides: 2 groups: 2 } }
    layers { name: "norm" inputs: "grouped"
             batch_normalization { momentum: 0.99 epsilon: 0.001 } }
    layers { name: "average_pool" inputs: "norm"
             average_pooling1d { pool_size: 2 strides: 1 padding: SAME } }
    layers { name: "mean" inputs: "average_pool" global_average_pooling1d {} }
    layers { name: "most" inputs: "average_pool" global_max_pooling1d {} }
    layers { name: "both" inputs: ["mean", "most"] concatenate { axis: 1 } }
  )");
}

INSTANTIATE_TEST_SUITE_P(Versions, KerasLayersTest, ::testing::Values("keras2", "keras3"),
                         [](const auto& instance) { return instance.param; });

// A model of one layer, "x".
std::string Layer(const std::string& class_name, const std::string& fields,
                  const std::string& beside = "") {
  return SequentialJson(absl::StrCat(R"({"class_name": ")", class_name,
                                     R"(", "config": {"name": "x", )", fields, "}", beside, "}"));
}

TEST(KerasLayerFieldsTest, ValuesThatWeLackAreNamed) {
  const auto error = [](const std::string& class_name, const std::string& fields) {
    return ConversionError(Layer(class_name, fields));
  };
  EXPECT_THAT(error("Embedding", R"("input_dim": 5, "output_dim": 2, "mask_zero": true)"),
              HasSubstr("config.layers[0] 'x': mask_zero: true; must be false or left out"));
  EXPECT_THAT(error("ReLU", R"("max_value": 3.0)"), HasSubstr("max_value: 3.0; must be 6 or left"));
  EXPECT_THAT(error("ELU", R"("alpha": 0.5)"), HasSubstr("alpha: 0.5; must be 1.0 or left out"));
  EXPECT_THAT(error("Softmax", R"("axis": 1)"), HasSubstr("axis: 1; must be -1"));
  EXPECT_THAT(error("UpSampling2D", R"("size": 2, "interpolation": "bilinear")"),
              HasSubstr("interpolation: \"bilinear\"; must be \"nearest\""));
  EXPECT_THAT(error("Rescaling", R"("scale": [1, 2])"),
              HasSubstr("scale: [1,2]; must be a number"));
  EXPECT_THAT(error("Conv2D", R"("filters": 2, "kernel_size": 3, "padding": "causal")"),
              HasSubstr("padding: \"causal\"; must be \"valid\" or \"same\""));
  EXPECT_THAT(error("Conv1D", R"("filters": 2, "kernel_size": [3, 3])"),
              HasSubstr("kernel_size: [3,3]; must be one whole number"));
  EXPECT_THAT(error("GlobalAveragePooling1D", R"("keepdims": true)"),
              HasSubstr("keepdims: true; must be false"));
  EXPECT_THAT(error("MaxPooling1D", R"("data_format": "channels_first")"),
              HasSubstr("data_format: \"channels_first\"; must be \"channels_last\""));
  EXPECT_THAT(error("Reshape", R"("target_shape": [2, "a"])"),
              HasSubstr("target_shape: [2,\"a\"]; must be dimensions"));
  EXPECT_THAT(error("Dense", R"("units": 1, "kernel_regularizer": "orthogonal")"),
              HasSubstr("kernel_regularizer: \"orthogonal\"; must be L1, L2, L1L2"));
  EXPECT_THAT(error("LayerNormalization", R"("axis": [1])"), HasSubstr("axis: [1]; must be -1"));
}

TEST(KerasLayerFieldsTest, WhatStandsForLayersThatPrepareDataIsNamed) {
  const auto error = [](const std::string& name) {
    return ConversionError(Layer(name, R"("trainable": true)"));
  };
  EXPECT_THAT(error("Normalization"),
              HasSubstr("its class is Normalization, which prepares data and is no layer here; "
                        "build the model without it to convert it. Of a CSV column, number { "
                        "subtract: MEAN divide: STDDEV }"));
  for (const char* name : {"StringLookup", "IntegerLookup"}) {
    EXPECT_THAT(error(name), HasSubstr("vocabulary { words: [...] others: true }")) << name;
  }
  EXPECT_THAT(error("Hashing"), HasSubstr("hash { buckets: N } stands for it"));
  EXPECT_THAT(error("Discretization"), HasSubstr("buckets { boundaries: [...] } stands for it"));
  EXPECT_THAT(error("RandomFlip"), HasSubstr("augmentation { horizontal_flip: true } stands"));
  EXPECT_THAT(error("RandomTranslation"), HasSubstr("augmentation { crop_padding: N } stands"));
  for (const char* name : {"RandomRotation", "RandomHue", "MixUp", "TextVectorization"}) {
    EXPECT_THAT(error(name), HasSubstr("Nothing stands for it")) << name;
  }
  // What somebody else calls so may be anything; so may what a Lambda does.
  EXPECT_THAT(ConversionError(SequentialJson(
                  R"({"class_name": "RandomFlip", "module": "mine", "config": {"name": "x"}})")),
              HasSubstr("needs a worker of your own"));
  EXPECT_THAT(error("Lambda"), HasSubstr("needs a worker of your own"));
}

TEST(KerasLayerFieldsTest, ADropoutHasARate) {
  EXPECT_THAT(ConversionError(Layer("Dropout", R"("seed": 1)")),
              HasSubstr("config.layers[0] 'x': rate: null; must be a number"));
}

TEST(KerasLayerFieldsTest, TheLastDimensionIsKnownFromHowALayerWasBuilt) {
  const std::string built = R"(, "build_config": {"input_shape": [null, 4, 4, 2]})";
  const auto norm = [&](const std::string& axis) {
    return Layer("BatchNormalization", absl::StrCat(R"("axis": )", axis), built);
  };
  EXPECT_EQ(ConvertOrFail(norm("[3]")).model.layers_size(), 1);
  EXPECT_THAT(ConversionError(norm("[1]")), HasSubstr("axis: [1]; must be -1 or"));
}

// A normalization of AXIS, as Keras 2 writes it into an .h5 file: it tells the shape of the input.
std::string Normalized(const std::string& shape, const std::string& before,
                       const std::string& class_name, const std::string& axis) {
  return SequentialJson(
      absl::StrCat(R"({"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": )",
                   shape, "}}, ", before, R"({"class_name": ")", class_name,
                   R"(", "config": {"name": "norm", "axis": )", axis, "}}"));
}

TEST(KerasLayerFieldsTest, TheLastDimensionFollowsFromTheLayersBefore) {
  const std::string conv =
      R"({"class_name": "Conv2D", "config": {"name": "c", "filters": 2, "kernel_size": 3}}, )";
  const std::string dense =
      absl::StrCat(conv, R"({"class_name": "Flatten", "config": {"name": "f"}},
                             {"class_name": "Dense", "config": {"name": "d", "units": 3}}, )");
  const std::string words = R"({"class_name": "Embedding",
      "config": {"name": "e", "input_dim": 9, "output_dim": 4}}, )";
  const auto layers = [](const std::string& json) {
    return ConvertOrFail(json).model.layers_size();
  };
  const std::string image = "[null, 8, 8, 1]";
  EXPECT_EQ(layers(Normalized(image, "", "BatchNormalization", "[3]")), 1);
  EXPECT_EQ(layers(Normalized(image, conv, "BatchNormalization", "[3]")), 2);
  EXPECT_EQ(layers(Normalized(image, dense, "BatchNormalization", "[1]")), 4);
  EXPECT_EQ(layers(Normalized("[null, 7]", words, "BatchNormalization", "[2]")), 2);
  EXPECT_EQ(layers(Normalized("[null, 7]", words, "LayerNormalization", "[2]")), 2);
  for (const std::string& before : {std::string(), conv}) {
    EXPECT_THAT(ConversionError(Normalized(image, before, "BatchNormalization", "[1]")),
                HasSubstr("axis: [1]; must be -1 or [-1] or 3 or [3]"));
  }
  EXPECT_THAT(ConversionError(Normalized(image, dense, "BatchNormalization", "[3]")),
              HasSubstr("axis: [3]; must be -1 or [-1] or 1 or [1]"));
  EXPECT_THAT(ConversionError(Normalized("[null, 7]", words, "LayerNormalization", "[1]")),
              HasSubstr("axis: [1]; must be -1 or [-1] or 2 or [2]"));
}

TEST(KerasLayerFieldsTest, WhereTheRankIsNotKnownOnlyTheLastDimensionAsSuchIsTaken) {
  const auto norm = [](const std::string& axis) {
    return Layer("BatchNormalization", absl::StrCat(R"("axis": )", axis));
  };
  EXPECT_EQ(ConvertOrFail(norm("[-1]")).model.layers_size(), 1);
  for (const char* axis : {"1", "3"}) {
    EXPECT_THAT(ConversionError(norm(axis)),
                HasSubstr(absl::StrCat("axis: ", axis, "; must be -1 or [-1] or left out")));
  }
}

TEST(KerasLayerFieldsTest, InitializersWithOurParametersHaveOurNames) {
  const auto initializer = [](const std::string& value) {
    const KerasModel converted =
        ConvertOrFail(Layer("Dense", absl::StrCat(R"("units": 1, "kernel_initializer": )", value)));
    return converted.model.layers(0).dense().kernel_initializer();
  };
  EXPECT_EQ(initializer(R"({"class_name": "RandomUniform",
                            "config": {"minval": -0.05, "maxval": 0.05, "seed": 7}})"),
            UNIFORM);
  EXPECT_EQ(initializer(R"({"class_name": "VarianceScaling", "config": {"scale": 2.0,
                            "mode": "fan_in", "distribution": "truncated_normal"}})"),
            HE_NORMAL);
  EXPECT_EQ(initializer(R"("lecun_uniform")"), LECUN_UNIFORM);
}

TEST(KerasLayerFieldsTest, OtherInitializersDoNotMatterWhereTheWeightsAreGiven) {
  const std::string json = Layer("Dense", R"("units": 1, "kernel_initializer": {
      "class_name": "RandomNormal", "config": {"mean": 0.0, "stddev": 0.5}})");
  EXPECT_THAT(ConversionError(json), HasSubstr("or any, where the weights are converted too"));
  KerasModelOptions options;
  options.values_given = true;
  const KerasModel converted = ConvertOrFail(json, options);
  ExpectModel(converted.model, R"(layers { name: "x" dense { units: 1 } })");
  EXPECT_THAT(converted.notes,
              Contains(HasSubstr("Left out, since its values are converted: 'x': "
                                 "kernel_initializer: {\"class_name\":\"RandomNo")));
}

TEST(KerasLayerFieldsTest, RegularizersHaveKerassDefaults) {
  const auto regularizer = [](const std::string& value) {
    const KerasModel converted =
        ConvertOrFail(Layer("Dense", absl::StrCat(R"("units": 1, "kernel_regularizer": )", value)));
    return converted.model.layers(0).dense().kernel_regularizer();
  };
  EXPECT_EQ(regularizer(R"("l2")").l2(), 0.01);
  EXPECT_EQ(regularizer(R"("l2")").l1(), 0);
  EXPECT_EQ(regularizer(R"("l1_l2")").l1(), 0.01);
  EXPECT_EQ(regularizer(R"({"class_name": "L2", "config": {"l2": 0.009999999776482582}})").l2(),
            0.01);
  EXPECT_EQ(regularizer(R"({"class_name": "L1L2", "config": {"l2": 0.5}})").l1(), 0);
}

TEST(KerasLayerFieldsTest, ActivationsThatNeedTheirInputsBecomeLayers) {
  ExpectModel(ConvertOrFail(Layer("Dense", R"("units": 2, "activation": "leaky_relu")")).model, R"(
    layers { name: "x" dense { units: 2 } }
    layers { name: "x_activation" activation { function: LEAKY_RELU negative_slope: 0.2 } }
  )");
}

// A Functional model of the layer "x", which is called with training=VALUE.
std::string Called(const std::string& layer, const std::string& training) {
  return absl::StrCat(
      R"({"class_name": "Functional", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"name": "in"}, "inbound_nodes": []}, )",
      layer, R"(, "inbound_nodes": [[["in", 0, 0, {"training": )", training,
      R"(}]]]}], "input_layers": [["in", 0, 0]], "output_layers": [["x", 0, 0]]}})");
}

TEST(KerasCallTest, WhatIsComputedAsElsewhereThanInTrainingMustBeFrozen) {
  const auto norm = [](const std::string& trainable) {
    return absl::StrCat(R"({"class_name": "BatchNormalization", "config": {"name": "x",
                            "trainable": )",
                        trainable, "}");
  };
  EXPECT_EQ(ConvertOrFail(Called(norm("false"), "false")).model.layers_size(), 1);
  EXPECT_THAT(
      ConversionError(Called(norm("true"), "false")),
      HasSubstr("config.layers[1] 'x': it is called with training=False; it must be frozen"));
  EXPECT_THAT(ConversionError(Called(norm("true"), "true")),
              HasSubstr("called with training=True; must be left out"));
  const std::string dropout = R"({"class_name": "Dropout", "config": {"name": "x", "rate": 0.5})";
  EXPECT_EQ(ConvertOrFail(Called(dropout, "false")).model.layers(0).dropout().rate(), 0);
  EXPECT_EQ(ConvertOrFail(Called(dropout, "null")).model.layers(0).dropout().rate(), 0.5);
}

TEST(KerasCallTest, WhatIsTakenMustBeTensors) {
  const auto called = [](const std::string& call) {
    return absl::StrCat(R"({"class_name": "Functional", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"name": "in"}, "inbound_nodes": []},
        {"class_name": "Multiply", "config": {"name": "x"}, "inbound_nodes": [)",
                        call, R"(]}], "output_layers": [["x", 0, 0]]}})");
  };
  const std::string tensor =
      R"({"class_name": "__keras_tensor__", "config": {"keras_history": ["in", 0, 0]}})";
  EXPECT_THAT(ConversionError(called(absl::StrCat(R"({"args": [)", tensor, R"(, 2.0]})"))),
              HasSubstr("'x': inbound_nodes[0]: 2.0; must be outputs of layers"));
  EXPECT_THAT(ConversionError(called(R"([["out", 0, 0]])")),
              HasSubstr("'x' takes an output of 'out'; must be a layer that has one"));
  EXPECT_THAT(ConversionError(
                  called(absl::StrCat(R"({"args": [)", tensor, R"(], "kwargs": {"mask": 1}})"))),
              HasSubstr("inbound_nodes[0]: mask: 1; must be left out"));
}

}  // namespace
}  // namespace millrace::client
