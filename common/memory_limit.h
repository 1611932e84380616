// How much memory this process may use.
#ifndef MILLRACE_COMMON_MEMORY_LIMIT_H_
#define MILLRACE_COMMON_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// Bytes, never 0: the machine's memory, the least limit of the control groups (versions 1 and 2)
// that this process is in, or that of its address space, whichever is less. What other processes
// use is not taken off. Reads a few small files of the kernel's; thread-safe.
uint64_t MemoryLimit();

// The part of MemoryLimit() that is the process's own limit of its address space (RLIMIT_AS).
// UINT64_MAX: there is none.
uint64_t AddressSpaceLimit();

// The part of MemoryLimit() that reads control groups. `membership`: the text of /proc/self/cgroup;
// `root`: where the groups are mounted, "/sys/fs/cgroup" on every common system. UINT64_MAX: no
// group has a limit that can be read.
uint64_t CgroupMemoryLimit(absl::string_view membership, const std::string& root);

}  // namespace millrace

#endif  // MILLRACE_COMMON_MEMORY_LIMIT_H_
