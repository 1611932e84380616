// Files that Keras 2 and 3 wrote (testing/reference/keras_models.py), and what is wrong with
// others.
#include "client/keras/keras_model.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/keras/keras_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOwnCode[] =
    "Code of your own (a Lambda, a custom class) needs a worker of your own";

class KerasVersionTest : public ::testing::TestWithParam<const char*> {
 protected:
  KerasModel ConvertSample(const std::string& name) {
    return ConvertOrFail(ReadKerasSample(absl::StrCat(name, ".", GetParam(), ".json")));
  }
};

TEST_P(KerasVersionTest, SequentialIsAChain) {
  const KerasModel converted = ConvertSample("convolutional");
  ExpectModel(converted.model, R"(
    layers {
      name: "conv"
      conv2d {
        filters: 8 kernel_size: [3, 3] strides: [1, 1] activation: RELU
        kernel_initializer: HE_NORMAL
      }
    }
    layers { name: "pool" max_pool2d { pool_size: [2, 2] strides: [2, 2] } }
    layers { name: "flatten" flatten {} }
    layers { name: "dropout" dropout { rate: 0.5 } }
    layers { name: "classes" dense { units: 10 } }
  )");
  EXPECT_THAT(converted.notes,
              ElementsAre("The activation of 'classes' is left out: losses take logits.",
                          HasSubstr("set model.loss")));
}

TEST_P(KerasVersionTest, FunctionalIsAGraphWithNamedInputs) {
  const KerasModel converted = ConvertSample("two_inputs");
  EXPECT_THAT(converted.notes, Contains("The data must have the features image, extra."));
  const ModelSpec& model = converted.model;
  EXPECT_EQ(model.layers(model.layers_size() - 1).name(), "out");
  ModelSpec add, shared, again, frozen, norm;
  for (const LayerSpec& layer : model.layers()) {
    if (layer.name() == "add") *add.add_layers() = layer;
    if (layer.name() == "shared") *shared.add_layers() = layer;
    if (layer.name() == "shared_call1") *again.add_layers() = layer;
    if (layer.name() == "shortcut") *frozen.add_layers() = layer;
    if (layer.name() == "norm") *norm.add_layers() = layer;
  }
  ExpectModel(add, R"(layers { name: "add" inputs: ["relu", "shortcut"] add {} })");
  ExpectModel(shared, R"(layers { name: "shared" inputs: "extra" dense { units: 4 } })");
  ExpectModel(again, R"(layers { name: "shared_call1" inputs: "hidden" variables_of: "shared"
                                 dense { units: 4 } })");
  ExpectModel(frozen, R"(layers { name: "shortcut" inputs: "image" trainable: false
                                  conv2d { filters: 4 kernel_size: [1, 1] strides: [1, 1] } })");
  ExpectModel(norm, R"(layers { name: "norm" inputs: "conv"
                                batch_normalization { momentum: 0.9 epsilon: 0.001 } })");
}

TEST_P(KerasVersionTest, ModelsWithinTheModelBecomeTheirLayers) {
  KerasModel converted = ConvertSample("nested");
  converted.model.clear_outputs();
  // Called with training=False, which Keras 3 does not mind.
  LayerSpec& dropout = *converted.model.mutable_layers(7);
  EXPECT_EQ(dropout.dropout().rate(), std::string(GetParam()) == "keras2" ? 0 : 0.5);
  dropout.mutable_dropout()->clear_rate();
  ExpectModel(converted.model, R"(
    layers { name: "head.conv" inputs: "left"
             conv2d { filters: 5 kernel_size: [1, 1] strides: [1, 1] } }
    layers { name: "head.norm" inputs: "head.conv" trainable: false
             batch_normalization { momentum: 0.99 epsilon: 0.001 } }
    layers { name: "head_call1.conv" inputs: "right" variables_of: "head.conv"
             conv2d { filters: 5 kernel_size: [1, 1] strides: [1, 1] } }
    layers { name: "head_call1.norm" inputs: "head_call1.conv" variables_of: "head.norm"
             batch_normalization { momentum: 0.99 epsilon: 0.001 } }
    layers { name: "backbone.conv" inputs: "head.norm"
             conv2d { filters: 3 kernel_size: [1, 1] strides: [1, 1] } }
    layers { name: "backbone.drop" inputs: "backbone.conv" dropout { rate: 0.5 } }
    layers { name: "backbone_call1.conv" inputs: "head_call1.norm" variables_of: "backbone.conv"
             conv2d { filters: 3 kernel_size: [1, 1] strides: [1, 1] } }
    layers { name: "backbone_call1.drop" inputs: "backbone_call1.conv"
             variables_of: "backbone.drop" dropout {} }
    layers { name: "backbone.flat" inputs: "head_call1.norm" flatten {} }
    layers { name: "add" inputs: ["backbone.drop", "backbone_call1.drop"] add {} }
    layers { name: "flatten" inputs: "add" flatten {} }
    layers { name: "other" inputs: "backbone.flat" dense { units: 1 } }
    layers { name: "one" inputs: "flatten" dense { units: 3 } }
  )");
}

// Once these were taken for Keras's Dense, and its Dropout with a rate that is no number.
TEST_P(KerasVersionTest, AUsersClassIsNotKerassOfTheSameName) {
  const std::string json = ReadKerasSample(absl::StrCat("own.", GetParam(), ".json"));
  EXPECT_THAT(ConversionError(json), AllOf(HasSubstr("'dense': its class is my>Dense, which cannot "
                                                     "be converted; must be one of Activation, "),
                                           EndsWith(kOwnCode)));
  const std::string keras_dense = absl::StrReplaceAll(
      json,
      {{"null,\n    \"class_name\": \"Dense\"", "\"keras.layers\", \"class_name\": \"Dense\""},
       {"\"my>Dense\"", "null"}});
  EXPECT_THAT(ConversionError(keras_dense), HasSubstr("'dropout': its class is Dropout (module "
                                                      "null), which cannot be converted"));
}

INSTANTIATE_TEST_SUITE_P(Versions, KerasVersionTest, ::testing::Values("keras2", "keras3"),
                         [](const auto& instance) { return instance.param; });

TEST(KerasModelTest, WhatSomeFormatsHaveDividedAlreadyIsNamed) {
  const auto notes = [](const std::string& before, const std::string& fields) {
    return ConvertOrFail(SequentialJson(absl::StrCat(
                             before, R"({"class_name": "Rescaling", "config": {
        "name": "r", )",
                             fields, R"(}}, {"class_name": "Dense", "config": {"name": "d",
        "units": 2}})")))
        .notes;
  };
  EXPECT_THAT(notes("", R"("scale": 0.00392156862745098)"),
              Contains(AllOf(HasSubstr("those of image_folder, idx and cifar are divided by 255 "
                                       "already"),
                             EndsWith("set its scale to 1 or remove the layer."))));
  EXPECT_THAT(notes("", R"("scale": 0.00784313725490196, "offset": -1.0)"),
              Contains(EndsWith("set its scale to 2.")));
  const auto divided = Contains(HasSubstr("divided by 255 already"));
  EXPECT_THAT(notes("", R"("scale": 0.5)"), Not(divided));
  EXPECT_THAT(notes(R"({"class_name": "Flatten", "config": {"name": "f"}},)",
                    R"("scale": 0.00392156862745098)"),
              Not(divided));
}

TEST(KerasModelTest, PoliciesOfFloatsAreNamed) {
  const auto notes = [](const std::string& dtype) {
    return ConvertOrFail(SequentialJson(absl::StrCat(
                             R"({"class_name": "Dense", "config": {"name": "d", "units": 2,
                                 "dtype": )",
                             dtype, "}}")))
        .notes;
  };
  const auto named = [](const std::string& policy) {
    return Contains(HasSubstr(absl::StrCat("Layers have the dtype ", policy,
                                           ", which is left out: a "
                                           "job computes in float32")));
  };
  EXPECT_THAT(notes(R"({"class_name": "DTypePolicy", "config": {"name": "mixed_bfloat16"}})"),
              AllOf(named("mixed_bfloat16"),
                    Contains(HasSubstr("unless precision { compute: BFLOAT16 } is in the job"))));
  EXPECT_THAT(notes(R"({"class_name": "Policy", "config": {"name": "mixed_float16"}})"),
              named("mixed_float16"));
  EXPECT_THAT(notes(R"("float64")"), named("float64"));
  EXPECT_THAT(notes(R"("float32")"), Not(Contains(HasSubstr("dtype"))));
}

TEST(KerasModelTest, WhatIsNoJsonIsNamedWithItsPlace) {
  EXPECT_THAT(ConversionError("{\n  \"class_name\": oops}"),
              HasSubstr("model.json:2:17: not JSON"));
  EXPECT_THAT(ConversionError(""), HasSubstr("model.json:1:1: not JSON"));
  // Such a number once ended the process.
  EXPECT_THAT(ConversionError("[1e999]"),
              HasSubstr("model.json: a number past 64 bits; must be finite"));
  EXPECT_THAT(ConversionError(std::string(100000, '[')), HasSubstr("model.json"));
  EXPECT_THAT(ConversionError("[]"), HasSubstr("class_name: ''; must be Sequential or Functional"));
}

TEST(KerasModelTest, UnknownLayersAreNamedWithTheirPlace) {
  const std::string lambda = R"({"class_name": "Lambda", "config": {"name": "square"}})";
  EXPECT_THAT(ConversionError(SequentialJson(lambda)),
              HasSubstr("model.json: config.layers[0] 'square': its class is Lambda, which cannot "
                        "be converted; must be one of Activation, "));
  EXPECT_THAT(ConversionError(SequentialJson("7")),
              HasSubstr("config.layers[0] '': config: not there"));
}

TEST(KerasModelTest, FieldsThatChangeWhatALayerComputesAreNotPassedOver) {
  const auto dense = [](const std::string& fields) {
    return SequentialJson(
        absl::StrCat(R"({"class_name": "Dense", "config": {"name": "d", )", fields, "}}"));
  };
  EXPECT_THAT(ConversionError(dense(R"("units": 0)")),
              HasSubstr("'d': units: 0; must be a whole number, at least 1"));
  EXPECT_THAT(ConversionError(dense(R"("units": 4, "activation": "mine")")),
              HasSubstr("activation: \"mine\"; must be one of LINEAR, RELU"));
  EXPECT_THAT(
      ConversionError(dense(R"("units": 4, "kernel_constraint": {"class_name": "NonNeg"})")),
      HasSubstr("kernel_constraint: {\"class_name\":\"NonNeg\"}; must be left out"));
  EXPECT_THAT(
      ConversionError(dense(R"("units": 4, "kernel_initializer": {"class_name": "Constant"})")),
      HasSubstr("kernel_initializer: {\"class_name\":\"Constant\"}; must be one of ZEROS"));
  EXPECT_EQ(ConvertOrFail(dense(R"("units": 4, "dtype": "float32", "bias_constraint": null)"))
                .model.layers_size(),
            1);
}

// A Dense layer with something beside its class, and its regularizer with something beside that.
std::string DenseOf(const std::string& origin, const std::string& regularizer_origin) {
  return SequentialJson(absl::StrCat(R"({"class_name": "Dense", )", origin,
                                     R"("config": {"name": "d", "units": 3,
          "kernel_regularizer": {"class_name": "L2", )",
                                     regularizer_origin, R"("config": {"l2": 0.5}}}})"));
}

TEST(KerasModelTest, WhatKerasWritesOfItsOwnClassesIsTaken) {
  for (const char* origin :
       {"", R"("module": "keras.layers", "registered_name": null, )",
        R"("module": "keras.src.layers.core.dense", "registered_name": "Dense", )",
        R"("module": "keras", )", R"("module": "tf_keras.src.engine.functional", )",
        R"("module": "keras.optimizers.adam", "registered_name": "Custom>Adam", )"}) {
    EXPECT_EQ(ConvertOrFail(DenseOf(origin, origin)).model.layers_size(), 1) << origin;
  }
}

TEST(KerasModelTest, ClassesThatAreNotKerassAreNamedAndRefused) {
  const auto layer = [](const std::string& origin) { return ConversionError(DenseOf(origin, "")); };
  EXPECT_THAT(layer(R"("module": "mylib.layers", "registered_name": "Dense", )"),
              HasSubstr("'d': its class is Dense (module \"mylib.layers\"), which cannot"));
  EXPECT_THAT(layer(R"("module": "keras_cv.layers", )"), HasSubstr("(module \"keras_cv.layers\")"));
  EXPECT_THAT(layer(R"("module": "builtins", )"), HasSubstr("Dense (module \"builtins\")"));
  EXPECT_THAT(layer(R"("module": 7, )"), HasSubstr("Dense (module 7)"));
  EXPECT_THAT(layer(R"("registered_name": "my>Dense", )"), HasSubstr("its class is my>Dense"));
  EXPECT_THAT(
      ConversionError(DenseOf("", R"("module": null, "registered_name": "my>L2", )")),
      AllOf(HasSubstr("'d': kernel_regularizer: its class is my>L2, which cannot be converted; "
                      "must be L1, L2, L1L2 or left out"),
            EndsWith(kOwnCode)));
}

TEST(KerasModelTest, AUsersModelIsNotKerass) {
  const std::string own = R"("module": null, "registered_name": "my>Sequential", )";
  const std::string model = absl::StrCat(R"({"class_name": "Sequential", )", own,
                                         R"("config": {"name": "m", "layers": []}})");
  EXPECT_THAT(ConversionError(model), HasSubstr("class_name: 'my>Sequential'; must be Sequential"));
  EXPECT_THAT(ConversionError(SequentialJson(model)),
              HasSubstr("config.layers[0] 'm': its class is my>Sequential, which cannot"));
  EXPECT_THAT(ConversionError(SequentialJson(
                  R"({"class_name": "InputLayer", "module": null, "config": {"name": "in"}})")),
              HasSubstr("config.layers[0] 'in': its class is InputLayer (module null)"));
}

TEST(KerasModelTest, AUsersInitializerIsNotKerass) {
  const std::string json = SequentialJson(
      R"({"class_name": "Dense", "config": {"name": "d", "units": 3, "kernel_initializer":
          {"module": null, "class_name": "Zeros", "registered_name": "my>Zeros"}}})");
  EXPECT_THAT(ConversionError(json), HasSubstr("kernel_initializer: its class is my>Zeros, which "
                                               "cannot be converted; must be one of ZEROS"));
  KerasModelOptions options;
  options.values_given = true;
  EXPECT_THAT(ConvertOrFail(json, options).notes, Contains(HasSubstr("my>Zeros")));
}

// A Functional model whose layer `name` is called twice, with the input and with its own output.
std::string CalledTwice(const std::string& name, const std::string& fields,
                        const std::string& outputs) {
  return absl::StrCat(R"({"class_name": "Functional", "config": {"layers": [
      {"class_name": "InputLayer", "config": {"name": "in"}, "inbound_nodes": []},
      {"class_name": "BatchNormalization", "config": {"name": ")",
                      name, R"(")", fields, R"(}, "inbound_nodes": [[["in", 0, 0]], [[")", name,
                      R"(", 0, 0]]]}], "output_layers": )", outputs, "}}");
}

TEST(KerasModelTest, AveragesOfSharedNormalizationsAreNoted) {
  const std::string outputs = R"([["norm", 1, 0]])";
  const auto is_noted =
      Contains(HasSubstr("The layer 'norm' is called several times: in training "
                         "Keras moves its averages by each call"));
  EXPECT_THAT(ConvertOrFail(CalledTwice("norm", "", outputs)).notes, is_noted);
  EXPECT_THAT(ConvertOrFail(CalledTwice("norm", R"(, "trainable": false)", outputs)).notes,
              Not(is_noted));
  EXPECT_THAT(ConvertOrFail(CalledTwice("norm", "", R"([["norm", 0, 0]])")).notes, Not(is_noted));
}

TEST(KerasModelTest, TheOnlyFeatureIsNotCalledAsALayer) {
  const KerasModel converted =
      ConvertOrFail(CalledTwice("features", "", R"([["features", 0, 0]])"));
  ExpectModel(converted.model, R"(layers { name: "features" inputs: "in"
      batch_normalization { momentum: 0.99 epsilon: 0.001 } })");
  EXPECT_THAT(converted.notes, Contains("The model's input is the feature 'in', which the data "
                                        "must have: a layer is called 'features'."));
}

TEST(KerasModelTest, ATableOfOutputsIsRefused) {
  EXPECT_THAT(ConversionError(CalledTwice("norm", "", R"({"a": ["norm", 0, 0]})")),
              HasSubstr("config.output_layers: {\"a\":[\"norm\",0,0]}; must be a list"));
}

// What no job may have was converted once, and found by validate.
TEST(KerasModelTest, LayersThatNoJobMayHaveAreRefused) {
  EXPECT_THAT(ConversionError(SequentialJson(
                  R"({"class_name": "Dropout", "config": {"name": "x", "rate": 2}})")),
              HasSubstr("config.layers[0] 'x': converted.dropout.rate: 2; must be at least 0 and "
                        "below 1"));
  const auto named = [](const std::string& name) {
    return ConversionError(SequentialJson(
        absl::StrCat(R"({"class_name": "Flatten", "config": {"name": ")", name, R"("}})")));
  };
  const std::string allowed = "must be at most 100 letters, digits, '_', '-' and '.'";
  EXPECT_THAT(named("a/b"), HasSubstr(absl::StrCat("'a/b': converted.name: 'a/b'; ", allowed)));
  EXPECT_THAT(named(R"(a\n)"), HasSubstr(allowed));
  EXPECT_THAT(named(std::string(1000, 'a')), HasSubstr(allowed));
}

TEST(KerasModelTest, LayersThatTakeTheirOwnOutputAreRefused) {
  const auto graph = [](const std::string& of_a, const std::string& of_b) {
    return absl::StrCat(R"({"class_name": "Functional", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"name": "in"}, "inbound_nodes": []},
        {"class_name": "Add", "config": {"name": "a"}, "inbound_nodes": [[["in", 0, 0], [")",
                        of_a, R"(", 0, 0]]]},
        {"class_name": "Flatten", "config": {"name": "b"}, "inbound_nodes": [[[")",
                        of_b, R"(", 0, 0]]]}], "output_layers": [["b", 0, 0]]}})");
  };
  EXPECT_EQ(ConvertOrFail(graph("in", "a")).model.layers_size(), 2);
  const std::string circle = "model.json: 'a' takes its own output in the end; must take what";
  EXPECT_THAT(ConversionError(graph("a", "a")), HasSubstr(circle));
  EXPECT_THAT(ConversionError(graph("b", "a")), HasSubstr("takes its own output in the end"));
}

TEST(KerasModelTest, DamagedFilesAreRefusedOrConverted) {
  const std::string whole = ReadKerasSample("two_inputs.keras3.json");
  for (size_t at = 0; at < whole.size(); at += 29) {
    std::string damaged = whole;
    damaged[at] = at % 2 == 0 ? '9' : '"';
    const auto converted = ConvertKerasModel(damaged, "model.json");
    if (!converted.ok()) {
      EXPECT_EQ(converted.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace millrace::client
