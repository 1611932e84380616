#include "common/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace millrace {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// "" when it cannot be read.
std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Version 2 writes "max" for no limit; version 1 a number above every machine's memory.
uint64_t ReadLimit(const std::string& path) {
  uint64_t bytes = 0;
  return absl::SimpleAtoi(ReadFile(path), &bytes) && bytes > 0 ? bytes : kNoLimit;
}

// A group's limit holds for the groups below it as well. A container often sees its own group as
// the root although the path names it as its host does; the walk ends at the root in any case.
uint64_t LeastLimitUpwards(const std::string& root, std::string group, absl::string_view file) {
  uint64_t least = kNoLimit;
  for (;;) {
    least = std::min(least, ReadLimit(absl::StrCat(root, group, "/", file)));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

uint64_t MachineMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_size = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_size > 0 ? static_cast<uint64_t>(pages) * page_size : kNoLimit;
}

}  // namespace

uint64_t CgroupMemoryLimit(absl::string_view membership, const std::string& root) {
  uint64_t least = kNoLimit;
  for (const absl::string_view line : absl::StrSplit(membership, '\n', absl::SkipEmpty())) {
    // "0::/path" in version 2, "9:memory:/path" in version 1, where a line may name several.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[0] == "0" && fields[1].empty()) {
      least = std::min(least, LeastLimitUpwards(root, fields[2], "memory.max"));
      continue;
    }
    for (const absl::string_view controller : absl::StrSplit(fields[1], ',')) {
      if (controller != "memory") continue;
      least = std::min(least, LeastLimitUpwards(absl::StrCat(root, "/memory"), fields[2],
                                                "memory.limit_in_bytes"));
    }
  }
  return least;
}

uint64_t AddressSpaceLimit() {
  struct rlimit limit = {};
  const bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? std::max<uint64_t>(limit.rlim_cur, 1) : kNoLimit;
}

uint64_t MemoryLimit() {
  return std::min({MachineMemory(), AddressSpaceLimit(),
                   CgroupMemoryLimit(ReadFile("/proc/self/cgroup"), "/sys/fs/cgroup")});
}

}  // namespace millrace
