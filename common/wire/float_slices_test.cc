#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/tensor_codec.h"
#include "common/wire/wire_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::millrace::testing::Bytes;
using ::millrace::testing::CutAt;
using ::millrace::testing::CutInto;
using ::testing::ElementsAre;

// What the runs of `slices` add up to; each must follow the one before.
std::vector<float> Gather(const FloatSlices& slices) {
  std::vector<float> values;
  slices.ForEachRun([&values](size_t offset, const char* bytes, size_t count) {
    EXPECT_EQ(offset, values.size());
    EXPECT_GT(count, 0u);
    values.resize(offset + count);
    std::memcpy(values.data() + offset, bytes, count * sizeof(float));
  });
  return values;
}

TEST(FloatSlicesTest, EmptyHasNoRuns) {
  EXPECT_EQ(FloatSlices().size(), 0u);
  EXPECT_THAT(Gather(FloatSlices()), ElementsAre());
  FloatSlices().CopyTo({});
}

TEST(FloatSlicesTest, EveryCutGivesTheSameFloats) {
  const std::vector<float> values = {1, -2, 3.5, 1e-30f};
  const std::string bytes = Bytes(values);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      const FloatSlices slices(CutAt(bytes, {first, second}));
      EXPECT_EQ(slices.size(), values.size());
      EXPECT_EQ(Gather(slices), values) << first << " " << second;
      std::vector<float> copy(values.size());
      slices.CopyTo(absl::MakeSpan(copy));
      EXPECT_EQ(copy, values) << first << " " << second;
    }
  }
}

TEST(FloatSlicesTest, FloatSpreadOverSingleBytesIsPutTogether) {
  const std::vector<float> values = {7, 8};
  EXPECT_EQ(Gather(FloatSlices(CutInto(Bytes(values), 1))), values);
}

TEST(FloatSlicesTest, WholeSliceIsOneRun) {
  int runs = 0;
  const FloatSlices slices({grpc::Slice(Bytes({1, 2, 3}))});
  slices.ForEachRun([&runs](size_t, const char*, size_t count) {
    ++runs;
    EXPECT_EQ(count, 3u);
  });
  EXPECT_EQ(runs, 1);
}

TEST(FloatSlicesDeathTest, PartOfAFloatIsABug) {
  EXPECT_DEATH(FloatSlices({grpc::Slice(std::string("abc"))}), "whole number of floats");
}

}  // namespace
}  // namespace millrace
