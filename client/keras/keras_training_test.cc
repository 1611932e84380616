#include "client/keras/keras_training.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/keras/keras_file.h"
#include "client/keras/keras_test_util.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void ExpectOptimizer(const std::string& json, const std::string& text) {
  const auto spec = ConvertKerasOptimizer(KerasJson::parse(json));
  ASSERT_TRUE(spec.ok()) << spec.status();
  OptimizerSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*spec, expected))
      << spec->DebugString();
}

std::string OptimizerError(const std::string& json) {
  return ConvertKerasOptimizer(KerasJson::parse(json)).status().ToString();
}

TEST(KerasTrainingTest, OptimizersKeepTheirNumbers) {
  ExpectOptimizer(R"("adam")", "adam {}");
  ExpectOptimizer(R"({"class_name": "Adam", "config": {"learning_rate": 0.0010000000474974513,
                      "beta_1": 0.9, "epsilon": 1e-07, "amsgrad": true, "weight_decay": null,
                      "use_ema": false, "ema_momentum": 0.99, "clipvalue": 0.5}})",
                  R"(adam { learning_rate: 0.001 beta_1: 0.9 epsilon: 1e-07 amsgrad: true }
                     clip_value: 0.5)");
  ExpectOptimizer(R"({"class_name": "SGD", "config": {"learning_rate": 0.1, "momentum": 0.9,
                      "nesterov": true, "clipnorm": 1.0, "global_clipnorm": null}})",
                  "sgd { learning_rate: 0.1 momentum: 0.9 nesterov: true } clip_norm: 1");
  ExpectOptimizer(R"({"class_name": "AdamW", "config": {"weight_decay": 0.01}})",
                  "adamw { weight_decay: 0.01 }");
  ExpectOptimizer(R"({"class_name": "Ftrl", "config": {"l1_regularization_strength": 0.5,
                      "l2_shrinkage_regularization_strength": 0.25, "beta": 0.0}})",
                  "ftrl { l1: 0.5 l2_shrinkage: 0.25 }");
}

TEST(KerasTrainingTest, OptimizersOfWholeFilesAreKept) {
  // Keras 2 calls it "Custom>Adam" there.
  for (const char* name : {"trained.keras2.h5", "trained.keras3.h5"}) {
    const auto file = ReadKerasHdf5(KerasSamplePath(name));
    ASSERT_TRUE(file.ok()) << file.status();
    KerasModelOptions options;
    options.training = file->training;
    options.in_keras2_hdf5 = file->in_keras2_hdf5;
    const KerasModel converted = ConvertOrFail(file->json, options);
    ASSERT_TRUE(converted.optimizer.has_value()) << name;
    EXPECT_EQ(converted.optimizer->adam().learning_rate(), 0.002);
  }
  EXPECT_THAT(OptimizerError(R"("Mine>Adam")"), HasSubstr("optimizer: \"Mine>Adam\"; must be"));
  EXPECT_THAT(OptimizerError(R"("Custom>Adam")"), HasSubstr("\"Custom>Adam\"; must be"));
}

TEST(KerasTrainingTest, SchedulesOfTheLearningRateAreKept) {
  const auto sgd = [](const std::string& name, const std::string& fields) {
    return absl::StrCat(R"({"class_name": "SGD", "config": {"learning_rate": {"class_name": ")",
                        name, R"(", "config": {)", fields, "}}}}");
  };
  ExpectOptimizer(sgd("ExponentialDecay", R"("initial_learning_rate": 0.1, "decay_steps": 100,
                       "decay_rate": 0.5, "staircase": true, "name": "e")"),
                  R"(sgd { learning_rate: 0.1 }
                     schedule { exponential_decay { decay_steps: 100 decay_rate: 0.5
                                                    staircase: true } })");
  ExpectOptimizer(sgd("PiecewiseConstantDecay", R"("boundaries": [10, 20],
                       "values": [0.1, 0.05, 0.025])"),
                  R"(sgd { learning_rate: 0.1 }
                     schedule { piecewise_constant { boundaries: [10, 20]
                                                     learning_rates: [0.05, 0.025] } })");
  ExpectOptimizer(sgd("CosineDecay", R"("initial_learning_rate": 0.1, "decay_steps": 100,
                       "alpha": 0.25, "warmup_target": 0.4, "warmup_steps": 10)"),
                  R"(sgd { learning_rate: 0.4 }
                     schedule { warmup { steps: 10 from: 0.25 }
                                cosine_decay { decay_steps: 100 alpha: 0.25 } })");
  EXPECT_THAT(OptimizerError(sgd("Mine", R"("initial_learning_rate": 0.1)")),
              HasSubstr("learning_rate: {\"class_name\":\"Mine\""));
  EXPECT_THAT(OptimizerError(sgd("ExponentialDecay", R"("decay_steps": 5)")),
              HasSubstr("decay_rate: null; must be a number"));
  EXPECT_THAT(OptimizerError(sgd("CosineDecay", R"("decay_steps": 5)")),
              HasSubstr("initial_learning_rate: null; must be a number"));
  EXPECT_THAT(OptimizerError(sgd("ExponentialDecay", R"("decay_steps": 0.5)")),
              HasSubstr("decay_steps: 0.5; must be a whole number, at least 1"));
}

// Keras's Adam decays weights apart from the gradient, as its AdamW does.
TEST(KerasTrainingTest, AdamThatDecaysWeightsIsAdamW) {
  ExpectOptimizer(R"({"class_name": "Adam", "config": {"learning_rate": 0.01, "beta_2": 0.99,
                      "weight_decay": 0.0010000000474974513}})",
                  "adamw { learning_rate: 0.01 beta_2: 0.99 weight_decay: 0.001 }");
  ExpectOptimizer(R"({"class_name": "Adam", "config": {"weight_decay": 0}})", "adam {}");
}

TEST(KerasTrainingTest, WhatOnlyScalesLossesIsTheOptimizerWithinIt) {
  ExpectOptimizer(R"({"class_name": "LossScaleOptimizer", "config": {"initial_scale": 32768.0,
                      "inner_optimizer": {"class_name": "SGD", "config": {}}}})",
                  "sgd {}");
  EXPECT_THAT(OptimizerError(R"({"class_name": "LossScaleOptimizer", "config": {}})"),
              HasSubstr("must be sgd, rmsprop"));
}

TEST(KerasTrainingTest, OptimizersThatComputeSomethingElseAreRefused) {
  EXPECT_THAT(OptimizerError(R"("lion")"), HasSubstr("optimizer: \"lion\"; must be sgd, rmsprop"));
  EXPECT_THAT(OptimizerError(R"({"class_name": "SGD", "config": {"use_ema": true}})"),
              HasSubstr("use_ema: true; must be left out"));
  EXPECT_THAT(OptimizerError(R"({"class_name": "SGD", "config": {"weight_decay": 0.1}})"),
              HasSubstr("weight_decay: 0.1; must be"));
}

// A model of one layer, compiled.
std::string Compiled(const std::string& activation, const std::string& compile) {
  return absl::StrCat(R"({"class_name": "Sequential", "config": {"layers": [
    {"class_name": "Dense", "config": {"name": "out", "units": 3, "activation": ")",
                      activation, R"("}}]}, "compile_config": {)", compile, "}}");
}

TEST(KerasTrainingTest, LossAndMetricsBecomeTheModels) {
  const KerasModel converted = ConvertOrFail(Compiled("softmax", R"(
    "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], "optimizer": "adam")"));
  ExpectModel(converted.model, R"(layers { name: "out" dense { units: 3 } }
    loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY)");
  EXPECT_TRUE(converted.optimizer->has_adam());
}

TEST(KerasTrainingTest, WhatHasParametersBecomesAnOutput) {
  const KerasModel converted = ConvertOrFail(Compiled("linear", R"(
    "loss": {"class_name": "CategoricalCrossentropy", "config": {"from_logits": true,
             "label_smoothing": 0.1, "reduction": "sum_over_batch_size", "axis": -1}},
    "metrics": [{"class_name": "TopKCategoricalAccuracy", "config": {"k": 2}}])"));
  ExpectModel(converted.model, R"(layers { name: "out" dense { units: 3 } }
    outputs { loss: CATEGORICAL_CROSSENTROPY label_smoothing: 0.1
              metrics { metric: TOP_K_ACCURACY k: 2 } })");
}

// Keras 2 wrote what was asked for by name as a wrapper of a function.
TEST(KerasTrainingTest, WrappedMetricsAreThoseOfTheirFunctions) {
  const auto convert = [](const std::string& loss, const std::string& function) {
    return ConvertOrFail(Compiled("linear", absl::StrCat(R"("loss": {"class_name": ")", loss,
                                                         R"(", "config": {"from_logits": true}},
                        "metrics": [[{"class_name": "MeanMetricWrapper", "config": {
                            "name": "mine", "dtype": "float32", "fn": )",
                                                         function, "}}]]")));
  };
  const auto metric_of = [&](const std::string& loss, const std::string& function) {
    const KerasModel converted = convert(loss, function);
    EXPECT_EQ(converted.model.metrics_size(), 1) << function;
    return converted.model.metrics_size() == 1 ? converted.model.metrics(0) : METRIC_UNSPECIFIED;
  };
  const std::string sparse = "SparseCategoricalCrossentropy";
  EXPECT_EQ(metric_of(sparse, R"("sparse_categorical_accuracy")"), ACCURACY);
  EXPECT_EQ(metric_of(sparse, R"({"module": "builtins", "class_name": "function",
                                  "config": "categorical_accuracy"})"),
            ACCURACY);
  EXPECT_EQ(metric_of("MeanSquaredError", R"("mean_absolute_error")"), MAE);
  for (const char* unknown : {R"("mine")", "null", "[]", R"({"config": 1})"}) {
    EXPECT_THAT(convert(sparse, unknown).notes,
                Contains(HasSubstr("metrics: {\"class_name\":\"MeanMetricWrapper\"")));
  }
}

TEST(KerasTrainingTest, LossesOfNumbersKeepTheLastActivation) {
  const KerasModel converted =
      ConvertOrFail(Compiled("sigmoid", R"("loss": "mse", "metrics": ["mae"])"));
  ExpectModel(converted.model, R"(
    layers { name: "out" dense { units: 3 activation: SIGMOID } }
    loss: MEAN_SQUARED_ERROR metrics: MAE)");
  EXPECT_THAT(converted.notes, IsEmpty());
}

TEST(KerasTrainingTest, ALossOfProbabilitiesNeedsThem) {
  const KerasModel converted = ConvertOrFail(
      Compiled("relu", R"("loss": {"class_name": "BinaryCrossentropy", "config": {}})"));
  ExpectModel(converted.model, R"(layers { name: "out" dense { units: 3 activation: RELU } })");
  EXPECT_THAT(converted.notes,
              Contains("The loss of 'out' is left out: it takes probabilities, and SIGMOID is not "
                       "that layer's activation."));
}

TEST(KerasTrainingTest, WhatKerasDoesNotWriteOfHuberIsNamed) {
  const auto notes = [](const std::string& fields) {
    return ConvertOrFail(
               Compiled("linear", absl::StrCat(R"("loss": {"class_name": "Huber", "config": {)",
                                               fields, "}}")))
        .notes;
  };
  EXPECT_THAT(notes(R"("name": "huber")"),
              ElementsAre(HasSubstr("does not write the delta of Huber into its file: huber_delta "
                                    "is 1, as Keras has it by default")));
  ExpectModel(
      ConvertOrFail(Compiled("linear", R"("loss": {"class_name": "Huber", "config": {}})")).model,
      R"(layers { name: "out" dense { units: 3 } } outputs { loss: HUBER huber_delta: 1 })");
  EXPECT_THAT(notes(R"("delta": 0.5)"), IsEmpty());
}

TEST(KerasTrainingTest, WhatIsLeftOfAnOptimizerIsTold) {
  const auto note = [](const std::string& optimizer) {
    const KerasModel converted = ConvertOrFail(
        Compiled("linear", absl::StrCat(R"("loss": "mse", "optimizer": )", optimizer)));
    EXPECT_FALSE(converted.optimizer.has_value());
    return converted.notes.empty() ? "" : converted.notes.front();
  };
  EXPECT_EQ(note(R"({"class_name": "SGD", "config": {"learning_rate": {"class_name": "CosineDecay",
                     "config": {"initial_learning_rate": 0.1, "decay_steps": 9}},
                     "weight_decay": 0.01, "use_ema": true, "gradient_accumulation_steps": 4}})"),
            "Left out of how the model was compiled: weight_decay: 0.01; must be 0.0 or left out "
            "to be converted. The job has no optimizer now: all of SGD is left out, with its "
            "learning rate and its schedule. Of optimizers, adamw alone has weight decay; without "
            "momentum, an l2 of half of it in the regularizers of the layers does the same as "
            "SGD's. Nothing stands for use_ema: variables are not averaged. For "
            "gradient_accumulation_steps, take a batch_size 4 times as large: the mean gradient "
            "is the same. What is left of it, to be set in the job file: optimizer { sgd { "
            "learning_rate: 0.1 } schedule { cosine_decay { decay_steps: 9 } } }");
  EXPECT_THAT(note(R"({"class_name": "Adam", "config": {"weight_decay": 0.5, "use_ema": true}})"),
              HasSubstr("in the job file: optimizer { adamw { weight_decay: 0.5 } }"));
  EXPECT_THAT(note(R"("lion")"), HasSubstr("all of lion is left out, with its learning rate. Set "
                                           "optimizer in the job file."));
}

TEST(KerasTrainingTest, WhatFilesDoNotTellOfWeightDecayIsNamed) {
  const auto notes = [](const std::string& name) {
    return ConvertOrFail(
               Compiled("linear", absl::StrCat(R"("loss": "mse", "optimizer": {"class_name": ")",
                                               name, R"(", "config": {"weight_decay": 0.1}})")))
        .notes;
  };
  EXPECT_THAT(notes("AdamW"), ElementsAre(HasSubstr("exclude_from_weight_decay named, Keras does "
                                                    "not write into its file")));
  EXPECT_THAT(notes("Adam"), ElementsAre(HasSubstr("Adam with weight_decay becomes adamw"),
                                         HasSubstr("exclude_from_weight_decay")));
}

TEST(KerasTrainingTest, MetricsThatWeightsCountInAreNamed) {
  const KerasModel converted = ConvertOrFail(
      Compiled("linear", R"("loss": "mse", "weighted_metrics": ["mae"], "metrics": [])"));
  EXPECT_EQ(converted.model.metrics_size(), 1);
  EXPECT_THAT(converted.notes,
              ElementsAre(HasSubstr("weighted_metrics are metrics as all others")));
  EXPECT_THAT(ConvertOrFail(Compiled("linear", R"("loss": "mse", "weighted_metrics": null)")).notes,
              IsEmpty());
}

TEST(KerasTrainingTest, AnAccuracyThatKerasComputesOtherwiseIsNamed) {
  const auto notes = [](const std::string& loss, const std::string& metric) {
    return ConvertOrFail(Compiled("linear", absl::StrCat(R"("loss": {"class_name": ")", loss,
                                                         R"(", "config": {"from_logits": true}},
                                                  "metrics": [")",
                                                         metric, "\"]")))
        .notes;
  };
  EXPECT_THAT(notes("BinaryCrossentropy", "accuracy"),
              ElementsAre(HasSubstr("ACCURACY of 'out', whose loss is binary, is the share of "
                                    "labels that are right, one by one (Keras's binary_accuracy); "
                                    "of its 3 units, Keras's \"accuracy\" is the share of "
                                    "examples")));
  EXPECT_THAT(notes("BinaryCrossentropy", "categorical_accuracy"),
              ElementsAre(HasSubstr("\"categorical_accuracy\": ACCURACY of BINARY_CROSSENTROPY is "
                                    "the share of labels")));
  EXPECT_THAT(notes("CategoricalCrossentropy", "binary_accuracy"),
              ElementsAre(HasSubstr("ACCURACY of CATEGORICAL_CROSSENTROPY is the share of "
                                    "examples")));
  EXPECT_THAT(notes("BinaryCrossentropy", "binary_accuracy"), IsEmpty());
  EXPECT_THAT(notes("CategoricalCrossentropy", "accuracy"), IsEmpty());
}

// The first output is another's input too.
std::string TakenOutput(const std::string& loss) {
  return absl::StrCat(R"({"class_name": "Functional", "config": {"layers": [
    {"class_name": "InputLayer", "config": {"name": "in"}, "inbound_nodes": []},
    {"class_name": "Dense", "config": {"name": "a", "units": 3, "activation": "softmax"},
     "inbound_nodes": [[["in", 0, 0, {}]]]},
    {"class_name": "Dense", "config": {"name": "b", "units": 1},
     "inbound_nodes": [[["a", 0, 0, {}]]]}],
    "output_layers": [["a", 0, 0], ["b", 0, 0]]}, "compile_config": {"loss": [")",
                      loss, R"(", "mse"]}})");
}

TEST(KerasTrainingTest, WhatTakesAnOutputOfProbabilitiesStillDoes) {
  const KerasModel converted = ConvertOrFail(TakenOutput("sparse_categorical_crossentropy"));
  ModelSpec layers;
  *layers.mutable_layers() = converted.model.layers();
  ExpectModel(layers, R"(
    layers { name: "b" inputs: "a_activation" dense { units: 1 } }
    layers { name: "a_activation" inputs: "a" activation { function: SOFTMAX } }
    layers { name: "a" inputs: "features" dense { units: 3 } })");
  EXPECT_THAT(converted.notes, Contains("What takes 'a' takes 'a_activation', which has its "
                                        "activation."));
  EXPECT_EQ(converted.model.outputs_size(), 2);
  EXPECT_EQ(ConvertOrFail(TakenOutput("mse")).model.layers_size(), 2);
}

TEST(KerasTrainingTest, WhatIsNotKnownIsLeftOutAndNamed) {
  const KerasModel converted = ConvertOrFail(Compiled("softmax", R"(
    "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy", "mine", "mae"],
    "optimizer": "lion")"));
  EXPECT_FALSE(converted.optimizer.has_value());
  EXPECT_EQ(converted.model.metrics_size(), 1);
  EXPECT_THAT(converted.notes, Contains(HasSubstr("optimizer: \"lion\"; must be")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("metrics: \"mine\"; must be one of ACCURACY")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("metrics: \"mae\"; must be")));
  EXPECT_THAT(ConvertOrFail(Compiled("softmax", R"("loss": "poisson")")).notes,
              Contains(HasSubstr("The loss is not in the file")));
}

// Keras compares logits with the metric's threshold as they are.
TEST(KerasTrainingTest, LogitsHaveAThresholdOfZero) {
  const auto convert = [](const std::string& from_logits, const std::string& threshold) {
    return ConvertOrFail(Compiled(
        "linear", absl::StrCat(R"("loss": {"class_name": "BinaryCrossentropy", "config": {)",
                               R"("from_logits": )", from_logits, R"(}}, "metrics": [{)",
                               R"("class_name": "BinaryAccuracy", "config": {"threshold": )",
                               threshold, "}}]")));
  };
  EXPECT_EQ(convert("true", "0.0").model.metrics_size(), 1);
  EXPECT_EQ(convert("true", "0.5").model.metrics_size(), 1);
  EXPECT_THAT(convert("true", "0.7").notes,
              Contains(HasSubstr("threshold: 0.7; must be 0.5 or [0.5] or 0 or [0] or left out")));
  const KerasModel probabilities = convert("false", "0.0");
  EXPECT_EQ(probabilities.model.metrics_size(), 0);
  EXPECT_THAT(probabilities.notes, Contains(HasSubstr("threshold: 0.0; must be 0.5")));
}

TEST(KerasTrainingTest, SeveralOutputsHaveTheirOwn) {
  const KerasModel converted = ConvertOrFail(ReadKerasSample("nested.keras3.json"));
  ModelSpec outputs;
  *outputs.mutable_outputs() = converted.model.outputs();
  ExpectModel(outputs, R"(
    outputs { layer: "one" label: "one" loss: SPARSE_CATEGORICAL_CROSSENTROPY
              metrics { metric: ACCURACY } }
    outputs { layer: "other" label: "other" loss: BINARY_CROSSENTROPY weight: 0.5
              metrics { metric: AUC num_thresholds: 200 } })");
  EXPECT_THAT(converted.notes, Contains("The data must have the labels one, other."));
  EXPECT_EQ(converted.optimizer->clip_norm(), 1);
  EXPECT_EQ(converted.optimizer->schedule().cosine_decay().decay_steps(), 1000u);
}

TEST(KerasTrainingTest, AUsersClassesAreLeftOut) {
  const std::string own = R"("module": null, "registered_name": "my>)";
  EXPECT_THAT(OptimizerError(absl::StrCat(R"({"class_name": "Adam", )", own, R"(Adam"})")),
              HasSubstr("optimizer: its class is my>Adam, which cannot be converted; must be sgd"));
  EXPECT_THAT(OptimizerError(absl::StrCat(R"({"class_name": "SGD", "config": {"learning_rate":
                  {"class_name": "CosineDecay", "config": {}, )",
                                          own, R"(CosineDecay"}}})")),
              HasSubstr("learning_rate: its class is my>CosineDecay, which cannot"));
  EXPECT_THAT(OptimizerError(R"({"class_name": "Adam", "module": null,
                                 "registered_name": "Custom>Adam"})"),
              HasSubstr("its class is Custom>Adam, which cannot"));
  const KerasModel converted = ConvertOrFail(Compiled(
      "linear", absl::StrCat(R"("loss": {"class_name": "MeanSquaredError", )", own,
                             R"(MeanSquaredError"}, "metrics": [{"class_name": "AUC", )", own,
                             R"(AUC"}, {"class_name": "MeanMetricWrapper", "config": {"fn":
                                 {"class_name": "function", "config": "mse", "module": "mylib"}}}])")));
  ExpectModel(converted.model, R"(layers { name: "out" dense { units: 3 } })");
  EXPECT_THAT(converted.notes, Contains(HasSubstr("loss: its class is my>MeanSquaredError")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("metrics: its class is my>AUC")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("metrics: {\"class_name\":\"MeanMetricWr")));
}

TEST(KerasTrainingTest, WhatNoJobMayHaveIsLeftOut) {
  const KerasModel converted = ConvertOrFail(Compiled("linear", R"(
      "loss": {"class_name": "CategoricalCrossentropy", "config": {"from_logits": true,
               "label_smoothing": 2.0}},
      "optimizer": {"class_name": "SGD", "config": {"learning_rate": -0.5}})"));
  ExpectModel(converted.model, R"(layers { name: "out" dense { units: 3 } })");
  EXPECT_FALSE(converted.optimizer.has_value());
  EXPECT_THAT(converted.notes, Contains(HasSubstr("model.outputs[0].label_smoothing: 2; must be")));
  EXPECT_THAT(converted.notes, Contains(HasSubstr("optimizer.sgd.learning_rate: -0.5; must be")));
}

}  // namespace
}  // namespace millrace::client
