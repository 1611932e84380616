#include "coordinator/journal/new_journal.h"

#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {

std::unique_ptr<Journal> OpenNewJournal() {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  const std::string directory =
      absl::StrCat(::testing::TempDir(), "/", test.test_suite_name(), ".", test.name());
  std::filesystem::remove_all(directory);
  auto journal = Journal::Open(directory);
  CHECK(journal.ok()) << journal.status();
  return *std::move(journal);
}

JobRecord PendingJob() {
  JobRecord record;
  record.set_number(1);
  record.set_job_id("j-1");
  record.set_state(PENDING);
  return record;
}

}  // namespace millrace::coordinator
