#include "coordinator/journal/new_journal.h"

#include <utility>

#include "glog/logging.h"
#include "testing/directory/test_directory.h"

namespace millrace::coordinator {

std::unique_ptr<Journal> OpenNewJournal() {
  auto journal = Journal::Open(TestDirectory("journal"));
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
