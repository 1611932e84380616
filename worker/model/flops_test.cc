#include "worker/model/flops.h"

#include <string>
#include <utility>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

ModelPlan PlanFlops(const std::string& text, const Shape& input) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text + " loss: SPARSE_CATEGORICAL_CROSSENTROPY", &spec));
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, FloatsAndClass(input, 5));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(FlopsTest, CountsMultiplicationsAndAdditions) {
  const ModelPlan plan = PlanFlops(
      "layers { conv2d { filters: 4 kernel_size: 3 padding: SAME } } "
      "layers { activation { function: RELU } } layers { flatten {} } "
      "layers { dense { units: 5 } }",
      {8, 8, 2});
  EXPECT_EQ(ForwardFlops(plan.layers[0]), 2.0 * 9 * 2 * (8 * 8 * 4));
  EXPECT_EQ(ForwardFlops(plan.layers[1]), 8 * 8 * 4);
  EXPECT_EQ(ForwardFlops(plan.layers[2]), 0);
  EXPECT_EQ(ForwardFlops(plan.layers[3]), 2.0 * 256 * 5);
}

TEST(FlopsTest, DenseTakesEachRowAlongTheLastDimension) {
  const ModelPlan plan =
      PlanFlops("layers { dense { units: 6 } } layers { flatten {} } layers { dense { units: 5 } }",
                {7, 3, 4});
  EXPECT_EQ(ForwardFlops(plan.layers[0]), 2.0 * 7 * 3 * 4 * 6);
  EXPECT_EQ(ForwardFlops(plan.layers[2]), 2.0 * 126 * 5);
}

TEST(FlopsTest, FiltersSeeTheirGroupAlone) {
  const ModelPlan plan = PlanFlops(
      "layers { conv2d { filters: 6 kernel_size: 3 padding: SAME groups: 2 } } "
      "layers { depthwise_conv2d { kernel_size: [3, 2] padding: SAME depth_multiplier: 2 } } "
      "layers { reshape { target_shape: [64, 12] } } "
      "layers { conv1d { filters: 4 kernel_size: 5 groups: 4 } } layers { flatten {} } "
      "layers { dense { units: 5 } }",
      {8, 8, 4});
  EXPECT_EQ(ForwardFlops(plan.layers[0]), 2.0 * 9 * 2 * (8 * 8 * 6));
  EXPECT_EQ(ForwardFlops(plan.layers[1]), 2.0 * 6 * (8 * 8 * 12));
  EXPECT_EQ(ForwardFlops(plan.layers[3]), 2.0 * 5 * 3 * (60 * 4));
}

TEST(FlopsTest, MergesCountWhatIsRepeated) {
  const ModelPlan plan = PlanFlops(
      "layers { name: 'a' global_average_pooling2d {} } "
      "layers { multiply {} inputs: ['a', 'features'] } layers { flatten {} } "
      "layers { dense { units: 5 } }",
      {8, 8, 2});
  EXPECT_EQ(ForwardFlops(plan.layers[1]), 2.0 * (8 * 8 * 2));
}

}  // namespace
}  // namespace millrace::worker
