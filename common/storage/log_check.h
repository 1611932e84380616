// Whether the logs of a RocksDB are damaged where that would go unnoticed.
#ifndef MILLRACE_COMMON_STORAGE_LOG_CHECK_H_
#define MILLRACE_COMMON_STORAGE_LOG_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace millrace {

// Where the content of a log has a record that does not match its checksum, and the beginning of
// another one somewhere behind it: the first one's offset. RocksDB takes such a record for the end
// of the log, as one that a crash cut short, and what follows is lost without a word. Nothing:
// there is none; a log that ends in the midst of a record, or in zeros, is whole.
absl::optional<uint64_t> FindDamageInLog(absl::string_view log);

// DATA_LOSS: a log of the database in `directory` has such a record; with its file and offset.
// UNAVAILABLE: it cannot be read. Blocks on the disk.
absl::Status CheckLogs(rocksdb::Env* env, const std::string& directory);

// Whether that is what CheckLogs has found.
bool IsDamagedLog(const absl::Status& status);

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_LOG_CHECK_H_
