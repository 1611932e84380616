// What the coordinator must not forget: its jobs, and which ps servers are evacuated. In a RocksDB
// of its own.
#ifndef MILLRACE_COORDINATOR_JOURNAL_JOURNAL_H_
#define MILLRACE_COORDINATOR_JOURNAL_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/storage/directory_lock.h"
#include "common/storage/rocks_database.h"
#include "coordinator/journal/job_record.pb.h"

namespace millrace::coordinator {

// Thread-safe; calls block on the disk. UNAVAILABLE: the disk fails, or is full, which may pass:
// try again. What could not be written is not there; after the next restart it may be.
class Journal {
 public:
  struct Entry {
    JobRecord record;
    uint64_t events = 0;  // The number of the job's newest event.
    // How many steps were done when that was told or, where that was later, the record was written.
    uint64_t step = 0;
  };

  // Makes the directory if it is not there. FAILED_PRECONDITION: it holds something else, or
  // another coordinator has it open; UNAVAILABLE: it cannot be read. Messages name the directory.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& directory,
                                                       const RocksDatabaseOptions& options = {});

  // All jobs, in the order of submission. DATA_LOSS: an entry is damaged. FAILED_PRECONDITION: a
  // newer program has written it, and a job that has not ended asks for what this one does not
  // know.
  absl::StatusOr<std::vector<Entry>> ReadJobs() const;

  // Whether something can be written at all, for those who have much to do before they write.
  absl::Status CheckWritable();

  // Returns when the record is on disk; it replaces the one of the same number.
  absl::Status Write(const JobRecord& record);

  // Returns when the job is gone, with its count of events; no error when it is not there.
  absl::Status Forget(uint64_t job_number);

  // Those that were written last; none before the first time. DATA_LOSS: the entry is damaged.
  absl::StatusOr<EvacuatedDirectories> ReadEvacuated() const;
  // Returns when they are on disk.
  absl::Status WriteEvacuated(const EvacuatedDirectories& directories);

  // See Entry. Survives the end of this process, though not necessarily of the machine.
  absl::Status WriteEvents(uint64_t job_number, uint64_t events, uint64_t step);

 private:
  Journal(std::string directory, std::unique_ptr<DirectoryLock> lock,
          std::unique_ptr<RocksDatabase> database);
  absl::Status CheckFormat();
  // Puts all of them, by key, or none.
  using Values = std::vector<std::pair<std::string, std::string>>;
  absl::Status Put(Values values, bool sync);
  absl::StatusOr<uint64_t> Count(const std::string& key) const;

  const std::string directory_;
  const std::unique_ptr<DirectoryLock> lock_;
  const std::unique_ptr<RocksDatabase> database_;
};

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_JOURNAL_JOURNAL_H_
