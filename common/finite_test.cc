#include "common/finite.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(FiniteTest, FindsTheFirstValueThatIsNoNumberWhereverItStands) {
  const float kBad[] = {
      std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::signaling_NaN()};
  for (const size_t size : {1, 7, 1023, 1024, 1025, 5000}) {
    for (const float bad : kBad) {
      for (const size_t place : {size_t{0}, size / 2, size - 1}) {
        std::vector<float> values(size, 1.0f);
        values[place] = bad;
        values[size - 1] = bad;
        EXPECT_EQ(FirstNotFinite(values), place) << size;
      }
    }
  }
}

TEST(FiniteTest, ExtremeNumbersAreNumbers) {
  std::vector<float> values(3000, std::numeric_limits<float>::max());
  values[0] = std::numeric_limits<float>::lowest();
  values[1] = std::numeric_limits<float>::denorm_min();
  values[2] = -0.0f;
  EXPECT_EQ(FirstNotFinite(values), values.size());
  EXPECT_EQ(FirstNotFinite({}), 0u);
}

}  // namespace
}  // namespace millrace
