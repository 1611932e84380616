// Functions of arrays that stand anywhere; what they compute is tested in activation_test.cc.
#include "worker/device/cuda/kernels/function.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
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

using worker::DeviceMemory;
using worker::FromNarrow;
using worker::OnDevice;
using worker::ToNarrow;

constexpr Function kElementwise[] = {Function::kRelu, Function::kSigmoid, Function::kTanh,
                                     Function::kRelu6, Function::kElu};
constexpr float kUntouched = 77;

class FunctionTest : public GpuTest {
 protected:
  void SetUp() override { MILLRACE_NEEDS_EMULATION(); }

  static std::vector<float> RandomValues(size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> distribution(-8, 8);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random);
    return values;
  }

  // Memory in which `values` stand from `offset` on, and others before and after them.
  std::unique_ptr<DeviceMemory> At(size_t offset, const std::vector<float>& values) const {
    std::vector<float> all(offset + values.size() + 5, kUntouched);
    std::copy(values.begin(), values.end(), all.begin() + static_cast<int64_t>(offset));
    return OnDevice(gpu_.get(), all);
  }

  // What stands there now; the others stay what they are.
  static std::vector<float> From(size_t offset, size_t count, DeviceMemory* memory) {
    const std::vector<float> all = memory->Values();
    const auto begin = all.begin() + static_cast<int64_t>(offset);
    const auto end = begin + static_cast<int64_t>(count);
    EXPECT_EQ(std::count(all.begin(), begin, kUntouched), offset);
    EXPECT_EQ(std::count(end, all.end(), kUntouched), 5);
    return {begin, end};
  }

  // y stands `shift` floats further behind an aligned place than x.
  std::vector<float> Applied(Function function, const std::vector<float>& values, size_t offset,
                             size_t shift) {
    const auto x = At(offset, values);
    const auto y = At(offset + shift, values);
    ApplyFunction(/*stream=*/nullptr, function, 1, static_cast<int64_t>(values.size()),
                  x->As() + offset, y->As() + offset + shift);
    return From(offset + shift, values.size(), y.get());
  }

  std::vector<float> AppliedInPlace(Function function, const std::vector<float>& values,
                                    size_t offset) {
    const auto x = At(offset, values);
    ApplyFunction(/*stream=*/nullptr, function, 1, static_cast<int64_t>(values.size()),
                  x->As() + offset);
    return From(offset, values.size(), x.get());
  }

  // In place.
  std::vector<float> Gradient(Function function, const std::vector<float>& y,
                              const std::vector<float>& dy, size_t offset, size_t shift) {
    const auto values = At(offset, y);
    const auto gradients = At(offset + shift, dy);
    float* const at = gradients->As() + offset + shift;
    ApplyGradient(/*stream=*/nullptr, function, 1, static_cast<int64_t>(y.size()),
                  values->As() + offset, at, at);
    return From(offset + shift, y.size(), gradients.get());
  }
};

TEST_F(FunctionTest, GivesTheSameBitsWhereverArraysStandAndInPlace) {
  for (const Function function : kElementwise) {
    for (const size_t count : {1, 2, 3, 4, 5, 31, 1023, 1028}) {
      const std::vector<float> values = RandomValues(count, count);
      const std::vector<float> dy = RandomValues(count, count + 1);
      const std::vector<float> expected = Applied(function, values, 1, 1);
      const std::vector<float> expected_gradient = Gradient(function, expected, dy, 1, 1);
      for (const size_t offset : {0, 1, 4}) {
        for (const size_t shift : {0, 1, 4}) {
          EXPECT_EQ(Applied(function, values, offset, shift), expected) << count;
          EXPECT_EQ(Gradient(function, expected, dy, offset, shift), expected_gradient) << count;
        }
        EXPECT_EQ(AppliedInPlace(function, values, offset), expected) << count;
      }
    }
  }
}

TEST_F(FunctionTest, TakesMoreThanAGridHasByFours) {
  const std::vector<float> values = RandomValues(4 * kMostBlocks * kThreads + 7, 1);
  std::vector<float> expected = values;
  for (float& value : expected) value = value < 0 ? 0 : value;
  EXPECT_EQ(AppliedInPlace(Function::kRelu, values, 0), expected);
  EXPECT_EQ(Gradient(Function::kRelu, expected, values, 0, 0), expected);
}

TEST_F(FunctionTest, OfNothingIsNoLaunch) {
  const uint64_t before = cuda_emulation::Counted().launches;
  ApplyFunction(/*stream=*/nullptr, Function::kTanh, 0, 5, nullptr, nullptr);
  ApplyGradient(/*stream=*/nullptr, Function::kTanh, 0, 5, nullptr, nullptr, nullptr);
  EXPECT_EQ(cuda_emulation::Counted().launches, before);
}

TEST_F(FunctionTest, NarrowGradientOfReluIsThatOfTheSameFloats) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{1023},
                             size_t{8} * kMostBlocks * kThreads + 11}) {
    const std::vector<uint16_t> y = ToNarrow(RandomValues(count, 1));
    const std::vector<uint16_t> dy = ToNarrow(RandomValues(count, 2));
    const auto narrow_y = OnDevice(gpu_.get(), y);
    const auto narrow_dy = OnDevice(gpu_.get(), dy);
    ApplyNarrowReluGradient(/*stream=*/nullptr, count, narrow_y->As<void>(), narrow_dy->As<void>());
    const auto floats_of_y = OnDevice(gpu_.get(), FromNarrow(y));
    const auto floats_of_dy = OnDevice(gpu_.get(), FromNarrow(dy));
    ApplyGradient(/*stream=*/nullptr, Function::kRelu, /*rows=*/1, static_cast<int64_t>(count),
                  floats_of_y->As(), floats_of_dy->As(), floats_of_dy->As());
    cudaDeviceSynchronize();
    EXPECT_EQ(FromNarrow(narrow_dy->Values<uint16_t>()), floats_of_dy->Values()) << count;
  }
  const auto values = OnDevice(gpu_.get(), std::vector<uint16_t>(16));
  EXPECT_THAT(ErrorOf([&] {
                ApplyNarrowReluGradient(/*stream=*/nullptr, 4, values->As<uint16_t>() + 1,
                                        values->As<void>());
              }).what(),
              testing::HasSubstr("not aligned to 16 bytes"));
}

}  // namespace
}  // namespace millrace::cuda
