#include "worker/model/memory_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/model/placement.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

ModelPlan PlanOf(const std::string& text, const Shape& input = {16}) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text + " loss: SPARSE_CATEGORICAL_CROSSENTROPY", &spec))
      << text;
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, FloatsAndClass(input, 2));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::vector<size_t> Layers(const std::vector<BackwardStep>& steps) {
  std::vector<size_t> layers;
  for (const BackwardStep& step : steps) layers.push_back(step.layer);
  return layers;
}

TEST(PlacementTest, WhatIsNeededAtDifferentTimesStandsInOnePlace) {
  std::vector<Placed> all = {{16, 0, 1, 0}, {32, 1, 2, 0}, {16, 2, 3, 0}, {48, 4, 4, 0}};
  EXPECT_EQ(PlaceAll(&all), 48u);
  EXPECT_EQ(all[0].place, 32u);
  EXPECT_EQ(all[1].place, 0u);
  EXPECT_EQ(all[2].place, 32u);
  EXPECT_EQ(all[3].place, 0u);
}

TEST(PlacementTest, MostAtOneTimeIsTheLargestSumOfWhatIsNeededTogether) {
  EXPECT_EQ(MostAtOneTime({{16, 0, 1, 0}, {32, 1, 2, 0}, {16, 2, 3, 0}, {40, 4, 4, 0}}), 48u);
  EXPECT_EQ(MostAtOneTime({}), 0u);
}

TEST(PlacementTest, NothingOverlapsWhatIsNeededAtItsTime) {
  std::vector<Placed> all;
  size_t sum = 0;
  for (size_t i = 0; i < 200; ++i) {
    all.push_back({16 * (i * 7 % 11), i * 13 % 101, i * 13 % 101 + i * 5 % 17, 0});
    sum += all.back().size;
  }
  const size_t size = PlaceAll(&all);
  EXPECT_LT(size, sum / 4);
  for (const Placed& a : all) {
    EXPECT_LE(a.place + a.size, size);
    for (const Placed& b : all) {
      const bool at_one_time = &a != &b && a.begin <= b.end && b.begin <= a.end;
      if (!at_one_time) continue;
      EXPECT_TRUE(a.place + a.size <= b.place || b.place + b.size <= a.place);
    }
  }
}

TEST(WalkTest, GoesBackAsFarAsLayersAreTrained) {
  const ModelPlan plan = PlanOf(
      "layers { dense { units: 16 } trainable: false } layers { flatten {} } "
      "layers { dense { units: 16 } } layers { dense { units: 16 } trainable: false } "
      "layers { dense { units: 2 } }");
  const Walk walk = PlanWalk(plan);
  EXPECT_EQ(walk.forward.size(), 4u);
  EXPECT_THAT(Layers(walk.backward), ElementsAre(4, 3, 2));
  EXPECT_EQ(walk.backward[2].gradients[0], GradientUse::kNone);
  EXPECT_THAT(walk.variable_uses, ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
}

TEST(WalkTest, GradientsOfAValueAreAddedUpBeforeItsLayersTurn) {
  const ModelPlan plan = PlanOf(
      "layers { name: 'a' dense { units: 16 } } layers { name: 'b' dense { units: 16 } } "
      "layers { name: 'c' add {} inputs: ['b', 'a', 'a'] } layers { dense { units: 2 } }");
  const Walk walk = PlanWalk(plan);
  ASSERT_EQ(walk.backward.size(), 4u);
  EXPECT_THAT(walk.backward[1].gradients,
              ElementsAre(GradientUse::kFirst, GradientUse::kFirst, GradientUse::kAdded));
  EXPECT_THAT(walk.backward[2].gradients, ElementsAre(GradientUse::kAdded));
}

// What the layers of the forward pass apply then, by layer.
std::vector<std::pair<size_t, Activation>> Steps(const Walk& walk) {
  std::vector<std::pair<size_t, Activation>> steps;
  for (const ForwardStep& step : walk.forward) steps.emplace_back(step.layer, step.then);
  return steps;
}

TEST(WalkTest, ReluThatAloneTakesWhatALayerGivesIsAPartOfItsStep) {
  const ModelPlan plan = PlanOf(
      "layers { name: 'a' dense { units: 16 } } layers { name: 'b' batch_normalization {} } "
      "layers { name: 'c' activation { function: RELU } } "
      "layers { name: 'd' add {} inputs: ['c', 'a'] } "
      "layers { name: 'e' activation { function: RELU } } layers { dense { units: 2 } }");
  const Walk walk = PlanWalk(plan, /*for_gpu=*/true);
  EXPECT_THAT(Steps(walk),
              ElementsAre(Pair(0, LINEAR), Pair(1, RELU), Pair(3, RELU), Pair(5, LINEAR)));
  EXPECT_THAT(Layers(walk.backward), ElementsAre(5, 3, 1, 0));
  EXPECT_EQ(walk.backward[1].then, RELU);
  // Layer c's value is what b's step gives: value 2, after the feature and a's.
  EXPECT_THAT(walk.forward[2].inputs, ElementsAre(2, 1));
  EXPECT_EQ(PlanWalk(plan).forward.size(), 6u);
}

TEST(WalkTest, ReluIsAStepOfItsOwnWhereSomebodyElseTakesWhatItTakes) {
  const std::string norm =
      "layers { name: 'a' dense { units: 16 } } layers { name: 'b' batch_normalization {} } ";
  const std::string relu = "layers { name: 'c' activation { function: RELU } } ";
  for (const std::string& text :
       {norm + relu +
            "layers { name: 'd' add {} inputs: ['c', 'b'] } layers { dense { units: 2 } }",
        norm + "layers { name: 'c' activation { function: TANH } } layers { dense { units: 2 } }",
        "layers { name: 'a' dense { units: 16 } } " + relu + "layers { dense { units: 2 } }",
        // Sums of values of different shapes add up something else backwards.
        "layers { name: 'a' dense { units: 1 } } layers { name: 'b' dense { units: 16 } inputs: "
        "'features' } layers { name: 'd' add {} inputs: ['a', 'b'] } " +
            relu + "layers { dense { units: 2 } }"}) {
    const ModelPlan plan = PlanOf(text);
    EXPECT_EQ(Steps(PlanWalk(plan, /*for_gpu=*/true)), Steps(PlanWalk(plan))) << text;
  }
}

// Of a model with two outputs one is what ReLU takes.
TEST(WalkTest, WhatIsAnOutputIsNotFused) {
  ModelSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { name: 'a' dense { units: 2 } } layers { name: 'b' batch_normalization {} } "
      "layers { name: 'c' activation { function: RELU } } "
      "outputs { layer: 'b' loss: SPARSE_CATEGORICAL_CROSSENTROPY } "
      "outputs { layer: 'c' loss: SPARSE_CATEGORICAL_CROSSENTROPY }",
      &spec));
  const absl::StatusOr<ModelPlan> plan = PlanModel(spec, FloatsAndClass({16}, 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(PlanWalk(*plan, /*for_gpu=*/true).forward.size(), 3u);
}

// Which steps give and take narrow values, by layer.
std::vector<std::string> NarrowSteps(const Walk& walk) {
  std::vector<std::string> steps;
  for (const ForwardStep& step : walk.forward) {
    if (step.narrow_input) steps.push_back(absl::StrCat(step.layer, " takes"));
    if (step.narrow_output) steps.push_back(absl::StrCat(step.layer, " gives"));
  }
  return steps;
}

TEST(WalkTest, WhatOneDenseLayerGivesAnotherAloneIsNarrow) {
  ModelPlan plan = PlanOf(
      "layers { dense { units: 16 activation: RELU } } layers { flatten {} } "
      "layers { dense { units: 16 } trainable: false } layers { dense { units: 2 } }");
  EXPECT_THAT(NarrowSteps(PlanWalk(plan, /*for_gpu=*/true)), IsEmpty()) << "of float32";
  plan.precision = PrecisionSpec::TF32;
  EXPECT_THAT(NarrowSteps(PlanWalk(plan, /*for_gpu=*/true)), IsEmpty());
  plan.precision = PrecisionSpec::BFLOAT16;
  EXPECT_THAT(NarrowSteps(PlanWalk(plan, /*for_gpu=*/true)),
              ElementsAre("0 gives", "2 takes", "2 gives", "3 takes"));
  EXPECT_THAT(NarrowSteps(PlanWalk(plan)), IsEmpty()) << "on a processor";
}

TEST(WalkTest, WhatAnybodyElseTakesIsOfFloat32) {
  const std::string first = "layers { name: 'a' dense { units: 16 } } ";
  for (const std::string& text :
       {// A function whose gradient is not known of the rounded output as well.
        std::string(
            "layers { dense { units: 16 activation: TANH } } layers { dense { units: 2 } }"),
        first + "layers { name: 'b' dropout { rate: 0.5 } } layers { dense { units: 2 } }",
        first + "layers { name: 'b' activation { function: RELU } } layers { dense { units: 2 } }",
        // Two dense layers, one of them through a view.
        first +
            "layers { name: 'b' dense { units: 16 } } layers { name: 'v' flatten {} inputs: 'a' } "
            "layers { name: 'd' dense { units: 16 } inputs: 'v' } layers { name: 'c' add {} "
            "inputs: ['b', 'd'] } layers { dense { units: 2 } }",
        first + "layers { name: 'b' dense { units: 16 } } layers { name: 'c' add {} inputs: "
                "['a', 'b'] } layers { dense { units: 2 } }"}) {
    ModelPlan plan = PlanOf(text);
    plan.precision = PrecisionSpec::BFLOAT16;
    EXPECT_THAT(NarrowSteps(PlanWalk(plan, /*for_gpu=*/true)), IsEmpty()) << text;
  }
}

TEST(WalkTest, AnOutputOfTheModelIsOfFloat32) {
  ModelSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { name: 'a' dense { units: 2 } } layers { name: 'b' dense { units: 2 } } "
      "outputs { layer: 'a' loss: SPARSE_CATEGORICAL_CROSSENTROPY } "
      "outputs { layer: 'b' loss: SPARSE_CATEGORICAL_CROSSENTROPY }",
      &spec));
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, FloatsAndClass({16}, 2));
  ASSERT_TRUE(plan.ok()) << plan.status();
  plan->precision = PrecisionSpec::BFLOAT16;
  EXPECT_THAT(NarrowSteps(PlanWalk(*plan, /*for_gpu=*/true)), IsEmpty());
}

TEST(MemoryPlanTest, NarrowValuesAndTheirGradientsTakeHalfTheMemory) {
  ModelPlan plan = PlanOf(
      "layers { dense { units: 1000 activation: RELU } } layers { dense { units: 1000 } } "
      "layers { dense { units: 2 } }");
  const auto size = [&](bool training) {
    return PlanMemory(plan, PlanWalk(plan, /*for_gpu=*/true), 64, training).size;
  };
  // Two values of [64, 1000] at one time; in training a gradient of one of them beside both, and
  // one of the last output, which is [64, 2].
  constexpr size_t kValue = 64 * 1000;
  constexpr size_t kOutput = 64 * 2;
  EXPECT_EQ(size(/*training=*/false), 2 * kValue);
  EXPECT_EQ(size(/*training=*/true), 3 * kValue + kOutput);
  plan.precision = PrecisionSpec::BFLOAT16;
  EXPECT_EQ(size(/*training=*/false), kValue);
  EXPECT_EQ(size(/*training=*/true), 3 * kValue / 2 + kOutput);
}

TEST(MemoryPlanTest, WhatAFusedReluGaveIsKeptWhereItsGradientTakesIt) {
  const std::string text =
      "layers { name: 'a' dense { units: 16 } } layers { name: 'b' dense { units: 16 } } "
      "layers { name: 'c' add {} inputs: ['a', 'b'] } "
      "layers { name: 'd' activation { function: RELU } } "
      "layers { name: 'e' average_pooling1d { pool_size: 1 } } layers { flatten {} } "
      "layers { dense { units: 2 } }";
  const ModelPlan plan = PlanOf(text, {3, 16});
  const Walk walk = PlanWalk(plan, /*for_gpu=*/true);
  const MemoryPlan places = PlanMemory(plan, walk, 10, /*training=*/true);
  // The sum's place is nobody else's until its turn backwards, though its reader keeps nothing.
  EXPECT_NE(places.values[3], places.values[5]);
  EXPECT_NE(places.backward[1].output_gradient, places.values[3]);
  EXPECT_NE(places.backward[2].output_gradient, places.values[3]);
}

TEST(MemoryPlanTest, EvaluationKeepsNothingLongerThanItsReaders) {
  const ModelPlan plan = PlanOf(
      "layers { dense { units: 16 } } layers { dense { units: 16 } } "
      "layers { dense { units: 16 } } layers { dense { units: 16 } }");
  const Walk walk = PlanWalk(plan);
  EXPECT_EQ(PlanMemory(plan, walk, 10, /*training=*/false).size, 2 * 160u);
  // Three outputs are kept, and there are never more than two others: the last output and the
  // gradient by it, or gradients by an output and by the one before it, when fewer are kept.
  EXPECT_EQ(PlanMemory(plan, walk, 10, /*training=*/true).size, 5 * 160u);
}

TEST(MemoryPlanTest, ElementwiseLayersWriteInPlace) {
  const ModelPlan plan = PlanOf(
      "layers { name: 'a' dense { units: 16 } } layers { name: 'b' dropout { rate: 0.5 } } "
      "layers { name: 'c' dense { units: 16 } } layers { name: 'd' add {} inputs: ['c', 'b'] } "
      "layers { activation { function: RELU } }");
  const Walk walk = PlanWalk(plan);
  const MemoryPlan places = PlanMemory(plan, walk, 10, /*training=*/true);
  EXPECT_EQ(places.values[2], places.values[1]);
  EXPECT_EQ(places.values[4], places.values[3]);
  EXPECT_EQ(places.values[5], places.values[4]);
  EXPECT_NE(places.values[3], places.values[2]);
  // The gradient by the sum is that by its first input; the other one gets a copy.
  EXPECT_EQ(places.backward[1].input_gradients[0].place, places.backward[1].output_gradient);
  EXPECT_NE(places.backward[1].input_gradients[1].place, places.backward[1].output_gradient);
  EXPECT_EQ(places.backward[2].input_gradients[0].sum, places.backward[1].input_gradients[1].place);
}

// Sizes are rounded up: what is repeated may look as large as the output.
TEST(MemoryPlanTest, MergesThatRepeatAnInputWriteElsewhere) {
  for (const std::string merge : {"add", "subtract", "average", "multiply", "maximum"}) {
    const ModelPlan plan = PlanOf(
        "layers { name: 'a' dense { units: 1 } } "
        "layers { name: 'b' dense { units: 16 } inputs: 'features' } "
        "layers { name: 'c' " +
        merge + " {} inputs: ['a', 'b'] } layers { dense { units: 2 } }");
    const Walk walk = PlanWalk(plan);
    const MemoryPlan places = PlanMemory(plan, walk, /*batch=*/1, /*training=*/true);
    EXPECT_NE(places.values[3], places.values[1]);
    for (const GradientPlace& gradient : places.backward[1].input_gradients) {
      EXPECT_NE(gradient.place, places.backward[1].output_gradient);
    }
  }
}

TEST(MemoryPlanTest, ValuesThatAreTakenLaterStayWhereTheyAre) {
  const ModelPlan plan = PlanOf(
      "layers { name: 'a' dense { units: 16 } } layers { name: 'b' activation { function: RELU } } "
      "layers { name: 'c' add {} inputs: ['b', 'a'] } layers { dense { units: 2 } }");
  const Walk walk = PlanWalk(plan);
  const MemoryPlan places = PlanMemory(plan, walk, 10, /*training=*/false);
  EXPECT_NE(places.values[2], places.values[1]);
}

std::string Convolution(const std::string& name, const std::string& input, int filters, int size,
                        int strides) {
  return absl::StrCat("layers { name: '", name, "' inputs: '", input,
                      "' conv2d { filters: ", filters, " kernel_size: ", size,
                      " strides: ", strides, " padding: SAME no_bias: true } } layers { name: '",
                      name, "_norm' inputs: '", name, "' batch_normalization {} } ");
}

std::string Relu(const std::string& name, const std::string& input) {
  return absl::StrCat("layers { name: '", name, "' inputs: '", input,
                      "' activation { function: RELU } } ");
}

// As examples/resnet.py writes it.
std::string ResidualBlock(const std::string& name, const std::string& before, int filters,
                          int strides) {
  const std::string shortcut = name + "_shortcut";
  return absl::StrCat(
      Convolution(name + "_1", before, filters, 3, strides), Relu(name + "_relu", name + "_1_norm"),
      Convolution(name + "_2", name + "_relu", filters, 3, 1),
      strides > 1 ? Convolution(shortcut, before, filters, 1, strides) : "", "layers { name: '",
      name, "_add' inputs: ['", name, "_2_norm', '", strides > 1 ? shortcut + "_norm" : before,
      "'] add {} } ", Relu(name, name + "_add"));
}

std::string ResidualNetwork(int blocks) {
  std::string text =
      "layers { name: 'stem' conv2d { filters: 16 kernel_size: 3 padding: SAME no_bias: true } } "
      "layers { name: 'norm' batch_normalization {} } ";
  text += Relu("out", "norm");
  std::string before = "out";
  for (int group = 0; group < 3; ++group) {
    for (int i = 0; i < blocks; ++i) {
      const std::string name = absl::StrCat("block", group, "_", i);
      text += ResidualBlock(name, before, 16 << group, group > 0 && i == 0 ? 2 : 1);
      before = name;
    }
  }
  return text + "layers { global_average_pooling2d {} } layers { dense { units: 10 } } ";
}

// Depths 20 and 56. What is kept for the backward pass comes and goes at all times: a planner that
// let holes be would need more.
TEST(MemoryPlanTest, ResidualNetworksTakeHardlyMoreThanIsNeededAtOneTime) {
  for (const int blocks : {3, 9}) {
    const ModelPlan plan = PlanOf(ResidualNetwork(blocks), {32, 32, 3});
    for (const bool for_gpu : {false, true}) {
      const Walk walk = PlanWalk(plan, for_gpu);
      for (const bool training : {true, false}) {
        const MemoryPlan places = PlanMemory(plan, walk, 128, training);
        EXPECT_GE(places.size, places.least);
        EXPECT_LE(static_cast<double>(places.size), 1.05 * static_cast<double>(places.least))
            << blocks << (training ? " training" : " evaluation") << for_gpu;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::worker
