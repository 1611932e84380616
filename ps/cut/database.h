// The few operations of RocksDB that a ps server needs, with the durability of each.
#ifndef MILLRACE_PS_CUT_DATABASE_H_
#define MILLRACE_PS_CUT_DATABASE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace rocksdb {
class DB;
class Status;
}  // namespace rocksdb

namespace millrace::ps {

// Changes that take effect together.
struct Changes {
  std::vector<std::pair<std::string, std::string>> put;
  // Keys in [first, second); before `put`.
  std::vector<std::pair<std::string, std::string>> delete_ranges;
};

// For tests: called before each operation ("read", "write", "flush", "compact") on the thread that
// asked for it. What it returns, unless OK, is the operation's outcome; it may block as a disk
// does.
using DatabaseFault = std::function<absl::Status(absl::string_view operation)>;

// Thread-safe. Every call may block on the disk. Errors name the database and the operation:
// DATA_LOSS: what is stored is damaged. UNAVAILABLE: the disk fails, or is full: try again.
// FAILED_PRECONDITION: not a database of this program.
class Database {
 public:
  // Opens or makes it. UNAVAILABLE: another process has it.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        DatabaseFault fault = nullptr);

  ~Database();

  // nullopt: there is no such key.
  absl::StatusOr<absl::optional<std::string>> Get(absl::string_view key);

  // Writes a large value, the concatenation of `parts`, that is on the disk after the next Sync().
  absl::Status PutBulk(absl::string_view key, absl::Span<const absl::string_view> parts);
  absl::Status Sync();

  // Returns when the changes are on the disk.
  absl::Status Commit(const Changes& changes);

  // Calls `visit` for the keys that begin with `prefix`, in order, until it returns the key to go
  // on from, instead of nullopt for the next one. Values are read only where `visit` asks for them.
  using Visit = std::function<absl::optional<std::string>(
      absl::string_view key, const std::function<absl::string_view()>& value)>;
  absl::Status Scan(const std::string& prefix, const Visit& visit);

  // Gives the disk space of deleted keys in [begin, end) back now, instead of at some later write.
  absl::Status Compact(const std::string& begin, const std::string& end);

 private:
  Database(std::string path, DatabaseFault fault, std::unique_ptr<rocksdb::DB> db);
  absl::Status Fault(absl::string_view operation) const;
  absl::Status Error(absl::string_view operation, const rocksdb::Status& status) const;

  const std::string path_;
  const DatabaseFault fault_;  // May be empty.
  const std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_DATABASE_H_
