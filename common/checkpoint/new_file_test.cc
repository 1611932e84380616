#include "common/checkpoint/new_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;

constexpr size_t kBufferBytes = NewFile::kMemoryBytes / 2;

// No two sectors are the same.
std::string Text(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i % 251 + i / 4096);
  return text;
}

// In pieces that fit no sector.
absl::Status AppendPieces(absl::string_view text, NewFile* file) {
  constexpr size_t kPieceBytes = 300'007;
  absl::Status status;
  for (; !text.empty() && status.ok(); text.remove_prefix(std::min(kPieceBytes, text.size()))) {
    status = file->Append(text.substr(0, kPieceBytes));
  }
  return status;
}

class NewFileTest : public ::testing::TestWithParam<bool> {
 protected:
  NewFileTest()
      : directory_(absl::StrCat(::testing::TempDir(), "/new_file_test")),
        path_(directory_ + "/file") {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    options_.bulk = GetParam();
  }

  NewFileOptions options_;
  const std::string directory_;
  const std::string path_;
};

TEST_P(NewFileTest, HasWhatWasAppended) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, kBufferBytes - 1, kBufferBytes,
                             kBufferBytes + 1, 2 * kBufferBytes, 5 * kBufferBytes + 12'345}) {
    SCOPED_TRACE(bytes);
    const std::string text = Text(bytes);
    NewFile file(options_, path_);
    ASSERT_TRUE(file.Create().ok());
    ASSERT_TRUE(AppendPieces(text, &file).ok());
    EXPECT_EQ(file.bytes(), bytes);
    const absl::Status finished = file.Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    EXPECT_TRUE(*ReadWholeFile(RealFileSystem(), path_) == text);
    file.Remove();
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

TEST_P(NewFileTest, AsksBeforeEachMebibyteAtMost) {
  constexpr uint64_t kBytes = 2 * kBufferBytes + 12'345;
  uint64_t asked = 0;
  options_.before_write = [&](uint64_t bytes) {
    EXPECT_LE(bytes, 1 << 20);
    asked += bytes;
    return absl::OkStatus();
  };
  NewFile file(options_, path_);
  ASSERT_TRUE(file.Create().ok());
  ASSERT_TRUE(AppendPieces(Text(kBytes), &file).ok());
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(asked, kBytes);
}

TEST_P(NewFileTest, EndsWithTheErrorOfWhoeverIsAsked) {
  options_.before_write = [&](uint64_t) { return absl::CancelledError("nobody waits"); };
  NewFile file(options_, path_);
  ASSERT_TRUE(file.Create().ok());
  EXPECT_EQ(AppendPieces(Text(2 * kBufferBytes), &file).code(), absl::StatusCode::kCancelled);
  file.Remove();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_P(NewFileTest, TakesNoFileThatIsThere) {
  NewFile first(options_, path_);
  ASSERT_TRUE(first.Create().ok());
  NewFile second(options_, path_);
  EXPECT_EQ(second.Create().code(), absl::StatusCode::kAlreadyExists);
  second.Remove();
  EXPECT_TRUE(std::filesystem::exists(path_)) << "it is the first one's";
}

TEST_P(NewFileTest, RemovesNoOtherFileOfItsName) {
  NewFile file(options_, path_);
  ASSERT_TRUE(file.Create().ok());
  std::filesystem::rename(path_, path_ + ".away");
  ASSERT_TRUE(WriteDurably(RealFileSystem(), path_, "another one's").ok());
  file.Remove();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_P(NewFileTest, NeedsItsFolder) {
  NewFile file(options_, directory_ + "/nowhere/file");
  EXPECT_EQ(file.Create().code(), absl::StatusCode::kNotFound);
}

// Whichever of its operations fails, it says so.
TEST_P(NewFileTest, SaysWhateverFails) {
  const std::string text = Text(2 * kBufferBytes + 12'345);
  for (const Fault fault : {Fault::kError, Fault::kFull, Fault::kTorn}) {
    for (uint64_t operations = 0;; ++operations) {
      SCOPED_TRACE(absl::StrCat("operation ", operations));
      const auto files = std::make_shared<FaultFileSystem>();
      options_.file_system = files;
      files->Arm(operations, fault);
      NewFile file(options_, path_);
      absl::Status status = file.Create();
      if (status.ok()) status = AppendPieces(text, &file);
      if (status.ok()) status = file.Finish();
      files->Heal();
      if (!files->fired()) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_GT(operations, 3);
        file.Remove();
        break;
      }
      // A full disk has room for what needs none.
      if (status.ok()) {
        EXPECT_EQ(fault, Fault::kFull);
        EXPECT_TRUE(*ReadWholeFile(RealFileSystem(), path_) == text);
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      }
      std::filesystem::remove(path_);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NewFileTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Bulk" : "Small"; });

}  // namespace
}  // namespace millrace
