// A file system that fails where a test wants it to, under RocksDB and under our own files.
#ifndef MILLRACE_TESTING_FAULTS_FAULT_FILE_SYSTEM_H_
#define MILLRACE_TESTING_FAULTS_FAULT_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "common/storage/durable_file.h"
#include "rocksdb/file_system.h"

namespace millrace::testing {

// What a chosen operation does.
enum class Fault {
  kError,  // It fails with EIO, and those that follow work.
  kFull,   // It fails with ENOSPC, and so do all that need space, until Heal().
  kTorn,   // Half of what it writes is written; then the power is off.
  kPowerOff,
};

// Counts the operations that change something (make, write, sync, rename, link, delete, truncate;
// make and delete a directory) and lets one of them fail. Counts those that read apart. Syncing is
// only noted, so that tests need not wait for a disk; what was not synced is gone after
// DropUnsynced(). Thread-safe.
class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FaultFileSystem() : rocksdb::FileSystemWrapper(RealFileSystem()) {}

  const char* Name() const override { return "FaultFileSystem"; }

  // The operation after `operations` more does `fault`. Replaces what was armed before.
  void Arm(uint64_t operations, Fault fault) ABSL_LOCKS_EXCLUDED(mutex_);
  // The read after `reads` more (of a file, its size, or a directory) fails with EIO, and those
  // that follow work. Replaces what was armed before.
  void ArmRead(uint64_t reads) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing fails any more; the power stays off if it is.
  void Heal() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing can be read or written any more: what a process does after its last moment.
  void PowerOff() ABSL_LOCKS_EXCLUDED(mutex_);
  // What was armed has happened.
  bool fired() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How many operations there were.
  uint64_t operations() const ABSL_LOCKS_EXCLUDED(mutex_);
  // And reads.
  uint64_t reads() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What GetFreeSpace says, instead of the truth.
  void SetFreeBytes(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Leaves on the disk what a power cut leaves: of each file what was synced, of each directory the
  // names that were. REQUIRES: nobody has a file open; use another object afterwards.
  void DropUnsynced() ABSL_LOCKS_EXCLUDED(mutex_);

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus FileExists(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus GetFileSize(const std::string& path, const rocksdb::IOOptions& options,
                                uint64_t* bytes, rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t size,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options,
                                 uint64_t* bytes, rocksdb::IODebugContext* debug) override;

 private:
  class File;
  class ReadFile;
  class Directory;
  // Sizes of a file; one for all its names.
  struct Synced {
    uint64_t bytes = 0;
  };
  // A name that was made, moved or removed, and is not synced yet.
  struct Undo {
    std::string directory;
    std::function<void()> run;
  };

  // Counts an operation. OK, or what it fails with; `torn`: half of it is to be done first.
  rocksdb::IOStatus Operate(bool needs_space, bool* torn = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  rocksdb::IOStatus CountRead() ABSL_LOCKS_EXCLUDED(mutex_);
  void MadeDirectory(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  void Made(const std::string& path, std::shared_ptr<Synced> synced) ABSL_LOCKS_EXCLUDED(mutex_);
  void NamesSynced(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  // A second name of the file, outside of all directories that are looked at, or empty.
  std::string KeepAside(const std::string& path);

  mutable Mutex mutex_;
  uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t armed_at_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: nothing is armed.
  uint64_t reads_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t armed_at_read_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: nothing is armed.
  Fault fault_ ABSL_GUARDED_BY(mutex_) = Fault::kError;
  bool fired_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
  bool off_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t free_bytes_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;  // UINT64_MAX: the truth.
  uint64_t kept_aside_ ABSL_GUARDED_BY(mutex_) = 0;
  // Files that were written through this object, by name.
  std::map<std::string, std::shared_ptr<Synced>> synced_ ABSL_GUARDED_BY(mutex_);
  std::vector<Undo> undo_ ABSL_GUARDED_BY(mutex_);  // The oldest first.
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_FAULTS_FAULT_FILE_SYSTEM_H_
