// A journal for a test.
#ifndef MILLRACE_COORDINATOR_JOURNAL_NEW_JOURNAL_H_
#define MILLRACE_COORDINATOR_JOURNAL_NEW_JOURNAL_H_

#include <memory>

#include "coordinator/journal/journal.h"

namespace millrace::coordinator {

// An empty one, in a directory of the test that runs. Ends the process where it cannot be opened.
std::unique_ptr<Journal> OpenNewJournal();

// The record of a job "j-1" that waits.
JobRecord PendingJob();

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOURNAL_NEW_JOURNAL_H_
