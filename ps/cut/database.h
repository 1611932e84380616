// A ps server's database: small records in RocksDB's log, and bulk files that RocksDB only adopts.
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
#include "common/storage/durable_file.h"
#include "common/storage/rocks_database.h"

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

// A bulk file that is written and synced, and not in the database yet. Dropping it removes it.
class StagedFile {
 public:
  StagedFile(FileSystemPtr file_system, std::string path, uint64_t bytes);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const FileSystemPtr file_system_;
  const std::string path_;
  const uint64_t bytes_;
};

// Thread-safe. Every call may block on the disk; a bulk file that is being written blocks nobody
// else. Errors name the database and the operation: DATA_LOSS: what is stored is damaged.
// UNAVAILABLE: the disk fails, or is full: try again. FAILED_PRECONDITION: not a database of this
// program.
class Database {
 public:
  using Changes = RocksDatabase::Changes;

  // Opens or makes it, and removes bulk files that were not adopted. UNAVAILABLE: another process
  // has it.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        const DatabaseOptions& options = {});

  // nullopt: there is no such key.
  absl::StatusOr<absl::optional<std::string>> Get(absl::string_view key);

  // Returns when the changes of records are on the disk.
  absl::Status Commit(const Changes& changes);

  // The records that begin with `prefix`, in order.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> List(const std::string& prefix);

  // Writes a bulk file beside the database: `fill` puts its values, in the order of their keys,
  // which no other file has in between. Returns when it is on the disk. UNAVAILABLE, before
  // anything is written: fewer than `bytes`, and a reserve for records, are free.
  using Put = std::function<absl::Status(absl::string_view key, absl::string_view value)>;
  absl::StatusOr<std::unique_ptr<StagedFile>> Stage(
      uint64_t bytes, const std::function<absl::Status(const Put&)>& fill);

  // Makes all values of the file part of the database, at once and for good.
  absl::Status Adopt(std::unique_ptr<StagedFile> file);

  // Removes bulk files. Their space is free when this returns. REQUIRES: a range [first, second)
  // has nothing but keys of whole files.
  absl::Status RemoveFiles(const std::vector<std::pair<std::string, std::string>>& ranges);

  // The first key of each bulk file. Reads no file.
  std::vector<std::string> ListFiles() const;

  // Calls `visit` for the values whose keys begin with `prefix`, in order, and reads ahead; until
  // it returns an error, which is returned.
  using Visit = std::function<absl::Status(absl::string_view key, absl::string_view value)>;
  absl::Status ReadBulk(const std::string& prefix, const Visit& visit);

 private:
  Database(std::unique_ptr<RocksDatabase> rocks, std::string staging, DatabaseFault fault);
  absl::Status ClearStaging();
  absl::Status CheckRoom(uint64_t bytes) const;
  absl::Status Fault(absl::string_view operation) const;

  const std::unique_ptr<RocksDatabase> rocks_;
  const std::string staging_;  // A directory.
  const DatabaseFault fault_;  // May be empty.
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_DATABASE_H_
