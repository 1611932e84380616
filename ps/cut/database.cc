// Bulk values are not put into RocksDB, which would write them to its log, and again with each
// compaction. They are in table files of its format, each written by one thread of ours and then
// renamed, which is the moment in which all of its values exist. So
//
//  - a value is written to the disk once, and never moved;
//  - a full or failing disk is an error of our own writer. RocksDB itself writes only records, to a
//    log whose room is reserved, and seldom gets into its background errors;
//  - a file is removed as a whole, and its space is free at once;
//  - records are written while a bulk file is;
//  - they go past the system's memory for files, both ways, where the disk takes that: what is
//    written every few seconds, and read after a crash or for a checkpoint, would only push out
//    what is needed there.
//
// Files and records are of no use without each other, and may be on disks of which one is not there
// now: records without their files would be shards that begin anew, and files without records are
// nobody's. So both have the same random id, the files in a file beside them. That comes first, and
// means nothing as long as the records have none.
//
// RocksDB could adopt such files (IngestExternalFile), so that they were part of its key space. It
// is not asked to: after an error of its disk that it has recovered from, version 7.8 reserves no
// number for the next file that it adopts.
#include "ps/cut/database.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/random_token.h"
#include "common/status_macros.h"
#include "common/storage/direct_io.h"
#include "glog/logging.h"
#include "ps/cut/cut_keys.h"
#include "rocksdb/file_system.h"
#include "rocksdb/iterator.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"

namespace millrace::ps {
namespace {

// Kept free for records, which must be written even when cuts cannot.
constexpr uint64_t kReservedBytes = 16 << 20;
constexpr size_t kReadAheadBytes = 8 << 20;
// Written back while the file grows, so that syncing it at the end takes no long breath.
constexpr uint64_t kBytesPerSync = 8 << 20;
// Of one direct write.
constexpr size_t kWriteBytes = 4 << 20;
// Ends the names of files that are only staged.
constexpr char kStaged[] = ".tmp";
// Beside the bulk files: whose they are.
constexpr char kDatabaseIdFile[] = "DATABASE_ID";

rocksdb::Slice ToSlice(absl::string_view text) { return rocksdb::Slice(text.data(), text.size()); }

absl::string_view FromSlice(const rocksdb::Slice& slice) {
  return absl::string_view(slice.data(), slice.size());
}

// Of a bulk file: whatever it has that cannot be read is damage, unless the disk fails.
absl::Status FromReading(const rocksdb::Status& status, absl::string_view what) {
  const absl::Status error = FromRocks(status, what);
  if (error.ok() || absl::IsUnavailable(error)) return error;
  return absl::DataLossError(error.message());
}

std::string BulkDirectory(const std::string& path) { return absl::StrCat(path, ".bulk"); }

// Before RocksDB makes a new database where there is none. Who looked after that would find one the
// next time.
absl::Status CheckRecords(const FileSystemPtr& files, const std::string& path) {
  const rocksdb::IOStatus found =
      files->FileExists(absl::StrCat(path, "/CURRENT"), rocksdb::IOOptions(), nullptr);
  std::vector<std::string> names;
  if (!found.IsNotFound() ||
      !files->GetChildren(BulkDirectory(path), rocksdb::IOOptions(), &names, nullptr).ok()) {
    return absl::OkStatus();
  }
  const auto is_cut = [](const std::string& name) { return ParseCutFileName(name).has_value(); };
  const auto cuts = std::count_if(names.begin(), names.end(), is_cut);
  if (cuts == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the database ", path, " is missing or empty, which says whose the ", cuts, " cuts in ",
      BulkDirectory(path), " are; restore it, or give the server an empty --data_dir"));
}

}  // namespace

void StagedLeftovers::Add(std::string path) {
  MutexLock lock(&mutex_);
  paths_.push_back(std::move(path));
}

std::vector<std::string> StagedLeftovers::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(paths_, {});
}

StagedFile::StagedFile(FileSystemPtr file_system, std::string path, uint64_t bytes,
                       std::shared_ptr<StagedLeftovers> leftovers)
    : file_system_(std::move(file_system)),
      path_(std::move(path)),
      bytes_(bytes),
      leftovers_(std::move(leftovers)) {}

StagedFile::~StagedFile() {
  if (adopted_) return;
  // Where it is not found its directory may be away, and come back with it.
  if (!file_system_->DeleteFile(path_, rocksdb::IOOptions(), nullptr).ok()) leftovers_->Add(path_);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         const DatabaseOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckRecords(options.file_system, path));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<RocksDatabase> rocks,
                            // Whoever has the shards sees which steps they lack.
                            RocksDatabase::Open(path, {.file_system = options.file_system,
                                                       .clock = options.clock,
                                                       .damaged_logs = DamagedLogs::kCutShort}));
  std::unique_ptr<Database> database(
      new Database(std::move(rocks), BulkDirectory(path), options.fault));
  MILLRACE_RETURN_IF_ERROR(database->OpenDirectory());
  MILLRACE_RETURN_IF_ERROR(database->RemoveStaged());
  return database;
}

Database::Database(std::unique_ptr<RocksDatabase> rocks, std::string directory, DatabaseFault fault)
    : rocks_(std::move(rocks)), directory_(std::move(directory)), fault_(std::move(fault)) {}

Database::~Database() = default;

std::string Database::PathOf(const std::string& name) const {
  return absl::StrCat(directory_, "/", name);
}

// A missing one is made only where nothing can have been in it: it may be on a disk that is not
// there now, and all that its files hold would count as lost.
absl::Status Database::CheckNotMissing() const {
  const rocksdb::IOStatus found =
      rocks_->file_system()->FileExists(directory_, rocksdb::IOOptions(), nullptr);
  if (!found.IsNotFound()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const bool has_records, HasRecords());
  if (!has_records) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the directory ", directory_, " is missing, which has the values of the shards ",
                   "in ", rocks_->path(), "; restore it, or give the server an empty --data_dir"));
}

absl::StatusOr<bool> Database::HasRecords() const {
  MILLRACE_ASSIGN_OR_RETURN(const auto records, rocks_->List(RecordPrefix()));
  return !records.empty();
}

absl::Status Database::CheckIds() {
  const std::string path = PathOf(kDatabaseIdFile);
  MILLRACE_ASSIGN_OR_RETURN(const absl::optional<std::string> own, rocks_->Get(DatabaseIdKey()));
  absl::StatusOr<std::string> there = ReadWholeFile(rocks_->file_system(), path);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  if (there.ok()) absl::StripAsciiWhitespace(&*there);
  if (own.has_value() && there.ok() && *there == *own) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const bool has_records, HasRecords());
  if (own.has_value() && has_records) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListFiles());
    std::string how = "it is empty (is it mounted?)";
    if (!files.empty()) {
      how = absl::StrCat(there.ok() ? "its DATABASE_ID is another one" : "it has no DATABASE_ID",
                         " (where it is the right one all the same, write ", *own, " there)");
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the directory ", directory_,
                     " is not the one that has the values of the shards in ", rocks_->path(), ": ",
                     how, "; put the right one there, or give the server an empty ", "--data_dir"));
  }
  // A start that was cut short has left its id, and nothing with it.
  const std::string id = there.ok() ? *there : RandomToken();
  if (!there.ok()) MILLRACE_RETURN_IF_ERROR(WriteDurably(rocks_->file_system(), path, id));
  Changes changes;
  changes.put.emplace_back(DatabaseIdKey(), id);
  return rocks_->Write(changes);
}

absl::Status Database::OpenDirectory() {
  MILLRACE_RETURN_IF_ERROR(CheckNotMissing());
  const FileSystemPtr& files = rocks_->file_system();
  MILLRACE_RETURN_IF_ERROR(
      FromRocks(files->CreateDirIfMissing(directory_, rocksdb::IOOptions(), nullptr),
                absl::StrCat("cannot make ", directory_)));
  MILLRACE_RETURN_IF_ERROR(SyncDirectory(files, DirectoryOf(directory_)));
  MILLRACE_RETURN_IF_ERROR(
      FromRocks(files->NewDirectory(directory_, rocksdb::IOOptions(), &open_directory_, nullptr),
                absl::StrCat("cannot open ", directory_)));
  MILLRACE_ASSIGN_OR_RETURN(place_, DirectoryPlace::Of(directory_));
  direct_io_ = PrefersDirectIo(directory_);
  return CheckIds();
}

absl::Status Database::CheckPlaces() const {
  MILLRACE_RETURN_IF_ERROR(rocks_->CheckPlace());
  return place_->Check();
}

absl::Status Database::RemoveStaged() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(/*staged=*/true));
  return RemoveFiles(names);
}

absl::StatusOr<std::vector<std::string>> Database::Names(bool staged) const {
  std::vector<std::string> names;
  MILLRACE_RETURN_IF_ERROR(FromRocks(
      rocks_->file_system()->GetChildren(directory_, rocksdb::IOOptions(), &names, nullptr),
      absl::StrCat("cannot list ", directory_)));
  const auto is_other = [staged](const std::string& name) {
    return name == "." || name == ".." || absl::EndsWith(name, kStaged) != staged;
  };
  names.erase(std::remove_if(names.begin(), names.end(), is_other), names.end());
  return names;
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

uint64_t Database::TakeRoom(uint64_t bytes) {
  MutexLock lock(&mutex_);
  return std::exchange(room_taken_, room_taken_ + bytes);
}

absl::Status Database::CheckRoom(uint64_t bytes, uint64_t taken) const {
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t all, FreeBytes(rocks_->file_system(), rocks_->path()));
  const uint64_t free = all - std::min(all, taken);
  if (free >= kReservedBytes && free - kReservedBytes >= bytes) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrFormat("no room on the disk of %s: %d MiB are needed, %d MiB are free, and %d MiB "
                      "of them are kept for "
                      "small records; give it room",
                      rocks_->path(), (bytes >> 20) + 1, free >> 20, kReservedBytes >> 20));
}

void Database::GiveRoom(uint64_t bytes) {
  MutexLock lock(&mutex_);
  room_taken_ -= bytes;
}

absl::StatusOr<std::unique_ptr<StagedFile>> Database::Stage(
    uint64_t bytes, const std::function<absl::Status(const Put&)>& fill) {
  MILLRACE_RETURN_IF_ERROR(Fault("flush"));
  MILLRACE_RETURN_IF_ERROR(CheckPlaces());
  RemoveLeftovers();
  uint64_t room = bytes;  // What is written takes its room itself.
  const uint64_t taken = TakeRoom(room);
  const absl::Cleanup give_room = [this, &room] { GiveRoom(room); };
  MILLRACE_RETURN_IF_ERROR(CheckRoom(bytes, taken));
  absl::BitGen random;
  const std::string path =
      PathOf(absl::StrFormat("%016x%s", absl::Uniform<uint64_t>(random), kStaged));
  const std::string what = absl::StrCat("cannot write ", path);
  auto file = std::make_unique<StagedFile>(rocks_->file_system(), path, bytes, leftovers_);
  rocksdb::EnvOptions file_options(rocks_->options());
  file_options.bytes_per_sync = kBytesPerSync;
  file_options.use_direct_writes = direct_io_;
  file_options.writable_file_max_buffer_size = kWriteBytes;
  rocksdb::SstFileWriter writer(file_options, rocks_->options(), /*column_family=*/nullptr,
                                /*invalidate_page_cache=*/false);
  MILLRACE_RETURN_IF_ERROR(FromRocks(writer.Open(path), what));
  MILLRACE_RETURN_IF_ERROR(fill([&](absl::string_view key, absl::string_view value) {
    const absl::Status put = FromRocks(writer.Put(ToSlice(key), ToSlice(value)), what);
    const uint64_t written = std::min<uint64_t>(room, value.size());
    GiveRoom(written);
    room -= written;
    return put;
  }));
  MILLRACE_RETURN_IF_ERROR(FromRocks(writer.Finish(), what));
  return file;
}

absl::Status Database::Adopt(std::unique_ptr<StagedFile> file, const std::string& name) {
  MILLRACE_RETURN_IF_ERROR(CheckPlaces());
  const FileSystemPtr& files = rocks_->file_system();
  MILLRACE_RETURN_IF_ERROR(
      FromRocks(files->RenameFile(file->path_, PathOf(name), rocksdb::IOOptions(), nullptr),
                absl::StrCat("cannot rename ", file->path_, " to ", PathOf(name))));
  file->adopted_ = true;
  return SyncDirectory(files, directory_);
}

void Database::RemoveLeftovers() {
  for (std::string& path : leftovers_->Take()) {
    const rocksdb::IOStatus status =
        rocks_->file_system()->DeleteFile(path, rocksdb::IOOptions(), nullptr);
    if (status.ok() || status.IsNotFound() || status.IsPathNotFound()) continue;
    leftovers_->Add(std::move(path));
  }
}

absl::Status Database::RemoveFiles(const std::vector<std::string>& names) {
  if (names.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckPlaces());
  RemoveLeftovers();
  const FileSystemPtr& files = rocks_->file_system();
  absl::Status first_error;
  for (const std::string& name : names) {
    const rocksdb::IOStatus status = files->DeleteFile(PathOf(name), rocksdb::IOOptions(), nullptr);
    if (status.IsNotFound() || status.IsPathNotFound()) continue;
    first_error.Update(FromRocks(status, absl::StrCat("cannot remove ", PathOf(name))));
  }
  first_error.Update(SyncDirectory(files, directory_));
  return first_error;
}

absl::StatusOr<std::vector<std::string>> Database::ListFiles() const {
  return Names(/*staged=*/false);
}

absl::StatusOr<std::unique_ptr<BulkFile>> Database::OpenFile(const std::string& name) {
  MILLRACE_RETURN_IF_ERROR(Fault("read"));
  MILLRACE_RETURN_IF_ERROR(CheckPlaces());  // Or a file that is away counts as damaged.
  std::string what = absl::StrCat("cannot read ", PathOf(name));
  rocksdb::Options options = rocks_->options();
  options.use_direct_reads = direct_io_;
  auto reader = std::make_unique<rocksdb::SstFileReader>(options);
  const absl::Status opened = FromReading(reader->Open(PathOf(name)), what);
  if (!opened.ok()) {
    MILLRACE_RETURN_IF_ERROR(CheckPlaces());  // They may have been moved since.
    return opened;
  }
  return std::unique_ptr<BulkFile>(new BulkFile(std::move(reader), std::move(what)));
}

absl::Status Database::ReadFile(const std::string& name, const std::string& prefix,
                                const Visit& visit) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<BulkFile> file, OpenFile(name));
  return file->Read(prefix, visit);
}

BulkFile::BulkFile(std::unique_ptr<rocksdb::SstFileReader> reader, std::string what)
    : reader_(std::move(reader)), what_(std::move(what)) {}

BulkFile::~BulkFile() = default;

absl::Status BulkFile::Read(const std::string& prefix, const Visit& visit) {
  rocksdb::ReadOptions options;
  options.readahead_size = kReadAheadBytes;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(reader_->NewIterator(options));
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    MILLRACE_RETURN_IF_ERROR(visit(FromSlice(it->key()), FromSlice(it->value())));
  }
  return FromReading(it->status(), what_);
}

absl::StatusOr<absl::string_view> BulkFile::Get(const std::string& key) {
  if (iterator_ == nullptr) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    iterator_.reset(reader_->NewIterator(options));
  }
  iterator_->Seek(key);
  if (iterator_->Valid() && iterator_->key() == rocksdb::Slice(key)) {
    return FromSlice(iterator_->value());
  }
  MILLRACE_RETURN_IF_ERROR(FromReading(iterator_->status(), what_));
  return absl::DataLossError(absl::StrCat(what_, ": it lacks a value"));
}

}  // namespace millrace::ps
