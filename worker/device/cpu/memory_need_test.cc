#include "worker/device/cpu/memory_need.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDense[] =
    "layers { dense { units: 10 no_bias: true } } loss: SPARSE_CATEGORICAL_CROSSENTROPY";

// Values and three sets of gradients; then for each example its output, two gradients by outputs
// and, of six batches, its features.
TEST(MemoryNeedTest, CountsVariablesGradientsActivationsAndBatches) {
  const ModelPlan plan = PlanOrDie(kDense, {100}, 10);
  const double variables = 4 * 1000;
  EXPECT_EQ(MemoryNeed(plan, {8, 0}), 4 * (variables + 8 * (10 + 2 * 10 + 6 * 100)));
}

TEST(MemoryNeedTest, LargeBatchesAreNotMadeReadyFarAhead) {
  const ModelPlan plan = PlanOrDie(kDense, {1 << 20}, 10);
  const double variables = 4 * 10.0 * (1 << 20);
  // 128 examples of 4 MiB: one batch ahead, and two in use.
  EXPECT_EQ(MemoryNeed(plan, {128, 0}), 4 * (variables + 128.0 * (10 + 2 * 10 + 3.0 * (1 << 20))));
}

TEST(MemoryNeedTest, EvaluationNeedsNoGradients) {
  const ModelPlan plan = PlanOrDie(kDense, {100}, 10);
  EXPECT_EQ(MemoryNeed(plan, {8, 32}) - MemoryNeed(plan, {8, 0}), 4 * (24.0 * (10 + 2 * 100)));
}

TEST(MemoryNeedTest, OutputsInsideKeepTheirGradients) {
  const std::string layers =
      "layers { name: 'a' dense { units: 20 } } layers { dense { units: 10 } } "
      "outputs { loss: SPARSE_CATEGORICAL_CROSSENTROPY } ";
  const ModelPlan one = PlanOrDie(layers, {100}, 10);
  const ModelPlan two =
      PlanOrDie(layers + "outputs { layer: 'a' loss: SPARSE_CATEGORICAL_CROSSENTROPY }", {100}, 10);
  EXPECT_EQ(MemoryNeed(two, {8, 32}) - MemoryNeed(one, {8, 32}), 4 * 8 * 20);
}

TEST(MemoryNeedTest, PoolingKeepsWhereItsValuesCameFrom) {
  const std::string dense = "layers { flatten {} } " + std::string(kDense);
  const ModelPlan plan = PlanOrDie("layers { max_pool2d {} } " + dense, {8, 8, 3}, 10);
  const double variables = 4.0 * 48 * 10;
  EXPECT_EQ(MemoryNeed(plan, {1, 0}), 4 * (variables + 2 * 48 + 10 + 2 * 48 + 6 * 192));
}

TEST(MemoryNeedTest, ErrorNamesTheFieldToLower) {
  const ModelPlan plan = PlanOrDie(kDense, {1 << 18}, 10);
  EXPECT_EQ(CheckMemory(plan, {64, 64}, uint64_t{1} << 30), absl::OkStatus());
  const absl::Status train = CheckMemory(plan, {1024, 64}, uint64_t{1} << 30);
  EXPECT_EQ(train.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(train.message()),
              AllOf(HasSubstr("1024 examples (batch_size)"), HasSubstr("use smaller layers or"),
                    HasSubstr("may use 1.0 GiB")));
  const absl::Status evaluation = CheckMemory(plan, {64, 2048}, uint64_t{1} << 30);
  EXPECT_THAT(std::string(evaluation.message()),
              AllOf(HasSubstr("2048 examples (evaluation.batch_size)"),
                    HasSubstr("a smaller evaluation.batch_size"), Not(HasSubstr("layers"))));
}

}  // namespace
}  // namespace millrace::worker
