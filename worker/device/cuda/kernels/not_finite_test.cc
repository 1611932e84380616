// How a GPU notes that values are infinite or NaN.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/kernels/testing/gpu_fixture.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"

namespace millrace::cuda {
namespace {

using worker::DeviceMemory;
using worker::kInfinity;
using worker::kNan;
using worker::OnDevice;

constexpr float kLargest = std::numeric_limits<float>::max();

class NotFiniteTest : public GpuTest {
 protected:
  // What becomes of `mark` when `count` values are looked at, from `first` on.
  uint64_t MarkOf(const std::vector<float>& values, size_t first, size_t count,
                  uint64_t mark = 2 * 77) {
    const auto on_device = OnDevice(gpu_.get(), values);
    // A neighbour on each side stays as it is.
    const auto marks = OnDevice<uint64_t>(gpu_.get(), {2, mark, 4});
    gpu_->MarkNotFinite(Stream::kCompute, on_device->As() + first, count,
                        marks->As<uint64_t>() + 1);
    const std::vector<uint64_t> after = marks->Values<uint64_t>();
    EXPECT_EQ(after[0], 2u);
    EXPECT_EQ(after[2], 4u);
    return after[1];
  }

  // Among them the largest, the smallest, and both zeros.
  std::vector<float> FiniteValues(size_t count) {
    const float few[] = {kLargest,
                         -kLargest,
                         0.0f,
                         -0.0f,
                         std::numeric_limits<float>::min(),
                         std::numeric_limits<float>::denorm_min()};
    std::vector<float> values(count);
    for (float& value : values) {
      const auto choice = random_();
      value = choice % 2 == 0 ? few[choice / 2 % std::size(few)] : static_cast<float>(choice);
    }
    return values;
  }

  std::mt19937 random_{7};
};

TEST_F(NotFiniteTest, OneValueAtAnyPlaceOfAnyNumberIsNoted) {
  for (const size_t count : {1, 2, 3, 4, 5, 8, 255, 1021, 1024, 1027}) {
    for (const size_t first : {0, 1, 3, 4}) {
      SCOPED_TRACE(testing::Message() << count << " from " << first);
      std::vector<float> values = FiniteValues(first + count + 1);
      EXPECT_EQ(MarkOf(values, first, count), 2 * 77);
      for (const size_t place : {size_t{0}, count - 1, random_() % count}) {
        for (const float bad : {kInfinity, -kInfinity, kNan}) {
          const float before = std::exchange(values[first + place], bad);
          EXPECT_EQ(MarkOf(values, first, count), 2 * 77 + 1) << bad << " at " << place;
          values[first + place] = before;
        }
      }
    }
  }
}

TEST_F(NotFiniteTest, WhatStandsBeforeAndBehindIsNotLookedAt) {
  for (const size_t count : {0, 1, 3, 4, 5, 1023}) {
    for (const size_t first : {1, 4}) {
      std::vector<float> values = FiniteValues(first + count + 1);
      values[first - 1] = kNan;
      values[first + count] = kInfinity;
      EXPECT_EQ(MarkOf(values, first, count), 2 * 77) << count << " from " << first;
    }
  }
}

TEST_F(NotFiniteTest, WhatIsNotedStays) {
  EXPECT_EQ(MarkOf({1, 2, 3, 4}, 0, 4, /*mark=*/2 * 77 + 1), 2 * 77 + 1);
  EXPECT_EQ(MarkOf({1, 2, kNan, 4}, 0, 4, /*mark=*/2 * 77 + 1), 2 * 77 + 1);
}

TEST_F(NotFiniteTest, OfMoreValuesThanThreadsEachIsLookedAt) {
  constexpr size_t kMany = 4 * 3 * 512 * 256 + 1003;
  std::vector<float> values(kMany, kLargest);
  EXPECT_EQ(MarkOf(values, 0, kMany), 2 * 77);
  EXPECT_EQ(MarkOf(values, 1, kMany - 1), 2 * 77);
  for (const size_t place : {size_t{1}, kMany / 2, kMany - 1}) {
    values[place] = kNan;
    for (const size_t first : {0, 1}) {
      EXPECT_EQ(MarkOf(values, first, kMany - first), 2 * 77 + 1) << place << " from " << first;
    }
    values[place] = 1;
  }
  EXPECT_EQ(MarkOf(std::vector<float>(kMany, -kInfinity), 0, kMany), 2 * 77 + 1);
}

// A thread loads several times before it looks, and what is left over one by one.
TEST_F(NotFiniteTest, EachOfTheLoadsOfAThreadIsLookedAt) {
  constexpr size_t kOfOneLoad = size_t{4} * 64 * 256;  // Of all threads together.
  std::vector<float> values(10 * kOfOneLoad + 3, kLargest);
  EXPECT_EQ(MarkOf(values, 0, values.size()), 2 * 77);
  for (size_t place = 5; place < values.size(); place += kOfOneLoad) {
    values[place] = kInfinity;
    EXPECT_EQ(MarkOf(values, 0, values.size()), 2 * 77 + 1) << place;
    values[place] = 1;
  }
}

TEST_F(NotFiniteTest, OfNoValuesNothingIsLaunched) {
  MILLRACE_NEEDS_EMULATION();
  const uint64_t before = cuda_emulation::Counted().launches;
  EXPECT_EQ(MarkOf({1}, 0, 0), 2 * 77);
  EXPECT_EQ(cuda_emulation::Counted().launches, before);
}

}  // namespace
}  // namespace millrace::cuda
