#include "worker/input/input_file.h"

#include <sys/stat.h>

#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::Gzip;
using ::millrace::testing::MakeTestDirectory;
using ::millrace::testing::WriteTestFile;
using ::testing::AllOf;
using ::testing::HasSubstr;

class InputFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<InputFile> Open(const std::string& name) {
    return InputFile::Open(directory_, name, "data.train.idx.images");
  }

  // Opens and reads up to 1000 bytes of a file.
  absl::StatusOr<std::string> ReadFile(const std::string& name) {
    absl::StatusOr<InputFile> file = Open(name);
    if (!file.ok()) return file.status();
    std::string content(1000, '\0');
    const absl::StatusOr<size_t> got = file->Read(absl::MakeSpan(&content[0], content.size()));
    if (!got.ok()) return got.status();
    EXPECT_EQ(file->offset(), *got);
    content.resize(*got);
    return content;
  }

  std::string MessageOf(const std::string& name) {
    const absl::Status status = ReadFile(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = MakeTestDirectory();
};

TEST_F(InputFileTest, ReadsPlainFile) {
  WriteTestFile(directory_, "plain", "hello");
  EXPECT_EQ(ReadFile("plain").value(), "hello");
}

TEST_F(InputFileTest, RecognisesGzipByContentNotByName) {
  WriteTestFile(directory_, "compressed", Gzip("hello"));
  WriteTestFile(directory_, "plain.gz", "hello");
  EXPECT_EQ(ReadFile("compressed").value(), "hello");
  EXPECT_EQ(ReadFile("plain.gz").value(), "hello");
}

TEST_F(InputFileTest, FallsBackToGzWhereTheFileIsAbsent) {
  WriteTestFile(directory_, "images.gz", Gzip("hello"));
  EXPECT_EQ(ReadFile("images").value(), "hello");
  EXPECT_EQ(Open("images")->name(), "images.gz");
}

TEST_F(InputFileTest, PrefersTheFileAsNamed) {
  WriteTestFile(directory_, "images", "plain");
  WriteTestFile(directory_, "images.gz", Gzip("compressed"));
  EXPECT_EQ(ReadFile("images").value(), "plain");
  EXPECT_EQ(Open("images")->name(), "images");
}

TEST_F(InputFileTest, AbsoluteNameNeedsNoDirectory) {
  WriteTestFile(directory_, "plain", "hello");
  EXPECT_TRUE(InputFile::Open(std::string(), absl::StrCat(directory_, "/plain"), "field").ok());
}

TEST_F(InputFileTest, RelativeNameWithoutDirectoryAsksForDataFlag) {
  const absl::Status status =
      InputFile::Open(std::string(), "plain", "data.train.idx.images").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("data.directory"), HasSubstr("--data=DIR")));
}

TEST_F(InputFileTest, MissingFileIsNamedWithFieldAndPath) {
  EXPECT_THAT(MessageOf("none"), HasSubstr(absl::StrCat("data.train.idx.images: ", directory_,
                                                        "/none: no such file")));
}

TEST_F(InputFileTest, FileOfADirectoryThatNobodyWantsAnyMoreIsReadNoFurther) {
  WriteTestFile(directory_, "plain", "hello");
  std::stop_source stop;
  InputFile file =
      InputFile::Open({directory_, stop.get_token()}, "plain", "data.train.idx.images").value();
  char byte;
  EXPECT_EQ(file.Read(absl::MakeSpan(&byte, 1)).value(), 1u);
  stop.request_stop();
  EXPECT_EQ(file.Read(absl::MakeSpan(&byte, 1)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(InputFileTest, EmptyNameIsRefused) {
  EXPECT_THAT(MessageOf(""), HasSubstr("data.train.idx.images: empty"));
}

TEST_F(InputFileTest, FolderIsRefused) { EXPECT_THAT(MessageOf("."), HasSubstr("is a folder")); }

TEST_F(InputFileTest, PipeIsRefusedInsteadOfWaitedFor) {
  ASSERT_EQ(mkfifo(absl::StrCat(directory_, "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(MessageOf("pipe"), HasSubstr("not a regular file"));
}

TEST_F(InputFileTest, TruncatedGzipIsReportedWithOffset) {
  const std::string compressed = Gzip(std::string(500, 'x'));
  WriteTestFile(directory_, "cut.gz", compressed.substr(0, compressed.size() - 4));
  EXPECT_THAT(MessageOf("cut.gz"), HasSubstr("truncated at offset 500 of the uncompressed data"));
}

TEST_F(InputFileTest, GzipChecksumIsVerified) {
  std::string compressed = Gzip("hello");
  compressed[compressed.size() - 8] ^= 1;  // The trailer is a CRC-32 and the length.
  WriteTestFile(directory_, "corrupt.gz", compressed);
  EXPECT_THAT(MessageOf("corrupt.gz"),
              HasSubstr("corrupt.gz: corrupt after offset 0 of the uncompressed "
                        "data: damaged gzip: incorrect data check"));
}

TEST_F(InputFileTest, MembersOfAGzipFileFollowEachOther) {
  WriteTestFile(directory_, "two.gz", Gzip("hello, ") + Gzip("") + Gzip("world"));
  EXPECT_EQ(ReadFile("two.gz").value(), "hello, world");
  WriteTestFile(directory_, "padded.gz", Gzip("hello") + std::string(700, '\0'));
  EXPECT_EQ(ReadFile("padded.gz").value(), "hello");
}

// Half of the examples were left out without a word.
TEST_F(InputFileTest, WhatFollowsAGzipMemberAndIsNoneIsNotPassedOver) {
  const std::string first = Gzip("hello");
  for (const size_t damaged : {0, 1, 2}) {
    std::string second = Gzip("world");
    second[damaged] ^= 1;
    WriteTestFile(directory_, "two.gz", first + second);
    EXPECT_THAT(MessageOf("two.gz"), HasSubstr("corrupt after offset 5 of the uncompressed data"));
  }
  WriteTestFile(directory_, "junk.gz", first + "junk");
  EXPECT_THAT(MessageOf("junk.gz"), HasSubstr("corrupt after offset 5"));
  for (size_t left = 1; left < first.size(); ++left) {
    WriteTestFile(directory_, "cut.gz", first + first.substr(0, left));
    EXPECT_THAT(MessageOf("cut.gz"), HasSubstr("the gzip stream has no end")) << left;
  }
}

TEST_F(InputFileTest, LargeFilesAreReadInPartsOfAnySize) {
  std::string content;
  while (content.size() < 3'000'000) absl::StrAppend(&content, content.size(), ",");
  WriteTestFile(directory_, "plain", content);
  WriteTestFile(directory_, "compressed", Gzip(content));
  for (const char* name : {"plain", "compressed"}) {
    for (const size_t part : {997, 262'144, 1'000'003, 4'000'000}) {
      absl::StatusOr<InputFile> file = Open(name);
      ASSERT_TRUE(file.ok()) << file.status();
      std::string read;
      std::string buffer(part, '\0');
      for (size_t got = part; got == part;) {
        got = file->Read(absl::MakeSpan(&buffer[0], part)).value();
        read.append(buffer, 0, got);
      }
      EXPECT_TRUE(read == content) << name << " in parts of " << part;
    }
  }
}

TEST_F(InputFileTest, ErrorsNameFieldPathAndPlace) {
  WriteTestFile(directory_, "plain", "hello");
  absl::StatusOr<InputFile> opened = Open("plain");
  const InputFile file = *std::move(opened);
  EXPECT_EQ(std::string(file.Error("bad").message()),
            absl::StrCat("data.train.idx.images: ", directory_, "/plain: bad"));
  EXPECT_EQ(std::string(file.ErrorAt(17, 3, "bad").message()),
            absl::StrCat("data.train.idx.images: ", directory_, "/plain:17:3: bad"));
}

}  // namespace
}  // namespace millrace::worker
