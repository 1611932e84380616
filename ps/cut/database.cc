// Bulk values do not go through RocksDB's memtables: their files are written by a thread of ours
// with SstFileWriter, synced, and then adopted with one small write to RocksDB's manifest, which is
// the moment in which all of their values exist. So
//
//  - a value is written to the disk once, and never moved: a file's keys overlap with no other's,
//  so it
//    goes to the last level at once, and no compaction looks at it;
//  - a full or failing disk is an error of our own writer. RocksDB itself writes only records, to a
//  log
//    whose room is reserved, and seldom gets into its background errors;
//  - a file is removed as a whole, and its space is free at once;
//  - records are written while a bulk file is.
//
// A crash leaves files that were not adopted: in the staging directory, which is cleared when the
// database is opened, or as a second name in the database's own, which RocksDB clears then.
#include "ps/cut/database.h"

#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "rocksdb/metadata.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"

namespace millrace::ps {
namespace {

// Kept free for records, which must be written even when cuts cannot.
constexpr uint64_t kReservedBytes = 16 << 20;
constexpr size_t kReadAheadBytes = 8 << 20;
// Written back while the file grows, so that syncing it at the end takes no long breath.
constexpr uint64_t kBytesPerSync = 8 << 20;

rocksdb::Slice ToSlice(absl::string_view text) { return rocksdb::Slice(text.data(), text.size()); }

absl::string_view FromSlice(const rocksdb::Slice& slice) {
  return absl::string_view(slice.data(), slice.size());
}

rocksdb::IngestExternalFileOptions AdoptOptions() {
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.failed_move_fall_back_to_copy = false;
  options.snapshot_consistency = false;
  options.allow_global_seqno = false;
  options.allow_blocking_flush = false;
  options.write_global_seqno = false;
  options.verify_file_checksum = false;
  return options;
}

}  // namespace

StagedFile::StagedFile(FileSystemPtr file_system, std::string path, uint64_t bytes)
    : file_system_(std::move(file_system)), path_(std::move(path)), bytes_(bytes) {}

StagedFile::~StagedFile() {
  // Adopting it has moved it away.
  file_system_->DeleteFile(path_, rocksdb::IOOptions(), nullptr).PermitUncheckedError();
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         const DatabaseOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<RocksDatabase> rocks,
      RocksDatabase::Open(path, {.file_system = options.file_system, .clock = options.clock}));
  std::unique_ptr<Database> database(
      new Database(std::move(rocks), absl::StrCat(path, ".staging"), options.fault));
  MILLRACE_RETURN_IF_ERROR(database->ClearStaging());
  return database;
}

Database::Database(std::unique_ptr<RocksDatabase> rocks, std::string staging, DatabaseFault fault)
    : rocks_(std::move(rocks)), staging_(std::move(staging)), fault_(std::move(fault)) {}

absl::Status Database::ClearStaging() {
  const FileSystemPtr& files = rocks_->file_system();
  const std::string what = absl::StrCat("cannot clear ", staging_);
  MILLRACE_RETURN_IF_ERROR(
      FromRocks(files->CreateDirIfMissing(staging_, rocksdb::IOOptions(), nullptr), what));
  std::vector<std::string> names;
  MILLRACE_RETURN_IF_ERROR(
      FromRocks(files->GetChildren(staging_, rocksdb::IOOptions(), &names, nullptr), what));
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    MILLRACE_RETURN_IF_ERROR(FromRocks(
        files->DeleteFile(absl::StrCat(staging_, "/", name), rocksdb::IOOptions(), nullptr), what));
  }
  return absl::OkStatus();
}

absl::Status Database::Fault(absl::string_view operation) const {
  return fault_ ? fault_(operation) : absl::OkStatus();
}

absl::StatusOr<absl::optional<std::string>> Database::Get(absl::string_view key) {
  MILLRACE_RETURN_IF_ERROR(Fault("read"));
  return rocks_->Get(key);
}

absl::Status Database::Commit(const Changes& changes) {
  MILLRACE_RETURN_IF_ERROR(Fault("write"));
  return rocks_->Write(changes);
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Database::List(
    const std::string& prefix) {
  MILLRACE_RETURN_IF_ERROR(Fault("read"));
  return rocks_->List(prefix);
}

absl::Status Database::CheckRoom(uint64_t bytes) const {
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(rocks_->file_system(), rocks_->path()));
  if (free >= kReservedBytes && free - kReservedBytes >= bytes) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrFormat("no room on the disk of %s: %d MiB are needed, %d MiB are free, and %d MiB "
                      "of them are kept for "
                      "small records; give it room",
                      rocks_->path(), (bytes >> 20) + 1, free >> 20, kReservedBytes >> 20));
}

absl::StatusOr<std::unique_ptr<StagedFile>> Database::Stage(
    uint64_t bytes, const std::function<absl::Status(const Put&)>& fill) {
  MILLRACE_RETURN_IF_ERROR(Fault("flush"));
  MILLRACE_RETURN_IF_ERROR(CheckRoom(bytes));
  absl::BitGen random;
  const std::string path = absl::StrFormat("%s/%016x", staging_, absl::Uniform<uint64_t>(random));
  const std::string what = absl::StrCat("cannot write ", path);
  auto file = std::make_unique<StagedFile>(rocks_->file_system(), path, bytes);
  rocksdb::EnvOptions file_options(rocks_->options());
  file_options.bytes_per_sync = kBytesPerSync;
  rocksdb::SstFileWriter writer(file_options, rocks_->options(), /*column_family=*/nullptr,
                                /*invalidate_page_cache=*/false);
  MILLRACE_RETURN_IF_ERROR(FromRocks(writer.Open(path), what));
  MILLRACE_RETURN_IF_ERROR(fill([&](absl::string_view key, absl::string_view value) {
    return FromRocks(writer.Put(ToSlice(key), ToSlice(value)), what);
  }));
  MILLRACE_RETURN_IF_ERROR(FromRocks(writer.Finish(), what));
  return file;
}

absl::Status Database::Adopt(std::unique_ptr<StagedFile> file) {
  MILLRACE_RETURN_IF_ERROR(rocks_->Revive());
  return rocks_->Check("adopt a file into",
                       rocks_->db()->IngestExternalFile({file->path()}, AdoptOptions()));
}

absl::Status Database::RemoveFiles(const std::vector<std::pair<std::string, std::string>>& ranges) {
  if (ranges.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(rocks_->Revive());
  std::vector<rocksdb::Slice> slices;
  slices.reserve(2 * ranges.size());
  std::vector<rocksdb::RangePtr> pointers;
  for (const auto& [begin, end] : ranges) {
    slices.emplace_back(begin);
    slices.emplace_back(end);
    pointers.emplace_back(&slices[slices.size() - 2], &slices[slices.size() - 1]);
  }
  rocksdb::DB* const db = rocks_->db();
  return rocks_->Check("remove files of",
                       rocksdb::DeleteFilesInRanges(db, db->DefaultColumnFamily(), pointers.data(),
                                                    pointers.size(), /*include_end=*/false));
}

std::vector<std::string> Database::ListFiles() const {
  std::vector<rocksdb::LiveFileMetaData> files;
  rocks_->db()->GetLiveFilesMetaData(&files);
  std::vector<std::string> first_keys;
  for (const rocksdb::LiveFileMetaData& file : files) first_keys.push_back(file.smallestkey);
  return first_keys;
}

absl::Status Database::ReadBulk(const std::string& prefix, const Visit& visit) {
  MILLRACE_RETURN_IF_ERROR(Fault("read"));
  rocksdb::ReadOptions options;
  options.readahead_size = kReadAheadBytes;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(rocks_->db()->NewIterator(options));
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    MILLRACE_RETURN_IF_ERROR(visit(FromSlice(it->key()), FromSlice(it->value())));
  }
  return FromRocks(it->status(), absl::StrCat("cannot read the database ", rocks_->path()));
}

}  // namespace millrace::ps
