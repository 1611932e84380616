#include "worker/device/cuda/kernels/products.h"

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using worker::DeviceMemory;
using worker::FromNarrow;
using worker::OnDevice;

// A real library hides Products; there DenseTest and PrecisionTest are of them.
class ProductsTest : public GpuTest {
 protected:
  void SetUp() override { MILLRACE_NEEDS_EMULATION(); }

  struct Operands {
    std::vector<float> a;
    std::vector<float> b;
    std::vector<float> bias;
  };

  static std::vector<float> RandomFloats(int64_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = distribution(random);
    return values;
  }

  static Operands RandomOperands(const ProductShape& shape) {
    return {RandomFloats(shape.rows * shape.inner, 1), RandomFloats(shape.inner * shape.columns, 2),
            RandomFloats(shape.columns, 3)};
  }

  // What a product of this precision takes of a factor.
  static double Factor(const ProductShape& shape, float value) {
    if (shape.precision != Precision::kBfloat16) return value;
    int exponent = 0;  // Of 8 bits: std::nearbyint rounds to the nearest, of two to the even one.
    const double fraction = std::frexp(double{value}, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  }

  static double BiasOf(const ProductShape& shape, const Operands& of, int64_t column) {
    if (!shape.bias) return 0;
    return shape.narrow_result ? Factor(shape, of.bias[column]) : of.bias[column];
  }

  static double Expected(const ProductShape& shape, const Operands& of, int64_t row,
                         int64_t column) {
    double sum = BiasOf(shape, of, column);
    for (int64_t k = 0; k < shape.inner; ++k) {
      const float a = of.a[shape.transpose_a ? k * shape.rows + row : row * shape.inner + k];
      const float b =
          of.b[shape.transpose_b ? column * shape.inner + k : k * shape.columns + column];
      sum += Factor(shape, a) * Factor(shape, b);
    }
    return shape.relu && sum < 0 ? 0 : sum;
  }

  static size_t BytesOfResult(const ProductShape& shape) {
    const auto count = static_cast<size_t>(shape.rows * shape.columns);
    return count * (shape.narrow_result ? sizeof(uint16_t) : sizeof(float));
  }

  std::vector<float> Multiply(const ProductShape& shape, const Operands& of) {
    const auto a = OnDevice(gpu_.get(), of.a);
    const auto b = OnDevice(gpu_.get(), of.b);
    const auto bias = OnDevice(gpu_.get(), of.bias);
    DeviceMemory c(gpu_.get(), BytesOfResult(shape));
    products_->Prepare(shape);
    DeviceMemory workspace(gpu_.get(), products_->WorkspaceBytes(shape));
    products_->Multiply(shape, a->As(), b->As(), shape.bias ? bias->As() : nullptr, c.As(),
                        workspace.As());
    cudaDeviceSynchronize();
    return ValuesOf(shape, &c);
  }

  static std::vector<float> ValuesOf(const ProductShape& shape, DeviceMemory* c) {
    return shape.narrow_result ? FromNarrow(c->Values<uint16_t>()) : c->Values();
  }

  // Some of the factors are rounded before. The workspace is as small as it may be then.
  std::vector<float> MultiplyNarrow(const ProductShape& shape, const Operands& of, bool narrow_a,
                                    bool narrow_b) {
    const auto a = OnDevice(gpu_.get(), of.a);
    const auto b = OnDevice(gpu_.get(), of.b);
    const auto bias = OnDevice(gpu_.get(), of.bias);
    DeviceMemory rounded_a(gpu_.get(), Products::NarrowBytes(of.a.size()));
    DeviceMemory rounded_b(gpu_.get(), Products::NarrowBytes(of.b.size()));
    DeviceMemory c(gpu_.get(), BytesOfResult(shape));
    DeviceMemory workspace(gpu_.get(), products_->WorkspaceBytes(shape) -
                                           (narrow_a ? rounded_a.bytes() : 0) -
                                           (narrow_b ? rounded_b.bytes() : 0));
    cuda::Factor first = a->As();
    cuda::Factor second = b->As();
    if (narrow_a) first = products_->Narrow(a->As(), of.a.size(), rounded_a.As<void>());
    if (narrow_b) second = products_->Narrow(b->As(), of.b.size(), rounded_b.As<void>());
    products_->Multiply(shape, first, second, shape.bias ? bias->As() : nullptr, c.As(),
                        workspace.As());
    cudaDeviceSynchronize();
    return ValuesOf(shape, &c);
  }

  void ExpectMultiplies(const ProductShape& shape, double extra_tolerance = 0) {
    const Operands operands = RandomOperands(shape);
    const std::vector<float> c = Multiply(shape, operands);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t column = 0; column < shape.columns; ++column) {
        const double expected = Expected(shape, operands, row, column);
        const double rounding = shape.narrow_result ? 0x1p-8 * std::abs(expected) : 0;
        ASSERT_NEAR(c[row * shape.columns + column], expected, 1e-5 + rounding + extra_tolerance)
            << shape.rows << " x " << shape.inner << " x " << shape.columns << ": " << row << ", "
            << column;
      }
    }
  }

  std::unique_ptr<Products> products_ = Products::Make(/*stream=*/nullptr);
  DeviceMemory workspace_{gpu_.get(), products_->WorkspaceBytes({1, 1, 1})};
};

TEST_F(ProductsTest, AreProductsOfAnySizes) {
  ExpectMultiplies({1, 1, 1});
  ExpectMultiplies({1, 7, 5});
  ExpectMultiplies({5, 1, 3});
  ExpectMultiplies({7, 3, 1});
  ExpectMultiplies({32, 784, 10});
  ExpectMultiplies({64, 64, 64});
}

TEST_F(ProductsTest, AreProductsWhicheverIsTransposed) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      ExpectMultiplies({13, 17, 19, transpose_a, transpose_b});
      ExpectMultiplies({3, 1000, 2, transpose_a, transpose_b});
    }
  }
}

TEST_F(ProductsTest, FactorsOfBfloat16AreRoundedToTheNearest) {
  for (ProductShape shape : {ProductShape{1, 1, 1}, ProductShape{5, 3, 7, true, false},
                             ProductShape{3, 1000, 2, false, true, /*bias=*/true},
                             ProductShape{33, 300, 65, true, true, /*bias=*/true, /*relu=*/true}}) {
    shape.precision = Precision::kBfloat16;
    ExpectMultiplies(shape);
  }
  ProductShape shape = {3, 1, 1};
  shape.precision = Precision::kBfloat16;
  // Halfway to the next number upwards, twice, and beyond all but infinity.
  EXPECT_EQ(Multiply(shape, {{1.00390625f, 1.01171875f, 3.4e38f}, {1}, {}}),
            (std::vector<float>{1.0f, 1.015625f, INFINITY}));
}

TEST_F(ProductsTest, NarrowResultsAreRoundedToTheNearest) {
  for (ProductShape shape : {ProductShape{1, 1, 1}, ProductShape{5, 3, 7, true, false},
                             ProductShape{3, 1000, 2, false, true, /*bias=*/true},
                             ProductShape{33, 300, 65, true, true, /*bias=*/true, /*relu=*/true}}) {
    shape.precision = Precision::kBfloat16;
    shape.narrow_result = true;
    ExpectMultiplies(shape);
  }
  ProductShape shape = {1, 2, 1, false, false, /*bias=*/true};
  shape.precision = Precision::kBfloat16;
  shape.narrow_result = true;
  // 1.00390625 is halfway from 1 to the next number: the bias is 1, and the sum 257, halfway.
  EXPECT_EQ(Multiply(shape, {{16, 1}, {16, 0}, {1.00390625f}}), std::vector<float>{256});
}

TEST_F(ProductsTest, AnyNumberOfFloatsIsRounded) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{23}, size_t{1000},
                             size_t{8} * kMostBlocks * kThreads + 11}) {
    const std::vector<float> floats = RandomFloats(static_cast<int64_t>(count), 4);
    const auto from = OnDevice(gpu_.get(), floats);
    DeviceMemory to(gpu_.get(), count * sizeof(uint16_t));
    EXPECT_EQ(products_->Narrow(from->As(), count, to.As<void>()).narrow, to.As<void>());
    cudaDeviceSynchronize();
    const std::vector<uint16_t> narrow = to.Values<uint16_t>();
    ProductShape shape;
    shape.precision = Precision::kBfloat16;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<float>(uint32_t{narrow[i]} << 16), Factor(shape, floats[i])) << i;
    }
  }
  const auto from = OnDevice(gpu_.get(), std::vector<float>(8));
  EXPECT_THAT(ErrorOf([&] { products_->Narrow(from->As() + 1, 4, workspace_.As<void>()); }).what(),
              HasSubstr("not aligned to 16 bytes"));
}

TEST_F(ProductsTest, FactorsThatAreRoundedAlreadyGiveTheSameBits) {
  for (ProductShape shape : {ProductShape{1, 1, 1}, ProductShape{5, 3, 7, true, false},
                             ProductShape{33, 30, 65, false, true, /*bias=*/true}}) {
    shape.precision = Precision::kBfloat16;
    const Operands of = RandomOperands(shape);
    for (const bool narrow : {false, true}) {
      shape.narrow_result = narrow;
      const std::vector<float> expected = Multiply(shape, of);
      for (const auto& [a, b] : {std::pair{true, false}, {false, true}, {true, true}}) {
        EXPECT_EQ(MultiplyNarrow(shape, of, a, b), expected) << a << b << narrow;
      }
    }
  }
}

TEST_F(ProductsTest, BiasIsAddedToEachRowBeforeRelu) {
  for (const bool bias : {false, true}) {
    for (const bool relu : {false, true}) {
      ExpectMultiplies({9, 5, 7, /*transpose_a=*/false, /*transpose_b=*/false, bias, relu});
      ExpectMultiplies({4, 5, 1, /*transpose_a=*/true, /*transpose_b=*/true, bias, relu});
    }
  }
}

TEST_F(ProductsTest, CublasAppliesReluWhereTrialsHaveShownThatNanStaysNan) {
  const auto kernels_of = [&](const ProductShape& shape) {
    products_ = Products::Make(/*stream=*/nullptr);
    const Operands operands = RandomOperands(shape);
    Multiply(shape, operands);  // Prepares it, too.
    const uint64_t before = cuda_emulation::Counted().kernels;
    Multiply(shape, operands);
    if (shape.precision != Precision::kTf32) ExpectMultiplies(shape);
    return cuda_emulation::Counted().kernels - before;
  };
  for (const bool bias : {false, true}) {
    for (const Precision precision :
         {Precision::kFloat32, Precision::kTf32, Precision::kBfloat16}) {
      ProductShape shape = {33, 30, 65, false, true, bias};
      shape.precision = precision;
      const uint64_t without = kernels_of(shape);
      shape.relu = true;
      EXPECT_EQ(kernels_of(shape), without);
      cuda_emulation::SetReluKeepsNan(false);
      EXPECT_GT(kernels_of(shape), without);
      cuda_emulation::SetReluKeepsNan(true);
    }
  }
}

TEST_F(ProductsTest, ATrialLeavesNoMemoryBehind) {
  const cuda_emulation::Usage before = cuda_emulation::InUse();
  const ProductShape shape = {9, 5, 7, false, false, /*bias=*/true, /*relu=*/true};
  cuda_emulation::FailAllocation(1);
  const Error error = ErrorOf([&] { products_->Prepare(shape); });
  EXPECT_EQ(error.kind(), Error::kMemory);
  EXPECT_THAT(error.what(), HasSubstr("for a trial of a product"));
  products_->Prepare(shape);
  EXPECT_THAT(products_->Chosen(), ElementsAre(HasSubstr("with bias, with relu")));
  EXPECT_EQ(cuda_emulation::InUse(), before);
}

TEST_F(ProductsTest, NanStaysNanThroughRelu) {
  const ProductShape shape = {2, 2, 2, false, false, /*bias=*/true, /*relu=*/true};
  const std::vector<float> c = Multiply(shape, {{1, 2, NAN, 4}, {1, -1, 1, -1}, {0, 0}});
  EXPECT_EQ(c[0], 3);
  EXPECT_EQ(c[1], 0);
  EXPECT_TRUE(std::isnan(c[2]));
  EXPECT_TRUE(std::isnan(c[3]));
}

TEST_F(ProductsTest, AreCapturedIntoGraphs) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  auto products = Products::Make(stream);
  const auto a = OnDevice<float>(gpu_.get(), {1, 2});
  const auto b = OnDevice<float>(gpu_.get(), {3, 4});
  DeviceMemory c(gpu_.get(), sizeof(float));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  // Not prepared, and so without a trial, which would wait.
  products->Multiply({1, 2, 1, false, false, /*bias=*/false, /*relu=*/true}, a->As(), b->As(),
                     nullptr, c.As(), workspace_.As());
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&runnable, graph), cudaSuccess);
  for (const float factor : {1.0f, 10.0f}) {
    const std::vector<float> values = {factor, 2 * factor};
    a->Set(values.data());
    ASSERT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(c.Values().front(), 11 * factor);
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  products.reset();
  cudaStreamDestroy(stream);
}

TEST_F(ProductsTest, WhatIsNotAlignedIsAnErrorOnEveryGpu) {
  const auto values = OnDevice(gpu_.get(), std::vector<float>(64, 1.0f));
  float* const at = values->As();
  const ProductShape shape = {2, 2, 2, false, false, /*bias=*/true};
  const auto error = [&](float* a, float* b, float* bias, float* c, void* workspace) {
    return std::string(
        ErrorOf([&] { products_->Multiply(shape, a, b, bias, c, workspace); }).what());
  };
  EXPECT_THAT(error(at + 1, at, at, at, workspace_.As()),
              HasSubstr("the product of 2 x 2 by 2 x 2: `a` is not aligned to 16 bytes"));
  EXPECT_THAT(error(at, at + 1, at, at, workspace_.As()), HasSubstr("`b` is not aligned"));
  EXPECT_THAT(error(at, at, at + 1, at, workspace_.As()), HasSubstr("`bias` is not aligned"));
  EXPECT_THAT(error(at, at, at, at + 2, workspace_.As()), HasSubstr("`c` is not aligned"));
  EXPECT_THAT(error(at, at, at, at, workspace_.As() + 4),
              HasSubstr("`workspace` is not aligned to 256 bytes"));
  ProductShape narrow = shape;
  narrow.precision = Precision::kBfloat16;
  EXPECT_THAT(ErrorOf([&] {
                products_->Multiply(narrow, cuda::Factor::OfNarrow(at + 1),
                                    cuda::Factor::OfNarrow(at), at, at, workspace_.As());
              }).what(),
              HasSubstr("`a` is not aligned"));
}

TEST_F(ProductsTest, BiasIsAddedWhereCublasHasNoAlgorithmThatDoes) {
  cuda_emulation::SetKnownProducts(cuda_emulation::KnownProducts::kWithoutBias);
  for (const bool relu : {false, true}) {
    ExpectMultiplies({9, 5, 7, /*transpose_a=*/false, /*transpose_b=*/true, /*bias=*/true, relu});
    ExpectMultiplies({300, 3, 33, /*transpose_a=*/true, false, /*bias=*/true, relu});
    ExpectMultiplies({1, 1, 1, false, false, /*bias=*/true, relu});
    for (const int64_t rows : {1, 9, 300}) {
      ProductShape shape = {rows, 5, 33, false, false, /*bias=*/true, relu};
      shape.precision = Precision::kBfloat16;
      shape.narrow_result = true;
      ExpectMultiplies(shape, /*extra_tolerance=*/0x1p-6);  // The product is rounded, too.
    }
  }
}

TEST_F(ProductsTest, WhatIsChosenIsSaidOnceForEachShape) {
  EXPECT_THAT(products_->Chosen(), IsEmpty());
  ProductShape shape = {2, 3, 5, /*transpose_a=*/true, /*transpose_b=*/true, /*bias=*/true};
  shape.precision = Precision::kTf32;
  products_->Prepare(shape);
  products_->Prepare({1, 3, 5});
  products_->Prepare(shape);
  cuda_emulation::SetKnownProducts(cuda_emulation::KnownProducts::kUndivided);
  products_->Prepare({3, 3, 5});
  cuda_emulation::SetKnownProducts(cuda_emulation::KnownProducts::kWithoutBias);
  products_->Prepare({4, 3, 5, false, false, /*bias=*/true});
  const std::string divided =
      "algorithm 21, tile 0, stages 0, split-K 2, reduction 2, swizzling 0, option 0, inner shape "
      "0, cluster shape 0";
  const std::string undivided =
      "algorithm 20, tile 0, stages 0, split-K 1, reduction 0, swizzling 0, option 0, inner shape "
      "0, cluster shape 0";
  ProductShape narrow = {5, 3, 5, false, false, /*bias=*/true};
  narrow.precision = Precision::kBfloat16;
  narrow.narrow_result = true;
  products_->Prepare(narrow);
  EXPECT_THAT(products_->Chosen(),
              ElementsAre("1 x 3 by 3 x 5, float32: " + divided,
                          "2 x 3 by 3 x 5, a transposed, b transposed, with bias, tf32: " + divided,
                          "3 x 3 by 3 x 5, float32: " + undivided,
                          "4 x 3 by 3 x 5, bias after it, float32: " + divided,
                          "5 x 3 by 3 x 5, bias after it, bfloat16, to bfloat16: " + divided));
}

// Whatever the order: an algorithm that adds up partial sums in bfloat16 would lose digits.
TEST_F(ProductsTest, PartialSumsOfNarrowResultsAreOfFloat32InAnyOrder) {
  products_ = Products::Make(/*stream=*/nullptr, /*deterministic=*/false);
  ProductShape shape = {2, 3, 5};
  shape.precision = Precision::kBfloat16;
  shape.narrow_result = true;
  products_->Prepare(shape);
  EXPECT_THAT(products_->Chosen(), ElementsAre(HasSubstr("split-K 2, reduction 2")));
}

TEST_F(ProductsTest, AProductWithoutAnyAlgorithmIsNamed) {
  cuda_emulation::SetKnownProducts(cuda_emulation::KnownProducts::kNone);
  ProductShape shape = {2, 3, 5, false, false, /*bias=*/true};
  shape.precision = Precision::kTf32;
  const Error error = ErrorOf([&] { products_->Prepare(shape); });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_STREQ(
      error.what(),
      "cublasLtMatmulAlgoGetHeuristic of 2 x 3 by 3 x 5 in tf32: it has no algorithm whose "
      "sums have one order");
}

TEST_F(ProductsTest, ALaunchThatFailsIsNoLossOfTheDevice) {
  const auto values = OnDevice(gpu_.get(), std::vector<float>(16, 1.0f));
  float* const at = values->As();
  products_->Prepare({2, 2, 2});
  cuda_emulation::FailLaunch(1);
  const Error error = ErrorOf([&] {
    products_->Multiply({2, 2, 2}, at, at, nullptr, at + 8, workspace_.As());
  });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_THAT(error.what(), HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED"));
}

TEST_F(ProductsTest, WhatCannotBeMultipliedIsAnErrorWhenItIsPrepared) {
  const Error error = ErrorOf([&] { products_->Prepare({0, 3, 5}); });
  EXPECT_EQ(error.kind(), Error::kOther);
  EXPECT_THAT(error.what(), HasSubstr("cublasLtMatmulAlgoGetHeuristic of 0 x 3 by 3 x 5: CUBLAS_"));
}

TEST_F(ProductsTest, LostDeviceIsLost) {
  const auto values = OnDevice(gpu_.get(), std::vector<float>(16, 1.0f));
  float* const at = values->As();
  products_->Prepare({2, 2, 2});
  cuda_emulation::LoseDevice();
  EXPECT_EQ(ErrorOf([&] {
              products_->Multiply({2, 2, 2}, at, at, nullptr, at + 8, workspace_.As());
            }).kind(),
            Error::kLost);
  cuda_emulation::Reset();
}

}  // namespace
}  // namespace millrace::cuda
