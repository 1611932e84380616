// Whose memory a directory of a memory file system is.
#ifndef MILLRACE_PS_BLOCK_ARENA_DIRECTORY_H_
#define MILLRACE_PS_BLOCK_ARENA_DIRECTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace::ps {

// Of a data directory, and of the life of the machine in which its memory means something.
struct ArenaOwner {
  std::string data_dir;
  std::string directory_id;
  std::string boot_id;
};

// The kernel's name for the time since the machine was started; empty where it does not tell.
std::string KernelBootId();

// PARENT/millrace-DIRECTORY_ID, of mode 0700, locked as long as this object lives. See the .cc
// file.
class ArenaDirectory {
 public:
  // What was there before stays if it is the owner's, of this boot and of a layout that this
  // program knows; otherwise it is deleted, and the log says why. UNAVAILABLE: another process has
  // it. FAILED_PRECONDITION: it belongs to somebody else. Others: the system's.
  static absl::StatusOr<std::unique_ptr<ArenaDirectory>> Open(const std::string& parent,
                                                              const ArenaOwner& owner);

  // The files stay.
  ~ArenaDirectory();
  ArenaDirectory(const ArenaDirectory&) = delete;
  ArenaDirectory& operator=(const ArenaDirectory&) = delete;

  const std::string& path() const { return path_; }

  // Names of files whose names begin so.
  std::vector<std::string> List(const std::string& prefix) const;

  // Deletes all files that are ours, and the directory.
  void Remove();

 private:
  ArenaDirectory(std::string path, std::string data_dir, int lock);
  absl::Status Prepare(const ArenaOwner& owner);

  const std::string path_;
  const std::string data_dir_;
  const int lock_;  // A file; holds the lock.
};

// What a data directory's next arena finds of earlier ones is not to be used: from now on its
// server lives without. An error is the data directory's.
absl::Status DisownArena(const std::string& data_dir);

// Deletes arenas under `parent` that this user's servers made and left, and whose data directories
// are gone, with a line in the log for each.
void RemoveLostArenas(const std::string& parent);
// The same, which goes on in the background after a second: another server's data directory may not
// answer.
void SweepLostArenas(const std::string& parent);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_BLOCK_ARENA_DIRECTORY_H_
