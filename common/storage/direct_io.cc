#include "common/storage/direct_io.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstddef>

namespace millrace {
namespace {

// A sector is nowhere larger.
constexpr size_t kSectorBytes = 4096;

bool IsOfLocalDisk(const std::string& directory) {
  struct statfs found = {};
  if (statfs(directory.c_str(), &found) != 0) return false;
  switch (found.f_type) {
    case EXT4_SUPER_MAGIC:  // And of ext2 and ext3.
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

bool TakesDirectWrite(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  alignas(kSectorBytes) const char sector[kSectorBytes] = {};
  const bool written = pwrite(file, sector, kSectorBytes, 0) == kSectorBytes;
  close(file);
  return written;
}

}  // namespace

bool PrefersDirectIo(const std::string& directory) {
  return IsOfLocalDisk(directory) && TakesDirectWrite(directory);
}

}  // namespace millrace
