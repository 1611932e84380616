#include "common/storage/retryable_file_system.h"

#include <memory>
#include <string>
#include <utility>

#include "rocksdb/file_system.h"

namespace millrace {
namespace {

using rocksdb::DataVerificationInfo;
using rocksdb::DirFsyncOptions;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus Retryable(IOStatus status) {
  if (status.ok()) return status;
  // RocksDB treats a full disk apart: a thread of its own looks at the disk every few seconds, and
  // Resume() is refused until that one has found room.
  if (status.IsNoSpace()) status = IOStatus::IOError(status.ToString());
  status.SetRetryable(true);
  return status;
}

class File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  using FSWritableFileOwnerWrapper::FSWritableFileOwnerWrapper;

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return Retryable(target()->Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo& info,
                  IODebugContext* debug) override {
    return Retryable(target()->Append(data, options, info, debug));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    return Retryable(target()->PositionedAppend(data, offset, options, debug));
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const DataVerificationInfo& info, IODebugContext* debug) override {
    return Retryable(target()->PositionedAppend(data, offset, options, info, debug));
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    return Retryable(target()->Truncate(size, options, debug));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    return Retryable(target()->Close(options, debug));
  }
  IOStatus Flush(const IOOptions& options, IODebugContext* debug) override {
    return Retryable(target()->Flush(options, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Retryable(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Retryable(target()->Fsync(options, debug));
  }
};

class Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  using FSDirectoryWrapper::FSDirectoryWrapper;

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Retryable(FSDirectoryWrapper::Fsync(options, debug));
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const DirFsyncOptions& sync_options) override {
    return Retryable(FSDirectoryWrapper::FsyncWithDirOptions(options, debug, sync_options));
  }
};

class RetryableFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char* Name() const override { return "RetryableFileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    return Wrap(target()->NewWritableFile(path, options, file, debug), file);
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* debug) override {
    return Wrap(target()->ReopenWritableFile(path, options, file, debug), file);
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* directory,
                        IODebugContext* debug) override {
    const IOStatus status = Retryable(target()->NewDirectory(path, options, directory, debug));
    if (status.ok()) *directory = std::make_unique<Directory>(std::move(*directory));
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override {
    return Retryable(target()->RenameFile(from, to, options, debug));
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    return Retryable(target()->LinkFile(from, to, options, debug));
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    return Retryable(target()->DeleteFile(path, options, debug));
  }

 private:
  static IOStatus Wrap(IOStatus status, std::unique_ptr<rocksdb::FSWritableFile>* file) {
    if (status.ok()) *file = std::make_unique<File>(std::move(*file));
    return Retryable(std::move(status));
  }
};

}  // namespace

FileSystemPtr MakeRetryable(FileSystemPtr real) {
  return std::make_shared<RetryableFileSystem>(std::move(real));
}

}  // namespace millrace
