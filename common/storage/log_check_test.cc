#include "common/storage/log_check.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/storage/rocks_database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LogCheckTest : public ::testing::Test {
 protected:
  // What a kill leaves of a database of `records` records, of up to 40,000 bytes, some of which
  // blocks divide: all of them are in its log.
  void Write(int records) {
    const std::string alive = path_ + "/alive";
    std::filesystem::create_directories(alive);
    auto database = RocksDatabase::Open(alive);
    ASSERT_TRUE(database.ok()) << database.status();
    for (int i = 0; i < records; ++i) {
      const std::string value(i * 7919 % 40'000, static_cast<char>('a' + i % 26));
      RocksDatabase::Changes changes;
      changes.put.emplace_back(absl::StrCat("key", i), value);
      ASSERT_TRUE((*database)->Write(changes).ok());
    }
    std::filesystem::copy(alive, killed_, std::filesystem::copy_options::recursive);
  }

  // Of the only log that is not empty.
  std::string LogPath() const {
    for (const auto& entry : std::filesystem::directory_iterator(killed_)) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0) return entry.path();
    }
    return "";
  }

  std::string Log() const {
    std::ifstream file(LogPath(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void SetLog(const std::string& content) {
    std::ofstream(LogPath(), std::ios::binary | std::ios::trunc) << content;
  }

  absl::Status OpenStatus(DamagedLogs damaged_logs = DamagedLogs::kRefused) {
    return RocksDatabase::Open(killed_, {.damaged_logs = damaged_logs}).status();
  }

  const std::string path_ = EmptyTestDirectory("logs");
  const std::string killed_ = path_ + "/killed";
};

TEST_F(LogCheckTest, WholeLogsHaveNoDamage) {
  EXPECT_FALSE(FindDamageInLog("").has_value());
  Write(40);
  ASSERT_GT(Log().size(), 200'000u);
  EXPECT_FALSE(FindDamageInLog(Log()).has_value());
  EXPECT_TRUE(OpenStatus().ok());
}

// A crash, or a power cut, in the midst of a write.
TEST_F(LogCheckTest, LogsThatEndInTheMidstOfARecordHaveNone) {
  Write(12);
  const std::string log = Log();
  for (size_t end = 0; end < log.size(); end += 997) {
    ASSERT_FALSE(FindDamageInLog(absl::string_view(log).substr(0, end)).has_value()) << end;
    const std::string zeros(log.size() - end, '\0');
    ASSERT_FALSE(FindDamageInLog(log.substr(0, end) + zeros).has_value()) << end;
  }
}

// A power cut in the midst of the write of a large record: the disk has its later pages only.
TEST_F(LogCheckTest, LastRecordWhoseFirstPagesAreMissingIsNoDamage) {
  Write(6);
  std::string log = Log();
  const size_t begin = log.find(std::string(1000, 'f'));  // The last one: 39,595 bytes.
  ASSERT_NE(begin, std::string::npos);
  log.replace(begin - 12, 4096, std::string(4096, '\0'));
  EXPECT_FALSE(FindDamageInLog(log).has_value());
}

// All that was journaled after a flipped bit was dropped: jobs that ran, and jobs that had ended.
TEST_F(LogCheckTest, FlippedBitBeforeOtherRecordsIsFound) {
  Write(12);
  std::string log = Log();
  while (log.back() == '\0') log.pop_back();
  // The last record has no other behind it.
  for (size_t at = 0; at + 40'000 < log.size(); at += 997) {
    log[at] ^= 4;
    const auto damage = FindDamageInLog(log);
    ASSERT_TRUE(damage.has_value()) << at;
    EXPECT_LE(*damage, at);
    log[at] ^= 4;
  }
}

TEST_F(LogCheckTest, DatabaseWithADamagedLogIsOpenedOnlyWhereThatIsWanted) {
  Write(12);
  std::string log = Log();
  log[100'000] ^= 4;
  SetLog(log);
  for (int i = 0; i < 2; ++i) {
    const absl::Status refused = OpenStatus();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(LogPath()), HasSubstr("is damaged at byte ")));
  }
  EXPECT_TRUE(OpenStatus(DamagedLogs::kCutShort).ok());
  EXPECT_TRUE(OpenStatus().ok()) << "what was left was written anew";
}

}  // namespace
}  // namespace millrace
