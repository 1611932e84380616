#include "ps/dense/finite.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/wire/encoding.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

// The bytes in slices of `slice_bytes` each, so that floats straddle them.
FloatSlices MakeSlices(const std::vector<float>& values, size_t slice_bytes) {
  const char* const bytes = reinterpret_cast<const char*>(values.data());
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < values.size() * sizeof(float); begin += slice_bytes) {
    slices.emplace_back(bytes + begin,
                        std::min(slice_bytes, values.size() * sizeof(float) - begin));
  }
  return FloatSlices(std::move(slices));
}

TEST(FiniteTest, FindsNothingInNumbers) {
  std::vector<float> values(1001, std::numeric_limits<float>::max());
  values[7] = std::numeric_limits<float>::denorm_min();
  values[8] = -0.0f;
  values[9] = std::numeric_limits<float>::lowest();
  for (const size_t slice_bytes : {3, 64, 100'000}) {
    EXPECT_FALSE(FindNotFinite(MakeSlices(values, slice_bytes)).has_value());
  }
  EXPECT_FALSE(FindNotFinite(FloatSlices()).has_value());
}

TEST(FiniteTest, FindsTheFirstThatIsNone) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const size_t index : {0, 1, 500, 1000}) {
      std::vector<float> values(1001, 1.0f);
      values[index] = bad;
      values[1000] = bad;
      for (const size_t slice_bytes : {3, 64, 100'000}) {
        const auto found = FindNotFinite(MakeSlices(values, slice_bytes));
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->index, index);
        EXPECT_FALSE(std::isfinite(found->value));
      }
    }
  }
}

TEST(FiniteTest, FindsTheFirstOfTwoBytesThatIsNone) {
  for (const auto encoding : {Encoding::FLOAT16, Encoding::BFLOAT16}) {
    std::vector<float> values(3001, 1.0f);
    std::vector<char> bytes(values.size() * 2);
    for (const size_t index : {0, 1, 1500, 3000}) {
      values.assign(3001, 1.0f);
      const auto found_in = [&](size_t slice_bytes) {
        EXPECT_EQ(Narrow(values, encoding, bytes.data()), values.size());
        std::vector<grpc::Slice> slices;
        for (size_t begin = 0; begin < bytes.size(); begin += slice_bytes) {
          slices.emplace_back(&bytes[begin], std::min(slice_bytes, bytes.size() - begin));
        }
        return FindNotFinite(FloatSlices(std::move(slices), encoding));
      };
      EXPECT_FALSE(found_in(100'000).has_value());
      values[index] = -std::numeric_limits<float>::infinity();
      values[3000] = values[index];
      for (const size_t slice_bytes : {3, 64, 100'000}) {
        const auto found = found_in(slice_bytes);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->index, index);
        EXPECT_EQ(found->value, values[index]);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::ps
