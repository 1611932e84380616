// A file of a checkpoint while it is written.
#ifndef MILLRACE_COMMON_CHECKPOINT_NEW_FILE_H_
#define MILLRACE_COMMON_CHECKPOINT_NEW_FILE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/storage/durable_file.h"

namespace rocksdb {
class IOStatus;
}  // namespace rocksdb

namespace millrace {

struct NewFileOptions {
  FileSystemPtr file_system = RealFileSystem();
  // Called before so many bytes are written, at most 1 MiB: may wait. An error ends the writing
  // with it. May be null.
  std::function<absl::Status(uint64_t bytes)> before_write;
  // Much is written that nobody reads soon: where PrefersDirectIo says so, it goes past the
  // system's memory for files, on a thread of its own.
  bool bulk = false;
};

// Written from its beginning to its end, under its own name. The file that it has made stays open
// for as long as it lives, so that it can tell it from others of the same name. Not thread-safe;
// blocks on the disk. Statuses: ALREADY_EXISTS, NOT_FOUND (no folder), UNAVAILABLE (the disk fails
// or is full), errors of before_write.
class NewFile {
 public:
  // The most memory that one takes.
  static constexpr uint64_t kMemoryBytes = 8 << 20;  // Two buffers of direct writes.

  NewFile(NewFileOptions options, std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Before all else. Takes no file that is there.
  absl::Status Create();
  absl::Status Append(absl::string_view bytes);
  // All is on the disk when it returns OK; the name is when its directory was synced.
  absl::Status Finish();
  // If it is the file that this object has made.
  void Remove();

  // Appended so far.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  using Buffer = std::unique_ptr<char, Free>;

  absl::Status Check(const rocksdb::IOStatus& status, absl::string_view operation) const;
  absl::Status IsThere() const;
  absl::Status Claim();
  absl::Status Open();
  absl::Status OpenDirect();
  absl::Status AppendBuffered(absl::string_view bytes);
  absl::Status TakeTurn(uint64_t bytes) const;
  absl::Status Write(absl::string_view bytes);
  absl::Status WriteAside();
  absl::Status AwaitWritten();
  absl::Status WriteRest();

  const NewFileOptions options_;
  const std::string path_;
  std::unique_ptr<rocksdb::FSWritableFile> file_;
  // Of direct writes, or both are nullptr: the one that is filled, and the other, which is being
  // written.
  Buffer filling_;
  Buffer writing_;
  size_t filled_ = 0;  // Bytes in filling_.
  int mine_ = -1;      // The file, open for as long as this lives.
  uint64_t bytes_ = 0;
  uint64_t range_synced_ = 0;
  // Of writing_, if it is being written. The last member: it uses the others.
  std::future<absl::Status> written_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_CHECKPOINT_NEW_FILE_H_
