// A file system whose errors RocksDB recovers from.
#ifndef MILLRACE_COMMON_STORAGE_RETRYABLE_FILE_SYSTEM_H_
#define MILLRACE_COMMON_STORAGE_RETRYABLE_FILE_SYSTEM_H_

#include "common/storage/durable_file.h"

namespace millrace {

// The same as `real`, but each error of an operation that changes something says that it may be
// tried again. Without that RocksDB takes an error of its log (EIO, which comes and goes on network
// disks) for the end of the database, and refuses even Resume().
FileSystemPtr MakeRetryable(FileSystemPtr real);

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_RETRYABLE_FILE_SYSTEM_H_
