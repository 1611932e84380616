#include "worker/input/line_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/input_file.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> LinesOf(const std::string& content) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  millrace::testing::WriteTestFile(directory, "text", content);
  InputFile file = InputFile::Open(directory, "text", "field").value();
  LineReader reader(&file);
  std::vector<std::string> lines;
  while (reader.Next().value()) {
    lines.emplace_back(reader.line());
    EXPECT_EQ(reader.number(), lines.size());
  }
  return lines;
}

TEST(LineReaderTest, EmptyFileHasNoLines) { EXPECT_THAT(LinesOf(""), IsEmpty()); }

TEST(LineReaderTest, LastLineNeedsNoEnd) {
  EXPECT_THAT(LinesOf("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(LinesOf("a\nb"), ElementsAre("a", "b"));
}

TEST(LineReaderTest, KeepsEmptyLines) {
  EXPECT_THAT(LinesOf("\n\na\n\n"), ElementsAre("", "", "a", ""));
}

TEST(LineReaderTest, TakesOffCarriageReturns) {
  EXPECT_THAT(LinesOf("a\r\nb\r"), ElementsAre("a", "b"));
}

TEST(LineReaderTest, ByteOrderMarkIsNoPartOfTheFirstLine) {
  const std::string mark(kByteOrderMark);
  EXPECT_THAT(LinesOf(mark + "a\n" + mark + "b\n"), ElementsAre("a", mark + "b"));
  EXPECT_THAT(LinesOf("\xef\xbb"), ElementsAre("\xef\xbb"));
}

TEST(LineReaderTest, LinesMayBeLongerThanTheBufferAndStraddleItsEnd) {
  const std::string longest(200'000, 'x');
  std::string content;
  std::vector<std::string> wanted;
  for (int i = 0; i < 5000; ++i) {
    wanted.push_back(std::string(i % 97, static_cast<char>('a' + i % 26)));
    if (i % 1000 == 500) wanted.push_back(longest);
  }
  for (const std::string& line : wanted) content += line + "\n";
  EXPECT_EQ(LinesOf(content), wanted);
}

TEST(LineReaderTest, ErrorsOfTheFileArePassedOn) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  const std::string compressed = millrace::testing::Gzip("a\nb\n");
  millrace::testing::WriteTestFile(directory, "text", compressed.substr(0, compressed.size() - 1));
  InputFile file = InputFile::Open(directory, "text", "field").value();
  LineReader reader(&file);
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::worker
