// One way to open a RocksDB, and to go on after its disk has failed.
#ifndef MILLRACE_COMMON_STORAGE_ROCKS_DATABASE_H_
#define MILLRACE_COMMON_STORAGE_ROCKS_DATABASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "common/storage/directory_place.h"
#include "common/storage/durable_file.h"

namespace rocksdb {
class DB;
class Env;
class Status;
class WriteBatch;
struct Options;
}  // namespace rocksdb

namespace millrace {

// `what` is the operation and its place: "cannot write the database /data/db". DATA_LOSS: what is
// stored is damaged. FAILED_PRECONDITION: not a database of ours. UNAVAILABLE: the disk fails or is
// full, which may pass.
absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what);

// What becomes of a database of which a log is damaged: see FindDamageInLog.
enum class DamagedLogs {
  kRefused,   // It is not opened.
  kCutShort,  // It is as before the damage; the log of this process says so.
};

struct RocksDatabaseOptions {
  FileSystemPtr file_system = RealFileSystem();
  Clock* clock = Clock::Real();  // Must outlive the database.
  DamagedLogs damaged_logs = DamagedLogs::kRefused;
};

// A database of small records that are written rarely and durably, by one process. Thread-safe;
// calls block on the disk.
class RocksDatabase {
 public:
  // Opens or makes it. Statuses as for FromRocks; UNAVAILABLE too: another process has it;
  // DATA_LOSS too: a log is damaged.
  static absl::StatusOr<std::unique_ptr<RocksDatabase>> Open(
      const std::string& path, const RocksDatabaseOptions& options = {});

  ~RocksDatabase();

  // Changes that take effect together.
  struct Changes {
    std::vector<std::pair<std::string, std::string>> put;
    std::vector<std::string> remove;
    bool empty() const { return put.empty() && remove.empty(); }
  };

  // Returns when the changes are on the disk; or, with `sync` false, when only a crash of the
  // machine can lose them. After an error RocksDB takes no writes until it has been told to look at
  // its disk again: the next call does that, at most once in kResumePause. UNAVAILABLE also where
  // CheckPlace says so.
  absl::Status Write(const Changes& changes, bool sync = true) ABSL_LOCKS_EXCLUDED(mutex_);

  // As DirectoryPlace::Check, of the database's directory; the log says when it goes and is back.
  absl::Status CheckPlace() ABSL_LOCKS_EXCLUDED(mutex_);

  // nullopt: there is no such key.
  absl::StatusOr<absl::optional<std::string>> Get(absl::string_view key) const;

  // The keys that begin with `prefix` and their values, in order.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> List(
      const std::string& prefix) const;

  // For files of RocksDB's format that are not part of it.
  const rocksdb::Options& options() const { return *options_; }
  const FileSystemPtr& file_system() const { return file_system_; }
  const std::string& path() const { return path_; }

  static constexpr absl::Duration kResumePause = absl::Seconds(1);

 private:
  RocksDatabase(std::string path, const RocksDatabaseOptions& options,
                std::unique_ptr<rocksdb::Env> env);

  // Looks at the disk again if there was an error. OK: it can be written.
  absl::Status Revive() ABSL_LOCKS_EXCLUDED(mutex_);
  // Remembers an error, after which RocksDB needs to look again.
  absl::Status Check(absl::string_view operation, const rocksdb::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Error(absl::string_view operation, const rocksdb::Status& status) const;
  absl::Status KeepMemoryTableFilled();

  const std::string path_;
  const FileSystemPtr file_system_;
  Clock* const clock_;
  const std::unique_ptr<rocksdb::Env> env_;
  const std::unique_ptr<rocksdb::Options> options_;
  std::unique_ptr<rocksdb::DB> db_;
  absl::optional<DirectoryPlace> place_;  // Set once, by Open; nothing: the system did not say.
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // The first one since RocksDB was well.
  absl::Time next_resume_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;  // What CheckPlace has found.
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_ROCKS_DATABASE_H_
