// What Keras's values in reference_test do not show: rows of any length, element by element.
#include "worker/device/cpu/layers/broadcast.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/cpu/layers/merge.h"

namespace millrace::worker {
namespace {

constexpr size_t kBatchOfMerges = 3;

LayerPlan PlanOfProduct(const std::vector<Shape>& inputs, const Shape& output) {
  LayerPlan plan;
  plan.spec.mutable_multiply();
  plan.inputs = inputs;
  plan.output = output;
  return plan;
}

// Small whole numbers, so that sums are exact in any order.
std::vector<float> NumbersFor(const Shape& shape) {
  std::vector<float> numbers(kBatchOfMerges * ElementCount(shape));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 5) - 2;
  return numbers;
}

// Where in a batch of `input` an element of a batch of `output` finds its value.
size_t PlaceIn(size_t element, const Shape& output, const Shape& input) {
  size_t source = 0;
  size_t stride = 1;
  for (size_t i = 0; i < output.size(); ++i) {
    const size_t size = output[output.size() - 1 - i];
    const size_t size_there = i < input.size() ? input[input.size() - 1 - i] : 1;
    if (size_there > 1) source += element % size * stride;
    stride *= size_there;
    element /= size;
  }
  return source + element * stride;  // What is left is the example.
}

void ExpectProducts(const Shape& a, const Shape& b, const Shape& output) {
  BroadcastLayer layer(PlanOfProduct({a, b}, output), std::make_unique<MultiplyLayer>(1));
  const std::vector<float> x0 = NumbersFor(a), x1 = NumbersFor(b);
  std::vector<float> dy = NumbersFor(output), y(dy.size());
  std::vector<float> dx0(x0.size(), 9), dx1(x1.size(), 9);
  std::vector<float> expected0(x0.size()), expected1(x1.size());
  CpuPass pass;
  pass.batch = kBatchOfMerges;
  layer.Forward(pass, {x0.data(), x1.data()}, y.data());
  layer.Backward(pass, {x0.data(), x1.data()}, y.data(), dy.data(), {dx0.data(), dx1.data()});
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t from0 = PlaceIn(i, output, a), from1 = PlaceIn(i, output, b);
    ASSERT_EQ(y[i], x0[from0] * x1[from1]) << i;
    expected0[from0] += dy[i] * x1[from1];
    expected1[from1] += dy[i] * x0[from0];
  }
  EXPECT_EQ(dx0, expected0);
  EXPECT_EQ(dx1, expected1);
}

TEST(BroadcastTest, EachElementMeetsTheOneThatIsRepeated) {
  ExpectProducts({4, 3, 2}, {1, 1, 2}, {4, 3, 2});
  ExpectProducts({4, 3, 2}, {4, 3, 1}, {4, 3, 2});
  ExpectProducts({3, 1}, {2, 1, 5}, {2, 3, 5});
  ExpectProducts({1, 3, 1, 5}, {2, 1, 4, 1}, {2, 3, 4, 5});
  ExpectProducts({1}, {2, 3}, {2, 3});
  ExpectProducts({5, 1, 1}, {5}, {5, 1, 5});
}

TEST(BroadcastTest, LongRowsAreComputedPieceByPiece) {
  ExpectProducts({3, 5000}, {3, 1}, {3, 5000});
  ExpectProducts({1}, {2, 1024}, {2, 1024});
  ExpectProducts({2, 2049}, {2049}, {2, 2049});
}

TEST(BroadcastTest, GradientsThatNobodyAsksForAreLeftOut) {
  BroadcastLayer layer(PlanOfProduct({{2}, {1}}, {2}), std::make_unique<MultiplyLayer>(1));
  CpuPass pass;
  pass.batch = 1;
  const float x[] = {2, 3, 5};
  float dy[] = {1, 1}, dx[] = {9};
  layer.Backward(pass, {x, x + 2}, nullptr, dy, {nullptr, dx});
  EXPECT_EQ(dx[0], 5);
}

}  // namespace
}  // namespace millrace::worker
