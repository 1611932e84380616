#include "worker/model/graph.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

ExampleSpec Examples(const std::vector<std::string>& features) {
  ExampleSpec examples = FloatsAndClass({4}, 2);
  examples.features.clear();
  for (const std::string& name : features) {
    examples.features.push_back(FloatsAndClass({4}, 2).features[0]);
    examples.features.back().name = name;
  }
  return examples;
}

absl::StatusOr<ModelPlan> PlanText(const std::string& text,
                                   const std::vector<std::string>& features = {"x"}) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text + " loss: SPARSE_CATEGORICAL_CROSSENTROPY", &spec))
      << text;
  return PlanModel(spec, Examples(features));
}

std::string Message(const std::string& text, const std::vector<std::string>& features = {"x"}) {
  return std::string(PlanText(text, features).status().message());
}

TEST(GraphTest, LayersWithoutInputsAreAChain) {
  const auto plan = PlanText("layers { dense { units: 3 } } layers { dense { units: 2 } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers[0].spec.inputs(), ElementsAre("x"));
  EXPECT_THAT(plan->layers[1].spec.inputs(), ElementsAre("dense_0"));
  EXPECT_THAT(plan->order, ElementsAre(0, 1));
  ASSERT_EQ(plan->outputs.size(), 1u);
  EXPECT_EQ(plan->outputs[0].layer, 1u);
}

TEST(GraphTest, LayersRunAfterThoseWhoseOutputTheyTake) {
  const auto plan = PlanText(
      "layers { name: 'sum' add {} inputs: ['right', 'left'] } "
      "layers { name: 'left' dense { units: 3 } inputs: 'b' } "
      "layers { name: 'right' dense { units: 3 } inputs: 'a' } "
      "layers { name: 'out' dense { units: 2 } inputs: 'sum' }",
      {"a", "b"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->order, ElementsAre(1, 2, 0, 3));
  EXPECT_EQ(plan->variables[0].name(), "left/kernel");
  EXPECT_EQ(plan->layers[2].sources[0].kind, Source::kFeature);
  EXPECT_EQ(plan->layers[2].sources[0].index, 0u);
}

TEST(GraphTest, SharedVariablesAreThereOnce) {
  const auto plan = PlanText(
      "layers { name: 'a' dense { units: 4 } variables_of: 'b' } "
      "layers { name: 'b' dense { units: 4 activation: RELU } trainable: true }"
      "layers { name: 'c' dense { units: 4 } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->variables.size(), 4u);
  EXPECT_EQ(plan->variables[0].name(), "b/kernel");
  EXPECT_EQ(plan->layers[0].variables, plan->layers[1].variables);
}

TEST(GraphTest, FrozenLayersSayHowTheirVariablesChange) {
  const auto plan = PlanText(
      "layers { name: 'a' dense { units: 4 } trainable: false } "
      "layers { name: 'b' dense { units: 4 } variables_of: 'a' } "
      "layers { batch_normalization { momentum: 0.5 } } "
      "layers { batch_normalization { no_scale: true } trainable: false } "
      "layers { dense { units: 2 } }");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->variables.size(), 11u);
  EXPECT_TRUE(plan->variables[0].update().has_frozen());
  EXPECT_FALSE(plan->layers[1].trainable);
  EXPECT_EQ(plan->variables[2].name(), "batch_normalization_2/gamma");
  EXPECT_FALSE(plan->variables[2].has_update());
  EXPECT_EQ(plan->variables[5].name(), "batch_normalization_2/moving_variance");
  EXPECT_EQ(plan->variables[5].update().moving_average().momentum(), 0.5);
  EXPECT_EQ(plan->variables[5].initial_value().constant(), 1);
  EXPECT_EQ(plan->variables[6].name(), "batch_normalization_3/beta");
  EXPECT_TRUE(plan->variables[8].update().has_frozen());
}

TEST(GraphTest, WrongInputsAreNamedWithWhatThereIs) {
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 2 } inputs: 'y' }"),
            "model.layers[0] 'a': inputs[0] is 'y', which is no layer and no feature; there are "
            "the layers a and the features x");
  EXPECT_EQ(Message("layers { dense { units: 2 } }", {"x", "y"}),
            "model.layers[0] 'dense_0': inputs is empty, and the data has 2 features; name those "
            "that it takes, of x, y");
  EXPECT_EQ(Message("layers { name: 'x' dense { units: 2 } } "
                    "layers { dense { units: 2 } inputs: 'x' }"),
            "model.layers[1] 'dense_1': inputs[0] is 'x', which is a layer and a feature of the "
            "data; give the layer another name");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 4 } } "
                    "layers { dense { units: 2 } inputs: ['a', 'x'] }"),
            "model.layers[1] 'dense_1': inputs has 2 names; dense takes one input");
  EXPECT_EQ(Message("layers { add {} }"),
            "model.layers[0] 'add_0': inputs has 1 name; add takes two or more inputs");
  EXPECT_EQ(
      Message("layers { name: 'a' dense { units: 3 } } layers { add {} inputs: ['a', 'x'] }"),
      "model.layers[1] 'add_1': add takes inputs whose dimensions, counted from the last, are "
      "equal or 1; those before are [3] together, 'x' is [4]");
}

TEST(GraphTest, CirclesAreNamed) {
  EXPECT_EQ(Message("layers { name: 'd' dense { units: 2 } inputs: 'c' } "
                    "layers { name: 'a' add {} inputs: ['x', 'c'] } "
                    "layers { name: 'b' dense { units: 4 } inputs: 'a' } "
                    "layers { name: 'c' dense { units: 4 } inputs: 'b' }"
                    "layers { dense { units: 2 } inputs: 'd' }"),
            "model.layers[3] 'c': it takes its own output in the end: c takes b takes a takes c");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 2 } inputs: 'a' }"),
            "model.layers[0] 'a': it takes its own output in the end: a takes a");
}

TEST(GraphTest, OutputsThatNobodyTakesAreRefused) {
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 2 } } "
                    "layers { dense { units: 2 } inputs: 'x' }"),
            "model.layers[0] 'a': no layer takes its output, and it is not the model's; remove it, "
            "or name it in the inputs of another layer");
}

TEST(GraphTest, WrongSharingIsRefused) {
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 2 } variables_of: 'b' }"),
            "model.layers[0] 'a': variables_of is 'b', which is no layer; there are a");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 2 } variables_of: 'a' }"),
            "model.layers[0] 'a': variables_of is 'a', which is this layer; name another");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 2 } } "
                    "layers { name: 'b' flatten {} variables_of: 'a' }"),
            "model.layers[1] 'b': variables_of is 'a', which is a dense and this a flatten; layers "
            "that share variables have one kind");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 3 } } "
                    "layers { name: 'b' dense { units: 3 } variables_of: 'a' }"),
            "model.layers[1] 'b': variables_of is 'a', whose kernel is [4, 3]; this layer takes "
            "[3, 3]");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 4 } } "
                    "layers { name: 'b' dense { units: 4 no_bias: true } variables_of: 'a' }"),
            "model.layers[1] 'b': variables_of is 'a', whose bias is [4]; this layer takes none");
  EXPECT_EQ(Message("layers { name: 'a' dense { units: 4 } } "
                    "layers { name: 'b' dense { units: 4 } variables_of: 'a' trainable: true }"),
            "model.layers[1] 'b': trainable is set; it is what 'a' says, whose variables it uses: "
            "leave it out");
}

TEST(GraphTest, ModelsThatAreFrozenAltogetherAreRefused) {
  EXPECT_EQ(Message("layers { dense { units: 2 } trainable: false }"),
            "model.layers: no layer has variables to train; add a dense or conv2d layer");
}

TEST(GraphTest, ConcatenatedShapesDifferAlongOneDimension) {
  EXPECT_EQ(Message("layers { concatenate { axis: 2 } inputs: ['x', 'x'] }"),
            "model.layers[0] 'concatenate_0': axis is 2, its inputs are like [4]; use 1 to 1 or -1 "
            "to -1");
  const auto plan = PlanText(
      "layers { concatenate {} inputs: ['x', 'y', 'x'] } "
      "layers { dense { units: 2 } }",
      {"x", "y"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers[0].output, ElementsAre(12));
}

TEST(GraphTest, OtherLayersTakeNumbers) {
  ModelSpec spec;
  spec.add_layers()->mutable_dense()->set_units(3);
  spec.set_loss(SPARSE_CATEGORICAL_CROSSENTROPY);
  ExampleSpec ids = Examples({"x"});
  ids.features[0].type = ElementType::kId;
  const std::string embed =
      "model.layers[0] 'dense_0': it takes numbers, and the feature 'x' is of ids; put an "
      "embedding layer between";
  EXPECT_EQ(PlanModel(spec, ids).status().message(),
            embed +
                ", or have whole numbers as floats (numpy's divide_by: 1, tfrecord's type: "
                "FLOAT, csv without as_id)");
  ids.features[0].shape = {};
  ids.features[0].ragged = true;
  EXPECT_EQ(PlanModel(spec, ids).status().message(), embed);
}

TEST(GraphTest, EmbeddingsTakeIds) {
  ModelSpec spec;
  Embedding* embedding = spec.add_layers()->mutable_embedding();
  embedding->set_input_dim(5);
  embedding->set_output_dim(3);
  spec.add_layers()->mutable_dense()->set_units(3);
  spec.set_loss(SPARSE_CATEGORICAL_CROSSENTROPY);
  EXPECT_EQ(PlanModel(spec, Examples({"x"})).status().message(),
            "model.layers[0] 'embedding_0': embedding takes a feature of ids, 'x' is of numbers");
  ExampleSpec ids = Examples({"x"});
  ids.features[0].type = ElementType::kId;
  ids.features[0].limit = 6;
  EXPECT_EQ(PlanModel(spec, ids).status().message(),
            "model.layers[0] 'embedding_0': input_dim is 5, the ids of 'x' go up to 5; it must be "
            "at least 6");
  ids.features[0].limit = 0;
  EXPECT_EQ(PlanModel(spec, ids).status().message(),
            "model.layers[1] 'dense_1': SPARSE_CATEGORICAL_CROSSENTROPY takes [classes], the last "
            "output is [4, 3]; end the model with a flatten layer and a dense layer");
  ids.features[0].shape = {};
  ids.features[0].ragged = true;
  EXPECT_EQ(
      PlanModel(spec, ids).status().message(),
      "model.layers[0] 'embedding_0': pooling is NONE, and examples have any number of ids in "
      "'x'; use SUM or MEAN");
  embedding->set_pooling(Embedding::MEAN);
  const auto plan = PlanModel(spec, ids);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers[0].output, ElementsAre(3));
  EXPECT_EQ(plan->variables[0].name(), "embedding_0/embeddings");
}

TEST(GraphTest, WrongShapesAreToldWhatWouldFit) {
  EXPECT_EQ(
      Message("layers { reshape { target_shape: [3, -1] } }"),
      "model.layers[0] 'reshape_0': target_shape is [3, -1], its input is [4]; give dimensions "
      "with the same product, of which one may be -1");
  EXPECT_EQ(Message("layers { subtract {} inputs: ['x', 'x', 'x'] }"),
            "model.layers[0] 'subtract_0': inputs has 3 names; subtract takes two inputs");
}

}  // namespace
}  // namespace millrace::worker
