// A power cut is modelled as the worst that the standard allows: of a file only what was there at
// its last sync remains, and in a directory every name that was made, moved or removed since its
// last sync is as it was. For that, each change of names leaves an entry that undoes it, and files
// that are removed or replaced are kept under another name until their directory is synced.
#include "testing/faults/fault_file_system.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// Names of files that are only kept to be put back.
constexpr char kAside[] = ".aside-";

IOStatus NoPower() { return IOStatus::IOError("the power is off"); }

}  // namespace

class FaultFileSystem::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(FaultFileSystem* owner, std::string path, std::shared_ptr<Synced> synced,
       std::unique_ptr<rocksdb::FSWritableFile>&& file)
      : FSWritableFileOwnerWrapper(std::move(file)),
        owner_(owner),
        path_(std::move(path)),
        synced_(std::move(synced)) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    return WriteAll(data, [&](const rocksdb::Slice& part) {
      return FSWritableFileOwnerWrapper::Append(part, options, debug);
    });
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*info*/, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus PositionedAppend(const rocksdb::Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    return WriteAll(data, [&](const rocksdb::Slice& part) {
      return FSWritableFileOwnerWrapper::PositionedAppend(part, offset, options, debug);
    });
  }
  IOStatus PositionedAppend(const rocksdb::Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& /*info*/,
                            IODebugContext* debug) override {
    return PositionedAppend(data, offset, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    const IOStatus fault = owner_->Operate(/*needs_space=*/false);
    return fault.ok() ? FSWritableFileOwnerWrapper::Truncate(size, options, debug) : fault;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    const IOStatus fault = owner_->Operate(/*needs_space=*/false);
    if (!fault.ok()) return fault;
    const IOStatus flushed = FSWritableFileOwnerWrapper::Flush(options, debug);
    // Asked of the system: a file that was opened again knows only what was written since.
    std::error_code error;
    const uint64_t bytes = fs::file_size(path_, error);
    if (!error) synced_->bytes = bytes;
    return flushed;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  IOStatus RangeSync(uint64_t /*offset*/, uint64_t /*bytes*/, const IOOptions& /*options*/,
                     IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus Allocate(uint64_t /*offset*/, uint64_t /*bytes*/, const IOOptions& /*options*/,
                    IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }

 private:
  // A torn write leaves half of its sectors.
  template <typename WriteSome>
  IOStatus WriteAll(const rocksdb::Slice& data, const WriteSome& write) {
    bool torn = false;
    const IOStatus fault = owner_->Operate(/*needs_space=*/true, &torn);
    if (fault.ok()) return write(data);
    if (torn) write(rocksdb::Slice(data.data(), HalfOf(data.size()))).PermitUncheckedError();
    return fault;
  }

  size_t HalfOf(size_t bytes) const {
    const size_t half = bytes / 2;
    return use_direct_io() ? half - half % GetRequiredBufferAlignment() : half;
  }

  FaultFileSystem* const owner_;
  const std::string path_;
  const std::shared_ptr<Synced> synced_;
};

class FaultFileSystem::ReadFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  ReadFile(FaultFileSystem* owner, std::unique_ptr<rocksdb::FSRandomAccessFile>&& file)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), owner_(owner) {}

  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    const IOStatus fault = owner_->CountRead();
    if (!fault.ok()) return fault;
    return FSRandomAccessFileOwnerWrapper::Read(offset, bytes, options, result, scratch, debug);
  }

 private:
  FaultFileSystem* const owner_;
};

class FaultFileSystem::Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(FaultFileSystem* owner, std::string path,
            std::unique_ptr<rocksdb::FSDirectory>&& directory)
      : FSDirectoryWrapper(std::move(directory)), owner_(owner), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    const IOStatus fault = owner_->Operate(/*needs_space=*/false);
    if (fault.ok()) owner_->NamesSynced(path_);
    return fault;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& /*sync_options*/) override {
    return Fsync(options, debug);
  }

 private:
  FaultFileSystem* const owner_;
  const std::string path_;
};

void FaultFileSystem::Arm(uint64_t operations, Fault fault) {
  MutexLock lock(&mutex_);
  armed_at_ = operations_ + operations + 1;
  fault_ = fault;
  fired_ = false;
}

void FaultFileSystem::ArmRead(uint64_t reads) {
  MutexLock lock(&mutex_);
  armed_at_read_ = reads_ + reads + 1;
  fired_ = false;
}

void FaultFileSystem::Heal() {
  MutexLock lock(&mutex_);
  armed_at_ = 0;
  armed_at_read_ = 0;
  full_ = false;
}

void FaultFileSystem::PowerOff() {
  MutexLock lock(&mutex_);
  off_ = true;
}

bool FaultFileSystem::fired() const {
  MutexLock lock(&mutex_);
  return fired_;
}

uint64_t FaultFileSystem::operations() const {
  MutexLock lock(&mutex_);
  return operations_;
}

uint64_t FaultFileSystem::reads() const {
  MutexLock lock(&mutex_);
  return reads_;
}

void FaultFileSystem::SetFreeBytes(uint64_t bytes) {
  MutexLock lock(&mutex_);
  free_bytes_ = bytes;
}

IOStatus FaultFileSystem::Operate(bool needs_space, bool* torn) {
  MutexLock lock(&mutex_);
  if (off_) return NoPower();
  if (++operations_ == armed_at_) {
    fired_ = true;
    switch (fault_) {
      case Fault::kError:
        return IOStatus::IOError("an injected error");
      case Fault::kFull:
        full_ = true;
        break;
      case Fault::kTorn:
        if (torn != nullptr) *torn = true;
        off_ = true;
        return NoPower();
      case Fault::kPowerOff:
        off_ = true;
        return NoPower();
    }
  }
  if (full_ && needs_space) return IOStatus::NoSpace("an injected full disk");
  return IOStatus::OK();
}

IOStatus FaultFileSystem::CountRead() {
  MutexLock lock(&mutex_);
  if (++reads_ != armed_at_read_) return IOStatus::OK();
  fired_ = true;
  return IOStatus::IOError("an injected error");
}

void FaultFileSystem::MadeDirectory(const std::string& path) {
  MutexLock lock(&mutex_);
  undo_.push_back({DirectoryOf(path), [path] {
                     std::error_code ignored;
                     fs::remove_all(path, ignored);
                   }});
}

void FaultFileSystem::Made(const std::string& path, std::shared_ptr<Synced> synced) {
  MutexLock lock(&mutex_);
  synced_[path] = std::move(synced);
  undo_.push_back({DirectoryOf(path), [path] {
                     std::error_code ignored;
                     fs::remove(path, ignored);
                   }});
}

void FaultFileSystem::NamesSynced(const std::string& directory) {
  MutexLock lock(&mutex_);
  undo_.erase(
      std::remove_if(undo_.begin(), undo_.end(),
                     [&directory](const Undo& undo) { return undo.directory == directory; }),
      undo_.end());
}

std::string FaultFileSystem::KeepAside(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return "";
  std::string aside;
  {
    MutexLock lock(&mutex_);
    // In the directory above: nobody lists it.
    aside = absl::StrCat(DirectoryOf(path), kAside, ++kept_aside_);
  }
  fs::remove(aside, error);
  fs::create_hard_link(path, aside, error);
  return error ? "" : aside;  // Another thread may have removed it meanwhile.
}

IOStatus FaultFileSystem::NewWritableFile(const std::string& path,
                                          const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSWritableFile>* file,
                                          IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/true);
  std::unique_ptr<rocksdb::FSWritableFile> real;
  if (status.ok()) status = FileSystemWrapper::NewWritableFile(path, options, &real, debug);
  if (!status.ok()) return status;
  auto synced = std::make_shared<Synced>();
  Made(path, synced);
  *file = std::make_unique<File>(this, path, std::move(synced), std::move(real));
  return status;
}

IOStatus FaultFileSystem::ReopenWritableFile(const std::string& path,
                                             const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSWritableFile>* file,
                                             IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/false);
  std::unique_ptr<rocksdb::FSWritableFile> real;
  if (status.ok()) status = FileSystemWrapper::ReopenWritableFile(path, options, &real, debug);
  if (!status.ok()) return status;
  std::shared_ptr<Synced> synced;
  {
    MutexLock lock(&mutex_);
    synced = synced_[path];
    if (synced == nullptr) {
      synced = std::make_shared<Synced>();
      synced->bytes = fs::file_size(path);  // From an earlier life.
      synced_[path] = synced;
    }
  }
  *file = std::make_unique<File>(this, path, std::move(synced), std::move(real));
  return status;
}

IOStatus FaultFileSystem::NewDirectory(const std::string& path, const IOOptions& options,
                                       std::unique_ptr<rocksdb::FSDirectory>* directory,
                                       IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> real;
  const IOStatus status = FileSystemWrapper::NewDirectory(path, options, &real, debug);
  if (status.ok()) *directory = std::make_unique<Directory>(this, path, std::move(real));
  return status;
}

IOStatus FaultFileSystem::RenameFile(const std::string& from, const std::string& to,
                                     const IOOptions& options, IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/true);
  if (!status.ok()) return status;
  const std::string replaced = KeepAside(to);
  status = FileSystemWrapper::RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  const std::shared_ptr<Synced> before = synced_[to];
  const std::shared_ptr<Synced> moved = synced_[from];
  synced_.erase(from);
  synced_[to] = moved;
  undo_.push_back({DirectoryOf(to), [this, from, to, replaced, before, moved] {
                     mutex_.AssertHeld();
                     std::error_code ignored;
                     fs::rename(to, from, ignored);
                     if (!replaced.empty()) fs::rename(replaced, to, ignored);
                     synced_[from] = moved;
                     synced_[to] = before;
                   }});
  return status;
}

IOStatus FaultFileSystem::LinkFile(const std::string& from, const std::string& to,
                                   const IOOptions& options, IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/true);
  if (status.ok()) status = FileSystemWrapper::LinkFile(from, to, options, debug);
  if (!status.ok()) return status;
  std::shared_ptr<Synced> synced;
  {
    MutexLock lock(&mutex_);
    synced = synced_[from];
  }
  Made(to, std::move(synced));
  return status;
}

IOStatus FaultFileSystem::DeleteFile(const std::string& path, const IOOptions& options,
                                     IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/false);
  if (!status.ok()) return status;
  const std::string aside = KeepAside(path);
  status = FileSystemWrapper::DeleteFile(path, options, debug);
  if (!status.ok() || aside.empty()) return status;
  MutexLock lock(&mutex_);
  undo_.push_back({DirectoryOf(path), [aside, path] {
                     std::error_code ignored;
                     fs::rename(aside, path, ignored);
                   }});
  return status;
}

IOStatus FaultFileSystem::CreateDir(const std::string& path, const IOOptions& options,
                                    IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/true);
  if (status.ok()) status = FileSystemWrapper::CreateDir(path, options, debug);
  if (status.ok()) MadeDirectory(path);
  return status;
}

IOStatus FaultFileSystem::CreateDirIfMissing(const std::string& path, const IOOptions& options,
                                             IODebugContext* debug) {
  std::error_code error;
  if (fs::is_directory(path, error)) return IOStatus::OK();
  return CreateDir(path, options, debug);
}

IOStatus FaultFileSystem::DeleteDir(const std::string& path, const IOOptions& options,
                                    IODebugContext* debug) {
  IOStatus status = Operate(/*needs_space=*/false);
  if (status.ok()) status = FileSystemWrapper::DeleteDir(path, options, debug);
  if (!status.ok()) return status;
  MutexLock lock(&mutex_);
  undo_.push_back({DirectoryOf(path), [path] {
                     std::error_code ignored;
                     fs::create_directory(path, ignored);
                   }});
  return status;
}

IOStatus FaultFileSystem::NewRandomAccessFile(const std::string& path,
                                              const rocksdb::FileOptions& options,
                                              std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                              IODebugContext* debug) {
  IOStatus status = CountRead();
  std::unique_ptr<rocksdb::FSRandomAccessFile> real;
  if (status.ok()) status = FileSystemWrapper::NewRandomAccessFile(path, options, &real, debug);
  if (status.ok()) *file = std::make_unique<ReadFile>(this, std::move(real));
  return status;
}

IOStatus FaultFileSystem::GetChildren(const std::string& path, const IOOptions& options,
                                      std::vector<std::string>* names, IODebugContext* debug) {
  const IOStatus fault = CountRead();
  return fault.ok() ? FileSystemWrapper::GetChildren(path, options, names, debug) : fault;
}

IOStatus FaultFileSystem::FileExists(const std::string& path, const IOOptions& options,
                                     IODebugContext* debug) {
  const IOStatus fault = CountRead();
  return fault.ok() ? FileSystemWrapper::FileExists(path, options, debug) : fault;
}

IOStatus FaultFileSystem::GetFileSize(const std::string& path, const IOOptions& options,
                                      uint64_t* bytes, IODebugContext* debug) {
  const IOStatus fault = CountRead();
  return fault.ok() ? FileSystemWrapper::GetFileSize(path, options, bytes, debug) : fault;
}

IOStatus FaultFileSystem::Truncate(const std::string& path, size_t size, const IOOptions& options,
                                   IODebugContext* debug) {
  const IOStatus status = Operate(/*needs_space=*/false);
  return status.ok() ? FileSystemWrapper::Truncate(path, size, options, debug) : status;
}

IOStatus FaultFileSystem::GetFreeSpace(const std::string& path, const IOOptions& options,
                                       uint64_t* bytes, IODebugContext* debug) {
  {
    MutexLock lock(&mutex_);
    if (free_bytes_ != UINT64_MAX || full_) {
      *bytes = full_ ? 0 : free_bytes_;
      return IOStatus::OK();
    }
  }
  return FileSystemWrapper::GetFreeSpace(path, options, bytes, debug);
}

void FaultFileSystem::DropUnsynced() {
  MutexLock lock(&mutex_);
  while (!undo_.empty()) {
    undo_.back().run();
    undo_.pop_back();
  }
  for (const auto& [path, synced] : synced_) {
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    if (error || synced == nullptr || size <= synced->bytes) continue;
    fs::resize_file(path, synced->bytes, error);
  }
}

}  // namespace millrace::testing
