#include "worker/input/libsvm_line.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kFeatures = 123;

LibsvmLine Parse(const std::string& line) {
  LibsvmLine parsed;
  const absl::optional<LibsvmError> error = ParseLibsvmLine(line, kFeatures, &parsed);
  EXPECT_FALSE(error.has_value()) << line << ": " << error->column << ": " << error->message;
  return parsed;
}

// "COLUMN: MESSAGE".
std::string ErrorOf(const std::string& line) {
  LibsvmLine parsed;
  const absl::optional<LibsvmError> error = ParseLibsvmLine(line, kFeatures, &parsed);
  return error.has_value() ? absl::StrCat(error->column, ": ", error->message) : "none";
}

TEST(LibsvmLineTest, ReadsLabelIndicesAndValues) {
  const LibsvmLine line = Parse("3 1:0.5 7:-2e3 123:1");
  EXPECT_EQ(line.label, 3);
  EXPECT_THAT(line.indices, ElementsAre(0, 6, 122));
  EXPECT_THAT(line.values, ElementsAre(0.5f, -2000.0f, 1.0f));
}

TEST(LibsvmLineTest, SignsAndWholeDecimalsAreLabels) {
  EXPECT_EQ(Parse("+1 1:1").label, 1);
  EXPECT_EQ(Parse("-1 1:1").label, -1);
  EXPECT_EQ(Parse("2.0 1:+1").label, 2);
}

TEST(LibsvmLineTest, AnExampleMayHaveNoValues) {
  const LibsvmLine line = Parse("0");
  EXPECT_EQ(line.label, 0);
  EXPECT_THAT(line.indices, IsEmpty());
}

TEST(LibsvmLineTest, BlanksAndTabsSeparate) {
  EXPECT_THAT(Parse(" \t1\t 2:1  3:1 ").indices, ElementsAre(1, 2));
}

TEST(LibsvmLineTest, CommentsAndBlankLinesAreIgnored) {
  EXPECT_FALSE(Parse("").label.has_value());
  EXPECT_FALSE(Parse("   ").label.has_value());
  EXPECT_FALSE(Parse("# 1 1:1").label.has_value());
  EXPECT_THAT(Parse("1 2:1# 3:1").indices, ElementsAre(1));
}

TEST(LibsvmLineTest, ReplacesWhatWasParsedBefore) {
  LibsvmLine parsed = Parse("1 1:1 2:1");
  EXPECT_FALSE(ParseLibsvmLine("0 3:1", kFeatures, &parsed).has_value());
  EXPECT_EQ(parsed.label, 0);
  EXPECT_THAT(parsed.indices, ElementsAre(2));
}

TEST(LibsvmLineTest, LabelsThatAreNotClassesAreRefused) {
  for (const std::string label : {"0.5", "-2", "nan", "2147483647", "1e300", "+-1", "1:1"}) {
    EXPECT_THAT(ErrorOf(label + " 1:1"), HasSubstr("1: the label is '" + label + "'"));
  }
  for (const std::string label : {"x", "inf", "1x"}) {
    EXPECT_THAT(ErrorOf(label + " 1:1"), HasSubstr("1: the label is a word of "));
  }
}

// A job that named /etc/passwd as its data was once told how the file begins.
TEST(LibsvmLineTest, WordsThatAreNoNumbersAreNotShown) {
  EXPECT_EQ(
      ErrorOf("root:x:0:0"),
      "1: the label is a word of 10 bytes that is no number; labels are whole numbers from 0, "
      "or -1 and +1");
  for (const std::string line : {"1 secret", "1 secret:1", "1 1:secret", "1 2:0x5ec\x1b"}) {
    EXPECT_THAT(ErrorOf(line), ::testing::Not(HasSubstr("sec"))) << line;
    EXPECT_THAT(ErrorOf(line), ::testing::Not(HasSubstr("5ec"))) << line;
  }
}

TEST(LibsvmLineTest, IndicesOutsideTheFeaturesAreRefused) {
  EXPECT_EQ(ErrorOf("1 0:1"), "3: index '0'; must be 1 to 123, the number of features");
  EXPECT_EQ(ErrorOf("1 1:1 124:1"), "7: index '124'; must be 1 to 123, the number of features");
  EXPECT_THAT(ErrorOf("1 4294967297:1"), HasSubstr("index '4294967297'"));
}

TEST(LibsvmLineTest, IndicesMustIncrease) {
  EXPECT_EQ(ErrorOf("1 5:1 4:1"), "7: index 4 after index 5; indices must increase");
  EXPECT_THAT(ErrorOf("1 5:1 5:1"), HasSubstr("index 5 after index 5"));
}

TEST(LibsvmLineTest, ValuesTooSmallForTheirTypeAreZero) {
  for (const std::string value : {"1e-50", "1e-400", "-1e-400", "0.1e-99999", "1e-310"}) {
    LibsvmLine line;
    EXPECT_FALSE(ParseLibsvmLine("1 2:" + value, 10, &line).has_value()) << value;
    EXPECT_EQ(line.values, std::vector<float>{0}) << value;
  }
}

TEST(LibsvmLineTest, ValuesThatAreNotFiniteFloatsAreRefused) {
  for (const std::string value : {"", "nan", "1e39", "1e400", "-1e400", "++1"}) {
    EXPECT_THAT(ErrorOf("1 2:" + value), HasSubstr("5: the value of index 2 is '" + value + "'"));
  }
  for (const std::string value : {"x", "inf", "-inf", "1x", "0x10"}) {
    EXPECT_THAT(ErrorOf("1 2:" + value), HasSubstr("5: the value of index 2 is a word of "));
  }
}

TEST(LibsvmLineTest, GarbageIsRefusedWithItsColumn) {
  EXPECT_EQ(ErrorOf("1 1:1 garbage"),
            "7: a word of 7 bytes that is no number; expected INDEX:VALUE");
  EXPECT_THAT(ErrorOf("1 qid:3 1:1"), HasSubstr("; expected INDEX:VALUE"));
  EXPECT_THAT(ErrorOf("1 -1:1"), HasSubstr("expected INDEX:VALUE"));
  EXPECT_THAT(ErrorOf("1 12"), HasSubstr("expected INDEX:VALUE"));
  EXPECT_THAT(ErrorOf("1 :1"), HasSubstr("expected INDEX:VALUE"));
}

TEST(LibsvmLineTest, LongGarbageIsShownInPart) {
  EXPECT_THAT(ErrorOf("1 " + std::string(5000, '7')), HasSubstr("'77777777777777777777...'"));
}

}  // namespace
}  // namespace millrace::worker
