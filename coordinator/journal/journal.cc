// Keys: "format" says whose database it is; "tag" holds the journal's tag; "job/NUMBER" holds a
// JobRecord and "events/NUMBER" a count, NUMBER in 20 digits so that keys sort as numbers do.
//
// Sequence numbers of events must have no gaps and never be used twice, or a watcher that resumes
// would miss some. Their count is written with each event, which is cheap because it is not synced:
// the write is in the kernel's hands, and only a crash of the machine can lose it.
#include "coordinator/journal/journal.h"

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"

namespace millrace::coordinator {
namespace {

constexpr char kFormatKey[] = "format";
constexpr char kFormat[] = "millrace coordinator 1";
constexpr char kTagKey[] = "tag";
constexpr char kJobPrefix[] = "job/";

std::string JobKey(uint64_t number) { return absl::StrFormat("job/%020d", number); }
std::string EventsKey(uint64_t number) { return absl::StrFormat("events/%020d", number); }

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 1 << 20;
  options.keep_log_file_num = 2;
  options.paranoid_checks = true;
  return options;
}

// RocksDB has no code for it. Another process has the file's lock, or this one has the database
// open; a LOCK file that may not be written is another matter.
bool IsLocked(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return status.IsIOError() &&
         ((absl::StrContains(text, "While lock file") && !absl::StrContains(text, "denied")) ||
          absl::StrContains(text, "lock hold by current process"));
}

// Without letters and digits that look alike.
std::string DrawTag() {
  constexpr absl::string_view kLetters = "abcdefghjkmnpqrstuvwxyz23456789";
  constexpr int kLength = 4;
  std::random_device random;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string tag;
  for (int i = 0; i < kLength; ++i) tag += kLetters[letter(random)];
  return tag;
}

// A database of another kind, or other files: either way not ours to write to.
absl::Status SomethingElse(const std::string& directory) {
  return absl::FailedPreconditionError(absl::StrCat(
      "--data_dir ", directory, ": holds something that is not a coordinator's journal; ",
      "name an empty directory"));
}

absl::Status MakeDirectory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error && !std::filesystem::is_directory(directory, error)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("--data_dir ", directory, ": cannot be made: ", error.message()));
  }
  const bool has_database = std::filesystem::exists(directory + "/CURRENT", error);
  if (!has_database && !std::filesystem::is_empty(directory, error) &&
      !std::filesystem::exists(directory + "/LOCK", error)) {
    return SomethingElse(directory);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& directory) {
  MILLRACE_RETURN_IF_ERROR(MakeDirectory(directory));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(), directory, &db);
  if (IsLocked(status)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--data_dir ", directory, ": another process has it open; stop that one, or ",
                     "name another directory"));
  }
  if (status.IsInvalidArgument()) return SomethingElse(directory);  // Other column families.
  if (!status.ok()) {
    return absl::InternalError(
        absl::StrCat("--data_dir ", directory, ": cannot be opened: ", status.ToString()));
  }
  std::unique_ptr<Journal> journal(new Journal(directory, std::unique_ptr<rocksdb::DB>(db)));
  MILLRACE_RETURN_IF_ERROR(journal->CheckFormat());
  MILLRACE_RETURN_IF_ERROR(journal->ReadOrDrawTag());
  return journal;
}

Journal::Journal(std::string directory, std::unique_ptr<rocksdb::DB> db)
    : directory_(std::move(directory)), db_(std::move(db)) {}

Journal::~Journal() = default;

absl::Status Journal::CheckFormat() {
  std::string format;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), kFormatKey, &format);
  if (status.ok() && format == kFormat) return absl::OkStatus();
  std::unique_ptr<rocksdb::Iterator> keys(db_->NewIterator(rocksdb::ReadOptions()));
  keys->SeekToFirst();
  if (status.IsNotFound() && !keys->Valid()) return Put(kFormatKey, kFormat, /*sync=*/true);
  return SomethingElse(directory_);
}

absl::Status Journal::ReadOrDrawTag() {
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), kTagKey, &tag_);
  if (status.ok()) return absl::OkStatus();
  if (!status.IsNotFound()) {
    return absl::InternalError(
        absl::StrCat("--data_dir ", directory_, ": cannot be read: ", status.ToString()));
  }
  tag_ = DrawTag();
  return Put(kTagKey, tag_, /*sync=*/true);
}

absl::StatusOr<std::vector<Journal::Entry>> Journal::ReadJobs() const {
  std::vector<Entry> entries;
  std::unique_ptr<rocksdb::Iterator> keys(db_->NewIterator(rocksdb::ReadOptions()));
  for (keys->Seek(kJobPrefix); keys->Valid() && keys->key().starts_with(kJobPrefix); keys->Next()) {
    Entry entry;
    if (!entry.record.ParseFromArray(keys->value().data(), keys->value().size())) {
      return absl::DataLossError(absl::StrCat("--data_dir ", directory_, ": the entry ",
                                              keys->key().ToString(), " cannot be read"));
    }
    std::string events;
    const auto status = db_->Get(rocksdb::ReadOptions(), EventsKey(entry.record.number()), &events);
    if (status.ok() && !absl::SimpleAtoi(events, &entry.events)) entry.events = 0;
    entries.push_back(std::move(entry));
  }
  if (!keys->status().ok()) {
    return absl::DataLossError(
        absl::StrCat("--data_dir ", directory_, ": cannot be read: ", keys->status().ToString()));
  }
  return entries;
}

absl::Status Journal::Write(const JobRecord& record) {
  return Put(JobKey(record.number()), record.SerializeAsString(), /*sync=*/true);
}

absl::Status Journal::Forget(uint64_t job_number) {
  rocksdb::WriteBatch batch;
  batch.Delete(JobKey(job_number)).PermitUncheckedError();
  batch.Delete(EventsKey(job_number)).PermitUncheckedError();
  rocksdb::WriteOptions options;
  options.sync = true;
  return Written(JobKey(job_number), db_->Write(options, &batch));
}

absl::Status Journal::WriteEvents(uint64_t job_number, uint64_t events) {
  return Put(EventsKey(job_number), absl::StrCat(events), /*sync=*/false);
}

absl::Status Journal::Put(const std::string& key, const std::string& value, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  return Written(key, db_->Put(options, key, value));
}

absl::Status Journal::Written(const std::string& key, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // After an error RocksDB refuses all writes until it is asked to look at the disk again.
  db_->Resume().PermitUncheckedError();
  return absl::InternalError(absl::StrCat("--data_dir ", directory_, ": ", key,
                                          " cannot be written: ", status.ToString()));
}

}  // namespace millrace::coordinator
