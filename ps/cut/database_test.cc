#include "ps/cut/database.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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

}  // namespace
}  // namespace millrace::ps
