// Direct writes go in large pieces from two buffers in turn: while one is written by a thread, the
// caller fills the other.
#include "common/checkpoint/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/storage/direct_io.h"
#include "common/storage/rocks_database.h"
#include "rocksdb/file_system.h"

namespace millrace {
namespace {

// Written with one call.
constexpr uint64_t kAppendBytes = 1 << 20;
// The same of direct writes, which wait for the disk each time.
constexpr size_t kBufferBytes = NewFile::kMemoryBytes / 2;
// The system begins to write so many to the disk, so that little is left for the sync at the end.
constexpr uint64_t kRangeSyncBytes = 8 << 20;

}  // namespace

NewFile::NewFile(NewFileOptions options, std::string path)
    : options_(std::move(options)), path_(std::move(path)) {}

NewFile::~NewFile() {
  if (mine_ >= 0) close(mine_);
}

absl::Status NewFile::Check(const rocksdb::IOStatus& status, absl::string_view operation) const {
  return FromRocks(status, absl::StrCat("cannot ", operation, " ", path_));
}

absl::Status NewFile::IsThere() const {
  return absl::AlreadyExistsError(absl::StrCat("cannot create ", path_, ": it is there already"));
}

absl::Status NewFile::Create() {
  const rocksdb::IOStatus exists =
      options_.file_system->FileExists(path_, rocksdb::IOOptions(), nullptr);
  if (exists.ok()) return IsThere();
  if (!exists.IsNotFound()) return Check(exists, "create");
  MILLRACE_RETURN_IF_ERROR(Claim());
  return options_.bulk && PrefersDirectIo(DirectoryOf(path_)) ? OpenDirect() : Open();
}

// Makes the file, unless it is there. RocksDB's file systems cannot.
absl::Status NewFile::Claim() {
  mine_ = open(path_.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (mine_ >= 0) return absl::OkStatus();
  const int error = errno;
  if (error == EEXIST) return IsThere();
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(absl::StrCat("cannot create ", path_, ": its folder is not there"));
  }
  return absl::UnavailableError(absl::StrCat("cannot create ", path_, ": ", strerror(error)));
}

// With nothing in it.
absl::Status NewFile::Open() {
  return Check(
      options_.file_system->NewWritableFile(path_, rocksdb::FileOptions(), &file_, nullptr),
      "create");
}

absl::Status NewFile::OpenDirect() {
  rocksdb::FileOptions options;
  options.use_direct_writes = true;
  MILLRACE_RETURN_IF_ERROR(
      Check(options_.file_system->NewWritableFile(path_, options, &file_, nullptr), "create"));
  const size_t alignment = file_->GetRequiredBufferAlignment();
  for (Buffer* buffer : {&filling_, &writing_}) {
    buffer->reset(static_cast<char*>(std::aligned_alloc(alignment, kBufferBytes)));
    if (*buffer == nullptr) return absl::ResourceExhaustedError("not enough memory for a buffer");
  }
  return absl::OkStatus();
}

absl::Status NewFile::Append(absl::string_view bytes) {
  if (filling_ == nullptr) return AppendBuffered(bytes);
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const absl::string_view part = bytes.substr(0, kBufferBytes - filled_);
    std::memcpy(filling_.get() + filled_, part.data(), part.size());
    filled_ += part.size();
    bytes.remove_prefix(part.size());
    if (filled_ == kBufferBytes) MILLRACE_RETURN_IF_ERROR(WriteAside());
  }
  return absl::OkStatus();
}

// Through the system's memory for files.
absl::Status NewFile::AppendBuffered(absl::string_view bytes) {
  while (!bytes.empty()) {
    const absl::string_view part = bytes.substr(0, kAppendBytes);
    MILLRACE_RETURN_IF_ERROR(TakeTurn(part.size()));
    MILLRACE_RETURN_IF_ERROR(Write(part));
    bytes_ += part.size();
    bytes.remove_prefix(part.size());
    if (bytes_ - range_synced_ < kRangeSyncBytes) continue;
    MILLRACE_RETURN_IF_ERROR(Check(
        file_->RangeSync(range_synced_, bytes_ - range_synced_, rocksdb::IOOptions(), nullptr),
        "sync"));
    range_synced_ = bytes_;
  }
  return absl::OkStatus();
}

// Returns when so many bytes may be written.
absl::Status NewFile::TakeTurn(uint64_t bytes) const {
  if (options_.before_write == nullptr) return absl::OkStatus();
  for (uint64_t taken = 0; taken < bytes; taken += kAppendBytes) {
    MILLRACE_RETURN_IF_ERROR(options_.before_write(std::min(kAppendBytes, bytes - taken)));
  }
  return absl::OkStatus();
}

absl::Status NewFile::Write(absl::string_view bytes) {
  return Check(
      file_->Append(rocksdb::Slice(bytes.data(), bytes.size()), rocksdb::IOOptions(), nullptr),
      "write");
}

// The full buffer.
absl::Status NewFile::WriteAside() {
  MILLRACE_RETURN_IF_ERROR(TakeTurn(kBufferBytes));
  MILLRACE_RETURN_IF_ERROR(AwaitWritten());
  std::swap(filling_, writing_);
  filled_ = 0;
  // Without threads to be had it is written when it is waited for.
  written_ = std::async(std::launch::async | std::launch::deferred, [this] {
    return Write({writing_.get(), kBufferBytes});
  });
  return absl::OkStatus();
}

absl::Status NewFile::AwaitWritten() {
  return written_.valid() ? written_.get() : absl::OkStatus();
}

// What is left in the buffer, as whole sectors; the file ends where its bytes do.
absl::Status NewFile::WriteRest() {
  MILLRACE_RETURN_IF_ERROR(TakeTurn(filled_));
  MILLRACE_RETURN_IF_ERROR(AwaitWritten());
  const size_t sector = file_->GetRequiredBufferAlignment();
  const size_t padded = (filled_ + sector - 1) / sector * sector;
  std::fill(filling_.get() + filled_, filling_.get() + padded, '\0');
  if (padded > 0) MILLRACE_RETURN_IF_ERROR(Write({filling_.get(), padded}));
  if (padded == filled_) return absl::OkStatus();
  return Check(file_->Truncate(bytes_, rocksdb::IOOptions(), nullptr), "truncate");
}

absl::Status NewFile::Finish() {
  if (filling_ != nullptr) MILLRACE_RETURN_IF_ERROR(WriteRest());
  MILLRACE_RETURN_IF_ERROR(Check(file_->Sync(rocksdb::IOOptions(), nullptr), "sync"));
  return Check(file_->Close(rocksdb::IOOptions(), nullptr), "close");
}

void NewFile::Remove() {
  AwaitWritten().IgnoreError();
  file_.reset();
  struct stat mine = {};
  struct stat there = {};
  if (mine_ < 0 || fstat(mine_, &mine) != 0 || lstat(path_.c_str(), &there) != 0 ||
      mine.st_dev != there.st_dev || mine.st_ino != there.st_ino) {
    return;
  }
  options_.file_system->DeleteFile(path_, rocksdb::IOOptions(), nullptr).PermitUncheckedError();
}

}  // namespace millrace
