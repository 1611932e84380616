#include "worker/input/csv/csv_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/input_file.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rows = std::vector<std::vector<std::string>>;

class CsvReaderTest : public ::testing::Test {
 protected:
  // All rows, or the first error.
  absl::StatusOr<Rows> Read(const std::string& content) {
    millrace::testing::WriteTestFile(directory_, "t.csv", content);
    InputFile file = InputFile::Open(directory_, "t.csv", "files[0]").value();
    CsvReader reader(&file, syntax_);
    Rows rows;
    places_.clear();
    while (true) {
      const absl::StatusOr<bool> more = reader.Next();
      if (!more.ok()) return more.status();
      if (!*more) return rows;
      rows.emplace_back();
      for (size_t i = 0; i < reader.size(); ++i) {
        rows.back().emplace_back(reader.text(i));
        places_.push_back(absl::StrCat(reader.place(i).line, ":", reader.place(i).column));
      }
    }
  }

  std::string ErrorOf(const std::string& content) {
    const absl::Status status = Read(content).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
  CsvSyntax syntax_;
  std::vector<std::string> places_;  // Of all fields that were read.
};

TEST_F(CsvReaderTest, ReadsRowsWithEitherLineEnd) {
  EXPECT_THAT(Read("a,b\r\nc,d\n").value(),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(Read("a,b\nc,d").value(), ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(Read("a\r").value(), ElementsAre(ElementsAre("a")));
}

TEST_F(CsvReaderTest, FieldsMayBeEmpty) {
  EXPECT_THAT(Read(",\na,,\n\"\"\n").value(),
              ElementsAre(ElementsAre("", ""), ElementsAre("a", "", ""), ElementsAre("")));
}

TEST_F(CsvReaderTest, BlankLinesAreNoRows) {
  EXPECT_THAT(Read("\n\r\na\n\n").value(), ElementsAre(ElementsAre("a")));
  EXPECT_THAT(Read("").value(), IsEmpty());
}

TEST_F(CsvReaderTest, QuotedFieldsHoldDelimitersQuotesAndLineEnds) {
  EXPECT_THAT(Read("\"a,\"\"b\"\"\",\"c\r\nd\n\"\ne,f\n").value(),
              ElementsAre(ElementsAre("a,\"b\"", "c\r\nd\n"), ElementsAre("e", "f")));
  EXPECT_THAT(places_, ElementsAre("1:1", "1:11", "4:1", "4:3"));
}

TEST_F(CsvReaderTest, ByteOrderMarkIsPassedOver) {
  EXPECT_THAT(Read("\xef\xbb\xbf\"a\",b\n").value(), ElementsAre(ElementsAre("a", "b")));
}

TEST_F(CsvReaderTest, CommentsAreNoRows) {
  syntax_.comment = "|1x3";
  EXPECT_THAT(Read("|1x3 \"Cross\na\n|1\n|1x3").value(),
              ElementsAre(ElementsAre("a"), ElementsAre("|1")));
}

TEST_F(CsvReaderTest, InitialSpacesCanBeSkipped) {
  EXPECT_THAT(Read("a, b\n").value(), ElementsAre(ElementsAre("a", " b")));
  syntax_.skip_initial_space = true;
  EXPECT_THAT(Read("a, b ,  \"c\"\n").value(), ElementsAre(ElementsAre("a", "b ", "c")));
  EXPECT_THAT(places_, ElementsAre("1:1", "1:4", "1:9"));
}

TEST_F(CsvReaderTest, OtherDelimitersAndPlainQuotes) {
  syntax_.delimiter = '\t';
  syntax_.quotes = false;
  EXPECT_THAT(Read("5\"\t\"a,b\n").value(), ElementsAre(ElementsAre("5\"", "\"a,b")));
}

TEST_F(CsvReaderTest, QuotesThatDoNotMatchAreRefusedWithTheirPlace) {
  EXPECT_THAT(ErrorOf("a,b\nc,d\"e\n"), HasSubstr("t.csv:2:4: a quote within a field"));
  EXPECT_THAT(ErrorOf("a\n\nb,\"c\nd\n"),
              HasSubstr("t.csv:3:3: a field in quotes that has no end"));
  EXPECT_THAT(ErrorOf("\"a\"b\n"), HasSubstr("t.csv:1:4: a field goes on after its last quote"));
}

TEST_F(CsvReaderTest, RowsHaveLimits) {
  EXPECT_THAT(ErrorOf("a\n" + std::string(CsvReader::kMaxRowBytes + 1, 'x')),
              HasSubstr("t.csv:2:1: a row longer than 16777216 bytes"));
  EXPECT_THAT(ErrorOf(std::string(CsvReader::kMaxFields, ',')),
              HasSubstr("a row of more than 1048576 fields"));
}

TEST_F(CsvReaderTest, RowsGoOnBeyondTheBuffer) {
  const std::string word(100'000, 'w');
  EXPECT_THAT(Read(absl::StrCat(word, ",\"", word, "\"\r\n", word)).value(),
              ElementsAre(ElementsAre(word, word), ElementsAre(word)));
}

TEST_F(CsvReaderTest, CorruptCompressedFileIsNotTakenForItsEnd) {
  std::string compressed = millrace::testing::Gzip("a,b\n\"c");
  compressed.resize(compressed.size() - 4);
  EXPECT_THAT(ErrorOf(compressed), HasSubstr("truncated"));
}

}  // namespace
}  // namespace millrace::worker
