#include "ps/cut/database.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::ps {
namespace {

constexpr uint64_t kMiB = 1 << 20;

absl::Status PutMiB(const Database::Put& put, int number) {
  return put(absl::StrCat("key", number), std::string(kMiB, 'x'));
}

// Each looked at the room for itself, and together they filled the disk.
TEST(DatabaseTest, FilesThatAreWrittenAtOnceNeedRoomForAllOfThem) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/database_test");
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  const auto files = std::make_shared<millrace::testing::FaultFileSystem>();
  const auto database = *Database::Open(path + "/db", {.file_system = files});
  files->SetFreeBytes((16 + 5) * kMiB);  // 16 are kept for records.
  const auto stage = [&](uint64_t bytes) {
    return database->Stage(bytes, [](const Database::Put& put) { return PutMiB(put, 0); }).status();
  };
  const auto first = database->Stage(3 * kMiB, [&](const Database::Put& put) {
    EXPECT_EQ(stage(3 * kMiB).code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(stage(2 * kMiB).ok());
    EXPECT_TRUE(stage(2 * kMiB).ok()) << "the one before has ended";
    const absl::Status status = PutMiB(put, 1);
    EXPECT_TRUE(stage(3 * kMiB).ok()) << "what is written needs no more room";
    return status;
  });
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(stage(5 * kMiB).ok());
  EXPECT_EQ(stage(6 * kMiB).code(), absl::StatusCode::kUnavailable);
}

// Of more than one write, and of no whole number of sectors.
TEST(DatabaseTest, FileHasWhatWasPut) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/database_test");
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  const auto database = *Database::Open(path + "/db");
  const auto key = [](int number) { return absl::StrCat("key", number); };
  const auto value = [](int number) {
    return std::string(kMiB + static_cast<uint64_t>(number), static_cast<char>('a' + number));
  };
  auto staged = database->Stage(9 * kMiB, [&](const Database::Put& put) {
    absl::Status status;
    for (int i = 0; i < 9; ++i) status.Update(put(key(i), value(i)));
    return status;
  });
  ASSERT_TRUE(staged.ok()) << staged.status();
  ASSERT_TRUE(database->Adopt(*std::move(staged), "file.sst").ok());
  const auto file = *database->OpenFile("file.sst");
  int number = 0;
  const absl::Status read =
      file->Read("key", [&](absl::string_view found, absl::string_view bytes) {
        EXPECT_EQ(found, key(number));
        EXPECT_TRUE(bytes == value(number));
        ++number;
        return absl::OkStatus();
      });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(number, 9);
  for (const int i : {7, 0, 8}) EXPECT_TRUE(*file->Get(key(i)) == value(i));
  for (const std::string missing : {"key", "key1x", "key9"}) {
    EXPECT_TRUE(absl::IsDataLoss(file->Get(missing).status())) << missing;
  }
}

}  // namespace
}  // namespace millrace::ps
