#include "testing/cuda_emulation/tensor_cores.h"

#include <cuda_bf16.h>
#include <mma.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "testing/cuda_emulation/device_vector.h"
#include "testing/cuda_emulation/test_tensor_kernels.h"

namespace cuda_emulation {
namespace {

constexpr uint64_t kOrders = 12;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

size_t DepthOf(FactorKind kind) { return kind == FactorKind::kBfloat16 ? 16 : 8; }

class TensorCoresTest : public ::testing::Test {
 protected:
  TensorCoresTest() { Reset(); }

  // a b + 1.
  static std::vector<float> Product(FactorKind kind, const std::vector<float>& a,
                                    const std::vector<float>& b,
                                    TensorError error = TensorError::kNone) {
    const DeviceVector<float> on_device_a(a), on_device_b(b), c(256);
    EXPECT_EQ(
        LaunchTensorProduct(nullptr, kind, error, on_device_a.data(), on_device_b.data(), c.data()),
        cudaSuccess);
    return c.Values();
  }

  // Of whole numbers that are exact in every type.
  static std::vector<float> Numbers(FactorKind kind, int first) {
    std::vector<float> numbers(16 * DepthOf(kind));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(static_cast<int>((i * 7 + first) % 23) - 11);
    }
    return numbers;
  }

  static std::vector<float> Expected(FactorKind kind, const std::vector<float>& a,
                                     const std::vector<float>& b) {
    const size_t depth = DepthOf(kind);
    std::vector<float> c(256, 1);
    for (size_t i = 0; i < 256; ++i) {
      for (size_t k = 0; k < depth; ++k) c[i] += a[i / 16 * depth + k] * b[k * 16 + i % 16];
    }
    return c;
  }

  // One product of factors, the others 0.
  static float One(FactorKind kind, float a, float b) {
    std::vector<float> all_a(16 * DepthOf(kind)), all_b(16 * DepthOf(kind));
    all_a[0] = a;
    all_b[0] = b;
    return Product(kind, all_a, all_b)[0] - 1;
  }

  static bool IsRightInEveryOrder(TensorError error) {
    const std::vector<float> a = Numbers(FactorKind::kTf32, 1), b = Numbers(FactorKind::kTf32, 2);
    for (uint64_t order = 0; order < kOrders; ++order) {
      SetOrder(order);
      Product(FactorKind::kTf32, b, a);  // Of which shared memory may still hold something.
      if (Product(FactorKind::kTf32, a, b, error) != Expected(FactorKind::kTf32, a, b))
        return false;
    }
    return true;
  }
};

TEST_F(TensorCoresTest, ProductsAreThoseOfTheDefinition) {
  for (FactorKind kind : {FactorKind::kTf32, FactorKind::kCutOff, FactorKind::kBfloat16}) {
    const std::vector<float> a = Numbers(kind, 3), b = Numbers(kind, 5);
    EXPECT_EQ(Product(kind, a, b), Expected(kind, a, b));
  }
}

TEST_F(TensorCoresTest, FactorsHaveTheBitsOfTheirType) {
  const float third = std::exp2(-10.0f) * 0.75f;  // Of the distance of two TF32 beside 1.
  EXPECT_EQ(One(FactorKind::kTf32, 1 + third, 4), 4 + 4 * std::exp2(-10.0f));
  EXPECT_EQ(One(FactorKind::kCutOff, 1 + third, 4), 4);
  EXPECT_EQ(One(FactorKind::kBfloat16, 1 + std::exp2(-7.0f) * 0.75f, 4), 4 + 4 * std::exp2(-7.0f));
  EXPECT_EQ(One(FactorKind::kBfloat16, 1 + third, 4), 4);
}

TEST_F(TensorCoresTest, RoundingIsToTheNearest) {
  using nvcuda::wmma::__float_to_tf32;
  const float ulp = std::exp2(-10.0f);
  EXPECT_EQ(__float_to_tf32(1 + ulp / 2), 1 + ulp);
  EXPECT_EQ(__float_to_tf32(-1 - ulp / 2), -1 - ulp);
  EXPECT_EQ(__float_to_tf32(1 + ulp * 0.499f), 1);
  EXPECT_EQ(__float_to_tf32(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(__float_to_tf32(std::nanf(""))));
  const auto bfloat16 = [](float value) { return __bfloat162float(__float2bfloat16_rn(value)); };
  EXPECT_EQ(bfloat16(1 + 4 * ulp), 1);
  EXPECT_EQ(bfloat16(1 + 12 * ulp), 1 + 16 * ulp);
  EXPECT_EQ(bfloat16(1 + 4.01f * ulp), 1 + 8 * ulp);
  EXPECT_EQ(bfloat16(-kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(bfloat16(std::nanf(""))));
}

TEST_F(TensorCoresTest, WhatIsNoNumberShows) {
  EXPECT_TRUE(std::isnan(One(FactorKind::kTf32, std::nanf(""), 0)));
  EXPECT_TRUE(std::isnan(One(FactorKind::kBfloat16, std::nanf(""), 0)));
  EXPECT_EQ(One(FactorKind::kTf32, kInfinity, 2), kInfinity);
}

TEST_F(TensorCoresTest, MissingBarriersShowInSomeOrder) {
  EXPECT_TRUE(IsRightInEveryOrder(TensorError::kNone));
  EXPECT_FALSE(IsRightInEveryOrder(TensorError::kNoBarrierBeforeLoad));
  EXPECT_FALSE(IsRightInEveryOrder(TensorError::kNoBarrierAfterStore));
}

TEST_F(TensorCoresTest, WhatAGpuForbidsIsReported) {
  const auto run = [](TensorError error) {
    Product(FactorKind::kTf32, Numbers(FactorKind::kTf32, 1), Numbers(FactorKind::kTf32, 2), error);
  };
  EXPECT_DEATH(run(TensorError::kUnaligned), "not aligned to 32 bytes \\(at .*test_tensor_kernels");
  EXPECT_DEATH(run(TensorError::kOddPitch), "are 92 bytes apart; must be a multiple of 16");
  EXPECT_DEATH(run(TensorError::kLaneIsAway),
               "mma_sync \\(at .* while thread \\(7, 0, 0\\) has ended");
}

}  // namespace
}  // namespace cuda_emulation
