// A ps server's database: small records in a RocksDB, and bulk values in table files beside it.
#ifndef MILLRACE_PS_CUT_DATABASE_H_
#define MILLRACE_PS_CUT_DATABASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/mutex.h"
#include "common/storage/directory_place.h"
#include "common/storage/durable_file.h"
#include "common/storage/rocks_database.h"

namespace rocksdb {
class FSDirectory;
class Iterator;
class SstFileReader;
}  // namespace rocksdb

namespace millrace::ps {

// For tests: called before each operation ("read", "write": a record; "flush": a bulk file) on the
// thread that asked for it. What it returns, unless OK, is the operation's outcome; it may block as
// a disk does.
using DatabaseFault = std::function<absl::Status(absl::string_view operation)>;

struct DatabaseOptions {
  FileSystemPtr file_system = RealFileSystem();
  Clock* clock = Clock::Real();  // Must outlive the database.
  DatabaseFault fault = nullptr;
};

// Paths of staged files that could not be removed when they were dropped. Thread-safe.
class StagedLeftovers {
 public:
  void Add(std::string path) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns them, and forgets them.
  std::vector<std::string> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  std::vector<std::string> paths_ ABSL_GUARDED_BY(mutex_);
};

// A bulk file that is written and synced, and not in the database yet. Dropping it removes it; if
// that fails, it is added to `leftovers`.
class StagedFile {
 public:
  StagedFile(FileSystemPtr file_system, std::string path, uint64_t bytes,
             std::shared_ptr<StagedLeftovers> leftovers);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  uint64_t bytes() const { return bytes_; }

 private:
  friend class Database;
  const FileSystemPtr file_system_;
  const std::string path_;
  const uint64_t bytes_;
  const std::shared_ptr<StagedLeftovers> leftovers_;
  bool adopted_ = false;  // It has another name.
};

// A bulk file that is open: it stays readable when it is removed. Errors as for Database. Not
// thread-safe.
class BulkFile {
 public:
  ~BulkFile();
  BulkFile(const BulkFile&) = delete;
  BulkFile& operator=(const BulkFile&) = delete;

  // Calls `visit` for the values whose keys begin with `prefix`, in order, and reads ahead; until
  // it returns an error, which is returned.
  using Visit = std::function<absl::Status(absl::string_view key, absl::string_view value)>;
  absl::Status Read(const std::string& prefix, const Visit& visit);

  // One value, which is there until the next call. DATA_LOSS too: it has none of that key.
  absl::StatusOr<absl::string_view> Get(const std::string& key);

 private:
  friend class Database;
  BulkFile(std::unique_ptr<rocksdb::SstFileReader> reader, std::string what);

  const std::unique_ptr<rocksdb::SstFileReader> reader_;
  const std::string what_;                       // For messages.
  std::unique_ptr<rocksdb::Iterator> iterator_;  // Of Get; nullptr before the first one.
};

// Thread-safe. Every call may block on the disk; a bulk file that is being written blocks nobody
// else. Errors name the database and the operation: DATA_LOSS: what is stored is damaged.
// UNAVAILABLE: the disk fails, or is full: try again. FAILED_PRECONDITION: not a database of this
// program. Where one of its two directories was moved or deleted, nothing is written to it, read
// from bulk files or removed: UNAVAILABLE.
class Database {
 public:
  using Changes = RocksDatabase::Changes;

  // Opens or makes it, and removes what was only staged. UNAVAILABLE: another process has it.
  // FAILED_PRECONDITION too: the records are there without their bulk files, or these without them.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        const DatabaseOptions& options = {});
  ~Database();

  // nullopt: there is no such key.
  absl::StatusOr<absl::optional<std::string>> Get(absl::string_view key);

  // Returns when the changes of records are on the disk.
  absl::Status Commit(const Changes& changes);

  // The records that begin with `prefix`, in order.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> List(const std::string& prefix);

  // Writes a bulk file: `fill` puts its values, in the order of their keys. Returns when it is on
  // the disk. UNAVAILABLE, before anything is written: fewer than `bytes`, and a reserve for
  // records, are free besides what the files that are being written still need.
  using Put = std::function<absl::Status(absl::string_view key, absl::string_view value)>;
  absl::StatusOr<std::unique_ptr<StagedFile>> Stage(
      uint64_t bytes, const std::function<absl::Status(const Put&)>& fill);

  // Makes the file one of the database, at once and for good. After an error it may be one or not,
  // until RemoveFiles says that it is none. REQUIRES: `name` is that of a file, and a new one.
  absl::Status Adopt(std::unique_ptr<StagedFile> file, const std::string& name);

  // Removes those that are there. Their space is free when this returns and nobody reads them.
  absl::Status RemoveFiles(const std::vector<std::string>& names);

  // The names of the bulk files, in no particular order.
  absl::StatusOr<std::vector<std::string>> ListFiles() const;

  // DATA_LOSS too: there is no such file.
  absl::StatusOr<std::unique_ptr<BulkFile>> OpenFile(const std::string& name);

  // OpenFile and BulkFile::Read.
  using Visit = BulkFile::Visit;
  absl::Status ReadFile(const std::string& name, const std::string& prefix, const Visit& visit);

 private:
  Database(std::unique_ptr<RocksDatabase> rocks, std::string directory, DatabaseFault fault);
  // Makes the directory of the bulk files, or opens it.
  absl::Status OpenDirectory();
  absl::Status CheckNotMissing() const;
  absl::Status CheckIds();
  absl::StatusOr<bool> HasRecords() const;
  absl::Status RemoveStaged();
  // Removes staged files that could not be removed before. Those that still cannot are tried again
  // another time.
  void RemoveLeftovers();
  // UNAVAILABLE: a directory is not where it was opened.
  absl::Status CheckPlaces() const;
  // Of the files that are only staged, or of the others.
  absl::StatusOr<std::vector<std::string>> Names(bool staged) const;
  std::string PathOf(const std::string& name) const;
  // Room for a file that is to be written. Returns what others have taken that are at it.
  uint64_t TakeRoom(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // UNAVAILABLE: there is none for so many bytes besides those that others have taken.
  absl::Status CheckRoom(uint64_t bytes, uint64_t taken) const;
  void GiveRoom(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Fault(absl::string_view operation) const;

  const std::unique_ptr<RocksDatabase> rocks_;
  const std::string directory_;  // Of the bulk files.
  // It stays open: so no other one gets its inode.
  std::unique_ptr<rocksdb::FSDirectory> open_directory_;
  absl::optional<DirectoryPlace> place_;  // Set by Open.
  bool direct_io_ = false;                // Of bulk files; set by Open.
  const std::shared_ptr<StagedLeftovers> leftovers_ = std::make_shared<StagedLeftovers>();
  const DatabaseFault fault_;  // May be empty.
  Mutex mutex_;
  uint64_t room_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // And not written yet.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_DATABASE_H_
