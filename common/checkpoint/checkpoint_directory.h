// The checkpoints in a directory: which there are, how one becomes one, and how one goes.
#ifndef MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/storage/durable_file.h"
#include "protos/checkpoint.pb.h"

namespace millrace {

// Calls block on the disk, which may be a network's. At most one process writes at a time; others
// may read. Errors: UNAVAILABLE: the disk fails or is full, which may pass.
class CheckpointDirectory {
 public:
  // `manifests`, if any, must outlive it: what was read of this directory before.
  CheckpointDirectory(FileSystemPtr file_system, std::string path,
                      ManifestCache* manifests = nullptr);

  const std::string& path() const { return path_; }

  struct Listed {
    uint64_t number = 0;
    absl::StatusOr<CheckpointManifest> manifest;  // Or why it cannot be read.
  };
  // What has a manifest, by number. NOT_FOUND: there is no directory.
  absl::StatusOr<std::vector<Listed>> List() const;

  // The highest number that has a manifest. NOT_FOUND: there is no directory, or none in it.
  absl::StatusOr<uint64_t> Newest() const;

  // Whether checkpoints can be made here: the directory is there, or can be made (it is, and
  // removed again). NOT_FOUND: the one above is not there. INVALID_ARGUMENT: the path is too long,
  // or that of something else. FAILED_PRECONDITION: it cannot be made.
  absl::Status CheckPlace() const;

  // Makes the directory, if it is not there; returns whether it was not. NOT_FOUND: the directory
  // above is not there.
  absl::StatusOr<bool> Make();

  // The job that has the directory, as `owner` says; "" where no such file is there. One that has
  // it writes its name there first, and looks whether it still has it before it writes anything
  // else.
  absl::StatusOr<std::string> Owner() const;
  // Makes the directory, if it is not there. NOT_FOUND: the directory above is not there.
  absl::Status SetOwner(const std::string& job_id);

  // Makes the folder of a new checkpoint, above all that are there and at least `at_least`, and the
  // directory itself, if it is not there. Returns the number. NOT_FOUND: the directory above is not
  // there.
  absl::StatusOr<uint64_t> Begin(uint64_t at_least = 1);

  // The checkpoint manifest->number() is one when this returns OK, whatever happens. Sets its
  // `checksum` and `format_version`. After an error it is none, unless the disk does not even let
  // its manifest be removed. FAILED_PRECONDITION: a file that it names is not there any more, or it
  // is one already.
  absl::Status Commit(CheckpointManifest* manifest);

  // It is no checkpoint any more when this returns OK; then its files go that no other one refers
  // to. NOT_FOUND: it is none. After an error CollectGarbage() removes the rest.
  absl::Status Remove(uint64_t number);

  // Removes what no checkpoint refers to from the folder of this number alone, and the folder as
  // CollectGarbage() does.
  absl::Status CleanFolder(uint64_t number);

  struct Garbage {
    uint64_t files = 0;  // Removed.
    uint64_t bytes = 0;
    // Why something had to stay: a checkpoint cannot be read, and may need what older folders have;
    // or a folder or a file cannot be removed.
    absl::Status kept_for;
  };
  // Removes files of ours that no checkpoint refers to, and folders that are empty then; nothing in
  // the folders from `in_progress` on (0: in none), nor beside them while one is in progress. The
  // folder with the highest number stays, even if it is empty: Begin() goes above it, so that no
  // number is given twice, and whoever still writes to one that was given up does no harm. Files
  // that are not ours stay. NOT_FOUND: there is no directory. To be called on a start, before each
  // Begin() and after a checkpoint that was given up.
  absl::StatusOr<Garbage> CollectGarbage(uint64_t in_progress);

 private:
  absl::Status CheckAbove() const;
  absl::Status CleanFolders(const std::vector<uint64_t>& folders);
  // Makes `latest` name the newest.
  absl::Status UpdateLatest();

  const FileSystemPtr file_system_;
  const std::string path_;
  ManifestCache* const manifests_;
};

struct WrittenCheckpoint {
  uint64_t number = 0;
  absl::Time written;
  bool counts = true;  // The run goes on from it, and it is not known to be damaged.
};

// Which of `checkpoints` (by number) are to go: all but the newest `keep` (at least 1), and but
// those that stay for ever: the oldest, and then each that was written `keep_one_every` or more
// after the one before that stays for ever, or before it, by a clock that was put back (0: none
// stays for ever). In order. Those that do not count go with those beside them that are as old.
// `is_whole` (nullptr: all are) says of one that counts whether it is not damaged. It is asked of
// no more than it has to be, since it may read much: where none can go, of none; else of the newest
// ones, and of one that stays for ever when another one would go beside it.
std::vector<uint64_t> CheckpointsToRemove(
    const std::vector<WrittenCheckpoint>& checkpoints, uint32_t keep, absl::Duration keep_one_every,
    const std::function<bool(uint64_t number)>& is_whole = nullptr);

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
