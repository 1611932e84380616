// Writing and reading past the system's memory for files (O_DIRECT).
#ifndef MILLRACE_COMMON_STORAGE_DIRECT_IO_H_
#define MILLRACE_COMMON_STORAGE_DIRECT_IO_H_

#include <string>

namespace millrace {

// Whether much that is written to this directory, and not read soon, is to go past the system's
// memory for files: it costs less then, and pushes nothing out of that memory. So it is where the
// file system is one of a disk of this machine, and a small file without a name can be written so.
// Over a network that memory is what keeps the wire busy, and buckets take nothing else. Blocks on
// the disk. Thread-safe.
bool PrefersDirectIo(const std::string& directory);

}  // namespace millrace

#endif  // MILLRACE_COMMON_STORAGE_DIRECT_IO_H_
