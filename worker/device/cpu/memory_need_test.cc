#include "worker/device/cpu/memory_need.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_model.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/model/compact_tables.h"

namespace millrace::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDense[] =
    "layers { dense { units: 10 no_bias: true } } loss: SPARSE_CATEGORICAL_CROSSENTROPY";

constexpr double kClassInFloats = 2;

// Values and three sets of gradients; an output of each example and the gradient by it; and of six
// batches the examples.
TEST(MemoryNeedTest, CountsVariablesGradientsActivationsAndBatches) {
  const ModelPlan plan = PlanOrDie(kDense, {100}, 10);
  const double variables = 4 * 1000;
  EXPECT_EQ(MemoryNeed(plan, {8, 0}), 4 * (variables + 8 * (10 + 10 + 6 * (100 + kClassInFloats))));
}

TEST(MemoryNeedTest, LargeBatchesAreNotMadeReadyFarAhead) {
  const ModelPlan plan = PlanOrDie(kDense, {1 << 20}, 10);
  const double variables = 4 * 10.0 * (1 << 20);
  // 128 examples of 4 MiB: one batch ahead, and two in use.
  EXPECT_EQ(MemoryNeed(plan, {128, 0}),
            4 * (variables + 128 * (10 + 10 + 3 * ((1 << 20) + kClassInFloats))));
}

TEST(MemoryNeedTest, CountsTheSecondPlaceForValuesThatArePulledAhead) {
  ModelPlan plan = PlanOrDie(kDense, {100}, 10);
  const double without = MemoryNeed(plan, {8, 0});
  plan.pulls_ahead = true;
  EXPECT_EQ(MemoryNeed(plan, {8, 0}) - without, 4 * 1000);
}

// The table itself, and of the rows of a batch, 8 * 5 or all of them, the compact table, its
// gradient, and those on their way to the servers.
TEST(MemoryNeedTest, CountsTheRowsOfALargeTableThatABatchHas) {
  const auto plan_of = [](int rows) {
    ExampleSpec examples;
    TensorSpec& ids = examples.features.emplace_back();
    ids.type = ElementType::kId;
    ids.shape = {5};
    examples.labels.emplace_back();
    return PlanOrDie("layers { embedding { input_dim: " + std::to_string(rows) +
                         " output_dim: 3 pooling: SUM } } layers { dense { units: 1 no_bias: true "
                         "} } loss: MEAN_SQUARED_ERROR",
                     examples);
  };
  const auto need = [&](int rows, size_t batch) {
    return MemoryNeed(PlanForDevice(plan_of(rows), {batch, 0}), {batch, 0});
  };
  constexpr double kRow = 3 * sizeof(float);
  EXPECT_EQ(need(40001, 8) - need(40000, 8), kRow) << "its value";
  const double small = MemoryNeed(plan_of(21845), {8, 0});
  EXPECT_EQ(need(21845, 8), small) << "it travels as a whole";
  constexpr double kTranslated = 2 * 8 * (5 * sizeof(int64_t) + sizeof(float));
  EXPECT_EQ(need(21846, 8) - small, kRow * (21846 + 5 * 40 - 4 * 21845) + kTranslated);
  EXPECT_EQ(need(40001, 10000) - need(40000, 10000), 6 * kRow) << "each row may be in the batch";
}

// Those that no output learns are read and kept like the others, and were not counted.
TEST(MemoryNeedTest, CountsAllLabelsOfABatch) {
  ModelPlan plan = PlanOrDie(kDense, {100}, 10);
  const double without = MemoryNeed(plan, {8, 16});
  plan.labels.emplace_back().shape = {50, 3};
  EXPECT_EQ(MemoryNeed(plan, {8, 16}) - without, 4 * (4 * 8 + 2 * 16) * 150);
}

TEST(MemoryNeedTest, EvaluationNeedsNoGradients) {
  const ModelPlan plan = PlanOrDie(kDense, {100}, 10);
  // 32 outputs take less room than 32 gradients and 32 outputs would.
  EXPECT_EQ(MemoryNeed(plan, {32, 32}), MemoryNeed(plan, {32, 0}));
  EXPECT_EQ(MemoryNeed(plan, {8, 32}) - MemoryNeed(plan, {8, 0}),
            4 * (16.0 * 10 + 24.0 * 2 * (100 + kClassInFloats)));
}

TEST(MemoryNeedTest, OutputsInsideKeepTheirGradients) {
  const std::string layers =
      "layers { name: 'a' dense { units: 20 } } layers { dense { units: 10 } } "
      "outputs { loss: SPARSE_CATEGORICAL_CROSSENTROPY } ";
  const ModelPlan one = PlanOrDie(layers, {100}, 10);
  const ModelPlan two =
      PlanOrDie(layers + "outputs { layer: 'a' loss: SPARSE_CATEGORICAL_CROSSENTROPY }", {100}, 10);
  EXPECT_GT(MemoryNeed(two, {8, 0}), MemoryNeed(one, {8, 0}));
}

TEST(MemoryNeedTest, PoolingKeepsWhereItsValuesCameFrom) {
  const std::string dense = "layers { flatten {} } " + std::string(kDense);
  const ModelPlan plan = PlanOrDie("layers { max_pool2d {} } " + dense, {8, 8, 3}, 10);
  const double variables = 4.0 * 48 * 10;
  // What is pooled, and where it came from: nothing under it is trained, so that the layer after it
  // may take the place of that.
  EXPECT_EQ(MemoryNeed(plan, {1, 0}), 4 * (variables + 48 + 48 + 6 * (192 + kClassInFloats)));
}

// A residual block twice, with all that models can do.
constexpr char kWholeGraph[] = R"pb(
  layers {
    name: "stem"
    conv2d { filters: 6 kernel_size: 3 padding: SAME }
  }
  layers {
    name: "bn"
    batch_normalization {}
  }
  layers {
    name: "relu"
    activation { function: RELU }
  }
  layers {
    name: "a"
    conv2d { filters: 6 kernel_size: 3 padding: SAME no_bias: true }
  }
  layers {
    name: "b"
    conv2d { filters: 6 kernel_size: 3 padding: SAME no_bias: true }
    variables_of: "a"
  }
  layers {
    name: "sum"
    add {}
    inputs: [ "b", "relu", "stem" ]
  }
  layers {
    name: "both"
    concatenate {}
    inputs: [ "sum", "relu" ]
  }
  layers { max_pool2d {} }
  layers { global_average_pooling2d {} }
  layers { dropout { rate: 0.5 } }
  layers { dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

// Of sequences, with merges of values of several shapes.
constexpr char kSequences[] = R"pb(
  layers {
    name: "a"
    conv1d { filters: 6 kernel_size: 3 padding: CAUSAL dilation_rate: 2 groups: 3 }
  }
  layers {
    name: "max"
    max_pool1d {}
  }
  layers {
    name: "mean"
    global_average_pooling1d {}
  }
  layers {
    name: "sum"
    add {}
    inputs: [ "mean", "max" ]
  }
  layers {
    name: "product"
    multiply {}
    inputs: [ "sum", "mean" ]
  }
  layers { permute { dims: [ 2, 1 ] } }
  layers { average_pooling1d {} }
  layers {
    name: "images"
    reshape { target_shape: [ 3, 5, 1 ] }
  }
  layers { depthwise_conv2d { kernel_size: 2 depth_multiplier: 3 } }
  layers { reshape { target_shape: [ -1, 3 ] } }
  layers { dense { units: 4 activation: SOFTMAX } }
  layers { global_max_pooling1d {} }
  layers { dense { units: 10 } }
  loss: SPARSE_CATEGORICAL_CROSSENTROPY
)pb";

TEST(MemoryNeedTest, IsWhatACompiledModelTakes) {
  for (const std::string& text :
       {std::string(kDense), std::string(kWholeGraph), std::string(kSequences)}) {
    const Shape input = text == kDense        ? Shape{100}
                        : text == kWholeGraph ? Shape{9, 8, 3}
                                              : Shape{10, 3};
    const ModelPlan plan = PlanOrDie(text, input, 10);
    for (const BatchSizes& batches : {BatchSizes{7, 0}, BatchSizes{7, 7}, BatchSizes{3, 50}}) {
      const auto model = CpuModel::Compile(plan, batches, 1);
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ(static_cast<double>(static_cast<CpuModel*>(model->get())->bytes()),
                ModelBytes(plan, batches));
    }
  }
}

TEST(MemoryNeedTest, ErrorNamesTheFieldToLower) {
  const ModelPlan plan = PlanOrDie(kDense, {1 << 18}, 10);
  EXPECT_EQ(CheckMemory(plan, {64, 64}, uint64_t{1} << 30), absl::OkStatus());
  const absl::Status train = CheckMemory(plan, {1024, 64}, uint64_t{1} << 30);
  EXPECT_EQ(train.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(train.message()),
              AllOf(HasSubstr("1024 examples (batch_size)"), HasSubstr("use smaller layers or"),
                    HasSubstr("may use 1.00 GiB")));
  const absl::Status evaluation = CheckMemory(plan, {64, 2048}, uint64_t{1} << 30);
  EXPECT_THAT(std::string(evaluation.message()),
              AllOf(HasSubstr("2048 examples (evaluation.batch_size)"),
                    HasSubstr("a smaller evaluation.batch_size"), Not(HasSubstr("layers"))));
}

}  // namespace
}  // namespace millrace::worker
