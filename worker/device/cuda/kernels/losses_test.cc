// Each loss against its twin on the CPU, which worker/device/cpu/losses compares with Keras's, and
// against float64.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/members.h"
#include "worker/device/cuda/describe.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/testing/differences.h"
#include "worker/device/cuda/kernels/testing/float64_losses.h"
#include "worker/device/cuda/kernels/testing/random_choices.h"

namespace millrace::worker {
namespace {

struct LossCase {
  OutputPlan output;
  std::vector<float> values;
  Tensor label;
  std::vector<double> weights;

  size_t batch() const { return weights.size(); }
};

struct LossResult {
  std::vector<double> losses;
  std::vector<float> gradient;
};

LossCase MakeLossCase(Loss loss, size_t width, size_t batch, bool float_labels = true) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> values(-4, 4), shares(0, 1);
  LossCase c;
  c.output.loss = loss;
  c.output.width = width;
  c.output.weight = 0.75;
  for (size_t i = 0; i < batch; ++i) c.weights.push_back(0.5 + shares(random));
  for (size_t i = 0; i < batch * width; ++i) c.values.push_back(values(random));
  if (loss == SPARSE_CATEGORICAL_CROSSENTROPY) {
    for (size_t i = 0; i < batch; ++i) c.label.ids.push_back(random() % width);
  } else if (loss == BINARY_CROSSENTROPY && !float_labels) {
    for (size_t i = 0; i < batch * width; ++i) c.label.ids.push_back(random() % 2);
  } else {
    for (size_t i = 0; i < batch * width; ++i) c.label.floats.push_back(shares(random));
  }
  return c;
}

LossCase CaseOfFloats(Loss loss, size_t batch, const std::vector<float>& values,
                      const std::vector<float>& labels) {
  LossCase c = MakeLossCase(loss, values.size() / batch, batch);
  c.values = values;
  c.label = FloatTensor(labels);
  return c;
}

LossCase CaseOfIds(Loss loss, const std::vector<float>& values,
                   const std::vector<int64_t>& labels) {
  LossCase c = MakeLossCase(loss, values.size() / labels.size(), labels.size());
  c.values = values;
  c.label = IdTensor(labels);
  return c;
}

template <typename T>
std::vector<T> RowOf(const std::vector<T>& all, size_t row, size_t rows) {
  const size_t width = all.size() / rows;
  return {all.begin() + row * width, all.begin() + (row + 1) * width};
}

// One by one, since the CPU adds up.
std::vector<double> LossesOnCpu(const LossCase& c) {
  std::vector<double> losses;
  for (size_t i = 0; i < c.batch(); ++i) {
    const std::vector<float> values = RowOf(c.values, i, c.batch());
    Tensor label;
    label.floats = RowOf(c.label.floats, i, c.batch());
    label.ids = RowOf(c.label.ids, i, c.batch());
    LossBatch batch;
    batch.output = {values, &label, 1};
    batch.weights = absl::MakeConstSpan(c.weights).subspan(i, 1);
    losses.push_back(MakeCpuLoss(c.output)->Compute(batch, nullptr));
  }
  return losses;
}

LossResult LossOnCpu(const LossCase& c) {
  LossResult result;
  result.losses = LossesOnCpu(c);
  result.gradient.resize(c.values.size());
  LossBatch batch;
  batch.output = {c.values, &c.label, c.batch()};
  batch.weights = c.weights;
  batch.scale = c.output.weight;
  MakeCpuLoss(c.output)->Compute(batch, result.gradient.data());
  return result;
}

LossResult LossOnGpu(const LossCase& c, bool with_gradient = true) {
  const auto gpu = OpenTestGpu();
  const auto loss = MakeCudaLoss(gpu.get(), c.output);
  const auto values = OnDevice(gpu.get(), c.values), floats = OnDevice(gpu.get(), c.label.floats);
  const auto ids = OnDevice(gpu.get(), c.label.ids);
  const auto weights = OnDevice(gpu.get(), c.weights);
  DeviceMemory losses(gpu.get(), c.batch() * sizeof(double));
  DeviceMemory gradient(gpu.get(), c.values.size() * sizeof(float));
  cuda::LossPass pass;
  pass.batch = c.batch();
  pass.mean_of = c.batch();
  pass.output = values->As();
  pass.ids = c.label.ids.empty() ? nullptr : ids->As<int64_t>();
  pass.floats = c.label.floats.empty() ? nullptr : floats->As();
  pass.weights = weights->As<double>();
  pass.gradient = with_gradient ? gradient.As() : nullptr;
  pass.losses = losses.As<double>();
  loss->Compute(pass);
  return {losses.Values<double>(), gradient.Values()};
}

bool IsClose(double actual, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

void ExpectLossLikeCpu(const LossCase& c) {
  SCOPED_TRACE(Loss_Name(c.output.loss));
  const LossResult expected = LossOnCpu(c), actual = LossOnGpu(c);
  for (size_t i = 0; i < c.batch(); ++i) {
    ASSERT_TRUE(IsClose(actual.losses[i], expected.losses[i], 1e-7))
        << "loss " << i << ": " << actual.losses[i] << ", not " << expected.losses[i];
  }
  for (size_t i = 0; i < c.values.size(); ++i) {
    ASSERT_TRUE(IsClose(actual.gradient[i], expected.gradient[i], 1e-7))
        << "gradient " << i << ": " << actual.gradient[i] << ", not " << expected.gradient[i];
  }
  const LossResult alone = LossOnGpu(c, /*with_gradient=*/false);
  for (size_t i = 0; i < c.batch(); ++i) {
    ASSERT_TRUE(alone.losses[i] == actual.losses[i] || std::isnan(actual.losses[i])) << i;
  }
}

// An absolute error has a kink where a number equals its label.
void KeepLabelsApart(LossCase* c) {
  if (c->output.loss != MEAN_ABSOLUTE_ERROR) return;
  for (float& value : c->values) value = std::round(4 * value) / 4;
  for (float& label : c->label.floats) label = std::round(4 * label) / 4 + 0.125f;
}

void ExpectLossLikeFloat64(const LossCase& c, Steps steps) {
  SCOPED_TRACE(Loss_Name(c.output.loss));
  Doubles values(c.values.begin(), c.values.end());
  const LossResult result = LossOnGpu(c);
  const Doubles losses = Float64Losses(c.output, values, c.label);
  for (size_t i = 0; i < c.batch(); ++i) {
    EXPECT_NEAR(result.losses[i], losses[i] * c.weights[i], 1e-6) << i;
  }
  // Times their number, so that gradients of many numbers are not small.
  const double numbers = static_cast<double>(c.values.size());
  std::vector<float> gradient = result.gradient;
  for (float& slope : gradient) slope *= static_cast<float>(numbers);
  const auto objective = [&] {
    const Doubles each = Float64Losses(c.output, values, c.label);
    double sum = 0;
    for (size_t i = 0; i < c.batch(); ++i) sum += each[i] * c.weights[i];
    return sum * c.output.weight / static_cast<double>(c.batch()) * numbers;
  };
  ExpectDifferenceQuotients(gradient, &values, objective, steps, 5e-6);
}

class LossKernelTest : public ::testing::TestWithParam<Loss> {};

TEST_P(LossKernelTest, IsLikeTheCpuOnAnyShape) {
  for (const size_t width : {1, 2, 10, 33, 256, 257, 1000}) {
    for (const size_t batch : {1, 7}) {
      ExpectLossLikeCpu(MakeLossCase(GetParam(), width, batch));
      if (GetParam() == BINARY_CROSSENTROPY) {
        ExpectLossLikeCpu(MakeLossCase(GetParam(), width, batch, /*float_labels=*/false));
      }
    }
  }
}

TEST_P(LossKernelTest, TakesMoreExamplesThanAGridHasBlocks) {
  ExpectLossLikeCpu(MakeLossCase(GetParam(), 3, 4200));
}

TEST_P(LossKernelTest, OptionsAreTheCpus) {
  LossCase c = MakeLossCase(GetParam(), 5, 4);
  c.output.label_smoothing = 0.125;
  c.output.huber_delta = 2.5;
  ExpectLossLikeCpu(c);
}

TEST_P(LossKernelTest, ExamplesMayCountNothing) {
  LossCase c = MakeLossCase(GetParam(), 5, 3);
  c.weights = {0, 2, 0};
  ExpectLossLikeCpu(c);
}

TEST_P(LossKernelTest, GradientsAreTheDifferenceQuotientsOfFloat64) {
  for (const bool float_labels : {true, false}) {
    LossCase c = MakeLossCase(GetParam(), 7, 5, float_labels);
    KeepLabelsApart(&c);
    ExpectLossLikeFloat64(c, Steps::kOfEach);
    c.output.label_smoothing = 0.125;
    c.output.huber_delta = 2.5;
    ExpectLossLikeFloat64(c, Steps::kOfEach);
  }
}

TEST_P(LossKernelTest, RandomShapes) {
  RandomChoices choose;
  for (int i = 0; i < 12; ++i) {
    const size_t width = choose.From(1, choose.Perhaps() ? 20 : 600), batch = choose.From(1, 40);
    LossCase c = MakeLossCase(GetParam(), width, batch, /*float_labels=*/choose.Perhaps());
    c.output.label_smoothing = 0.0625 * static_cast<double>(choose.From(0, 15));
    c.output.huber_delta = 0.25 * static_cast<double>(choose.From(1, 12));
    KeepLabelsApart(&c);
    SCOPED_TRACE(absl::StrCat(choose.SeedString(), ": ", batch, " examples of ", width));
    ExpectLossLikeCpu(c);
    ExpectLossLikeFloat64(c, Steps::kTogether);
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, LossKernelTest,
                         ::testing::Values(SPARSE_CATEGORICAL_CROSSENTROPY,
                                           CATEGORICAL_CROSSENTROPY, BINARY_CROSSENTROPY,
                                           MEAN_SQUARED_ERROR, MEAN_ABSOLUTE_ERROR, HUBER),
                         [](const auto& instance) { return Loss_Name(instance.param); });

TEST(LossKernelValuesTest, HugeLogitsNeitherOverflowNorVanish) {
  ExpectLossLikeCpu(CaseOfIds(SPARSE_CATEGORICAL_CROSSENTROPY, {3e38f, -3e38f, 1e4f, 0}, {0, 1}));
  ExpectLossLikeCpu(
      CaseOfFloats(CATEGORICAL_CROSSENTROPY, 2, {3e38f, -3e38f, 1e4f, 0}, {1, 0, 0, 1}));
  ExpectLossLikeCpu(CaseOfIds(BINARY_CROSSENTROPY, {1e4f, 1e4f, -1e4f, -1e4f}, {0, 1, 0, 1}));
  ExpectLossLikeCpu(CaseOfFloats(MEAN_SQUARED_ERROR, 1, {1e30f}, {0}));
  ExpectLossLikeCpu(CaseOfFloats(HUBER, 1, {-3e38f}, {0}));
}

TEST(LossKernelValuesTest, SmallLossesKeepTheirDigits) {
  LossCase c = CaseOfIds(BINARY_CROSSENTROPY, {40}, {1});
  c.weights = {1};
  EXPECT_DOUBLE_EQ(LossOnGpu(c).losses[0], std::exp(-40.0));
}

TEST(LossKernelValuesTest, WhatIsNotFiniteIsLikeTheCpus) {
  const std::vector<std::vector<float>> rows = {
      {0, kNan, 0},      {kNan, 0, 0},       {kNan, kNan, kNan},
      {kInfinity, 0, 0}, {-kInfinity, 0, 0}, {-kInfinity, -kInfinity, -kInfinity}};
  for (const auto& row : rows) {
    for (const int64_t label : {0, 1}) {
      std::vector<float> labels(3);
      labels[label] = 1;
      ExpectLossLikeCpu(CaseOfIds(SPARSE_CATEGORICAL_CROSSENTROPY, row, {label}));
      for (const Loss loss : {CATEGORICAL_CROSSENTROPY, BINARY_CROSSENTROPY, MEAN_SQUARED_ERROR,
                              MEAN_ABSOLUTE_ERROR, HUBER}) {
        ExpectLossLikeCpu(CaseOfFloats(loss, 1, row, labels));
      }
    }
  }
}

TEST(LossKernelValuesTest, AbsoluteErrorIsFlatAtZero) {
  LossCase c = CaseOfFloats(MEAN_ABSOLUTE_ERROR, 3, {1, 2, 3}, {1, 1, 4});
  c.weights = {1, 1, 1};
  c.output.weight = 1;
  const LossResult result = LossOnGpu(c);
  EXPECT_EQ(result.gradient, std::vector<float>({0, 1.0f / 3, -1.0f / 3}));
}

}  // namespace
}  // namespace millrace::worker
