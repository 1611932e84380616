// The order is what makes it last: the bytes are synced before the rename, so that the name never
// stands for half a file; and the directory after it, so that the name is there after a power cut.
#include "common/storage/durable_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "common/storage/rocks_database.h"
#include "rocksdb/file_system.h"

namespace millrace {
namespace {

using rocksdb::FileOptions;
using rocksdb::IOOptions;

absl::Status Check(const rocksdb::Status& status, absl::string_view operation,
                   const std::string& path) {
  return FromRocks(status, absl::StrCat("cannot ", operation, " ", path));
}

}  // namespace

FileSystemPtr RealFileSystem() { return rocksdb::FileSystem::Default(); }

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<DurableFile> DurableFile::Create(const FileSystemPtr& file_system,
                                                const std::string& path) {
  absl::BitGen random;
  std::string temporary = absl::StrFormat("%s.tmp-%016x", path, absl::Uniform<uint64_t>(random));
  std::unique_ptr<rocksdb::FSWritableFile> file;
  MILLRACE_RETURN_IF_ERROR(Check(
      file_system->NewWritableFile(temporary, FileOptions(), &file, nullptr), "create", temporary));
  return DurableFile(file_system, path, std::move(temporary), std::move(file));
}

DurableFile::DurableFile(FileSystemPtr file_system, std::string path, std::string temporary,
                         std::unique_ptr<rocksdb::FSWritableFile> file)
    : file_system_(std::move(file_system)),
      path_(std::move(path)),
      temporary_(std::move(temporary)),
      file_(std::move(file)) {}

DurableFile::DurableFile(DurableFile&& other) noexcept = default;

DurableFile::~DurableFile() {
  if (file_ == nullptr) return;
  file_->Close(IOOptions(), nullptr).PermitUncheckedError();
  file_system_->DeleteFile(temporary_, IOOptions(), nullptr).PermitUncheckedError();
}

absl::Status DurableFile::Append(absl::string_view bytes) {
  return Check(file_->Append(rocksdb::Slice(bytes.data(), bytes.size()), IOOptions(), nullptr),
               "write", temporary_);
}

absl::Status DurableFile::Commit() {
  MILLRACE_RETURN_IF_ERROR(Check(file_->Sync(IOOptions(), nullptr), "sync", temporary_));
  MILLRACE_RETURN_IF_ERROR(Check(file_->Close(IOOptions(), nullptr), "close", temporary_));
  MILLRACE_RETURN_IF_ERROR(Check(file_system_->RenameFile(temporary_, path_, IOOptions(), nullptr),
                                 absl::StrCat("rename ", temporary_, " to"), path_));
  file_.reset();
  return SyncDirectory(file_system_, DirectoryOf(path_));
}

absl::Status WriteDurably(const FileSystemPtr& file_system, const std::string& path,
                          absl::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(file_system, path));
  MILLRACE_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

absl::StatusOr<std::string> ReadWholeFile(const FileSystemPtr& file_system,
                                          const std::string& path) {
  std::string text;
  const rocksdb::IOStatus status = rocksdb::ReadFileToString(file_system.get(), path, &text);
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": it is not there"));
  }
  if (status.ok()) return text;
  if (const std::string why = WhyNothingCanBeAt(path); !why.empty()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", why));
  }
  return Check(status, "read", path);
}

std::string WhyNothingCanBeAt(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0) return "";
  const int error = errno;
  const bool is_nowhere = error == ENOTDIR || error == ENAMETOOLONG || error == ELOOP;
  return is_nowhere ? std::generic_category().message(error) : "";
}

absl::Status SyncDirectory(const FileSystemPtr& file_system, const std::string& directory) {
  std::unique_ptr<rocksdb::FSDirectory> opened;
  rocksdb::Status status = file_system->NewDirectory(directory, IOOptions(), &opened, nullptr);
  if (status.ok()) status = opened->Fsync(IOOptions(), nullptr);
  return Check(status, "sync the directory", directory);
}

absl::StatusOr<uint64_t> FreeBytes(const FileSystemPtr& file_system, const std::string& path) {
  uint64_t free = 0;
  MILLRACE_RETURN_IF_ERROR(Check(file_system->GetFreeSpace(path, IOOptions(), &free, nullptr),
                                 "ask for space at", path));
  return free;
}

}  // namespace millrace
