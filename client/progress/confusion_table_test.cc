#include "client/progress/confusion_table.h"

#include <initializer_list>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;

ConfusionMatrix MatrixOf(uint32_t classes, std::initializer_list<uint64_t> counts) {
  ConfusionMatrix matrix;
  matrix.set_classes(classes);
  for (const uint64_t count : counts) matrix.add_counts(count);
  return matrix;
}

TEST(ConfusionTableTest, ColumnsAreAsWideAsTheLargestNumber) {
  ConfusionMatrix matrix = MatrixOf(2, {1234567, 29, 12, 4988});
  matrix.set_output("digits\n");
  EXPECT_THAT(ConfusionTable(matrix),
              ElementsAre("confusion matrix of digits\\x0a (rows: labels, columns: what the model "
                          "says):",
                          "               0          1",  //
                          "    0  1,234,567         29",  //
                          "    1         12      4,988"));
}

TEST(ConfusionTableTest, WhatIsTooLargeOrNotWholeIsNoTable) {
  ConfusionMatrix large = MatrixOf(31, {});
  large.mutable_counts()->Resize(31 * 31, 1);
  EXPECT_THAT(ConfusionTable(large),
              ElementsAre("confusion matrix: 31 classes; --json has the numbers"));
  EXPECT_THAT(ConfusionTable(MatrixOf(3, {1, 2})),
              ElementsAre("confusion matrix: 3 classes; --json has the numbers"));
}

TEST(ConfusionTableTest, JsonHasRows) {
  EXPECT_EQ(ConfusionJson(MatrixOf(2, {1, 2, 3, 4})).dump(),
            R"({"output":"","counts":[[1,2],[3,4]]})");
  EXPECT_EQ(ConfusionJson(MatrixOf(3, {1})).dump(), R"({"output":"","counts":[]})");
}

}  // namespace
}  // namespace millrace::client
