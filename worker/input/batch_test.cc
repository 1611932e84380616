#include "worker/input/batch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BatchTest, ExamplesOfABatchHaveTheirPartOfEachList) {
  Batch batch;
  batch.size = 4;
  batch.features.resize(3);
  batch.features[0].floats = {0, 1, 2, 3, 4, 5, 6, 7};
  batch.features[1].ids = {10, 11, 12, 13, 14};
  batch.features[1].ends = {2, 2, 4, 5};
  batch.features[2].bytes = {1, 2, 3, 4};
  batch.labels = {IdTensor({20, 21, 22, 23})};
  batch.weights = {0.5f, 1.5f, 2.5f, 3.5f};

  const Batch middle = ExamplesOf(batch, 1, 3);
  EXPECT_EQ(middle.size, 2u);
  EXPECT_THAT(middle.features[0].floats, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(middle.features[1].ids, ElementsAre(12, 13));
  EXPECT_THAT(middle.features[1].ends, ElementsAre(0, 2));
  EXPECT_THAT(middle.features[2].bytes, ElementsAre(2, 3));
  EXPECT_THAT(middle.labels[0].ids, ElementsAre(21, 22));
  EXPECT_THAT(middle.weights, ElementsAre(1.5f, 2.5f));

  const Batch second = ExamplesOf(batch, 1, 2);
  EXPECT_THAT(second.features[1].ids, IsEmpty());
  EXPECT_THAT(second.features[1].ends, ElementsAre(0));
}

// Nobody says how much its examples count.
TEST(BatchTest, ListsThatAreEmptyStayEmpty) {
  Batch batch;
  batch.size = 2;
  batch.features = {IdTensor({})};
  batch.features[0].ends = {0, 0};
  const Batch last = ExamplesOf(batch, 1, 2);
  EXPECT_THAT(last.features[0].ends, ElementsAre(0));
  EXPECT_THAT(last.features[0].ids, IsEmpty());
  EXPECT_THAT(last.weights, IsEmpty());
}

}  // namespace
}  // namespace millrace::worker
