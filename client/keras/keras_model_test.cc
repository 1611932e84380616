// Files that Keras 2 and 3 wrote (testing/reference/keras_models.py), and what is wrong with
// others.
#include "client/keras/keras_model.h"

#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadSample(const std::string& name) {
  std::ifstream file(absl::StrCat("testing/reference/keras/", name, ".json"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

KerasModel Convert(const std::string& json) {
  auto model = ConvertKerasModel(json, "model.json");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : KerasModel();
}

void ExpectModel(const ModelSpec& actual, const std::string& text) {
  ModelSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, actual)) << difference;
}

class KerasVersionTest : public ::testing::TestWithParam<const char*> {
 protected:
  KerasModel ConvertSample(const std::string& name) {
    return Convert(ReadSample(absl::StrCat(name, ".", GetParam())));
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

INSTANTIATE_TEST_SUITE_P(Versions, KerasVersionTest, ::testing::Values("keras2", "keras3"),
                         [](const auto& instance) { return instance.param; });

std::string ErrorOf(const std::string& json) {
  const absl::Status status = ConvertKerasModel(json, "model.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

std::string Sequential(const std::string& layers) {
  return absl::StrCat(R"({"class_name": "Sequential", "config": {"layers": [)", layers, "]}}");
}

TEST(KerasModelTest, WhatIsNoJsonIsNamedWithItsPlace) {
  EXPECT_THAT(ErrorOf("{\n  \"class_name\": oops}"), HasSubstr("model.json:2:17: not JSON"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("model.json:1:1: not JSON"));
  // Such a number once ended the process.
  EXPECT_THAT(ErrorOf("[1e999]"), HasSubstr("model.json: a number past 64 bits; must be finite"));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("model.json"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("class_name: ''; must be Sequential or Functional"));
}

TEST(KerasModelTest, UnknownLayersAreNamedWithTheirPlace) {
  const std::string lambda = R"({"class_name": "Lambda", "config": {"name": "square"}})";
  EXPECT_THAT(ErrorOf(Sequential(lambda)),
              HasSubstr("model.json: config.layers[0] 'square': its class is Lambda, which cannot "
                        "be converted; must be one of Activation, "));
  EXPECT_THAT(ErrorOf(Sequential("7")), HasSubstr("config.layers[0] '': config: not there"));
}

TEST(KerasModelTest, FieldsThatChangeWhatALayerComputesAreNotPassedOver) {
  const auto dense = [](const std::string& fields) {
    return Sequential(
        absl::StrCat(R"({"class_name": "Dense", "config": {"name": "d", )", fields, "}}"));
  };
  EXPECT_THAT(ErrorOf(dense(R"("units": 0)")),
              HasSubstr("'d': units: 0; must be a whole number, at least 1"));
  EXPECT_THAT(ErrorOf(dense(R"("units": 4, "activation": "mine")")),
              HasSubstr("activation: \"mine\"; must be one of LINEAR, RELU"));
  EXPECT_THAT(ErrorOf(dense(R"("units": 4, "kernel_constraint": {"class_name": "NonNeg"})")),
              HasSubstr("kernel_constraint: {\"class_name\":\"NonNeg\"}; must be left out"));
  EXPECT_THAT(ErrorOf(dense(R"("units": 4, "kernel_initializer": {"class_name": "Constant"})")),
              HasSubstr("kernel_initializer: {\"class_name\":\"Constant\"}; must be one of ZEROS"));
  EXPECT_EQ(Convert(dense(R"("units": 4, "dtype": "float32", "bias_constraint": null)"))
                .model.layers_size(),
            1);
}

TEST(KerasModelTest, DamagedFilesAreRefusedOrConverted) {
  const std::string whole = ReadSample("two_inputs.keras3");
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
