#include "worker/model/flops.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {
namespace {

TEST(FlopsTest, CountsMultiplicationsAndAdditions) {
  ModelSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "layers { conv2d { filters: 4 kernel_size: 3 padding: SAME } } "
      "layers { activation { function: RELU } } layers { flatten {} } "
      "layers { dense { units: 5 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      &spec));
  const auto plan = PlanModel(spec, FloatsAndClass({8, 8, 2}, 5));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ForwardFlops(plan->layers[0]), 2.0 * 9 * 2 * (8 * 8 * 4));
  EXPECT_EQ(ForwardFlops(plan->layers[1]), 8 * 8 * 4);
  EXPECT_EQ(ForwardFlops(plan->layers[2]), 0);
  EXPECT_EQ(ForwardFlops(plan->layers[3]), 2.0 * 256 * 5);
}

}  // namespace
}  // namespace millrace::worker
