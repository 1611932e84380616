// Keys: "format" says whose database it is; "job/NUMBER" holds a JobRecord and "events/NUMBER" a
// count, NUMBER in 20 digits so that keys sort as numbers do.
//
// Sequence numbers of events must have no gaps and never be used twice, or a watcher that resumes
// would miss some. Their count is written with each event, which is cheap because it is not synced:
// the write is in the kernel's hands, and only a crash of the machine can lose it.
#include "coordinator/journal/journal.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "rocksdb/db.h"

namespace millrace::coordinator {
namespace {

constexpr char kFormatKey[] = "format";
constexpr char kFormat[] = "millrace coordinator 1";
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

bool IsLocked(const rocksdb::Status& status) {
  return status.IsIOError() && status.ToString().find("lock") != std::string::npos;
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

absl::Status Journal::WriteEvents(uint64_t job_number, uint64_t events) {
  return Put(EventsKey(job_number), absl::StrCat(events), /*sync=*/false);
}

absl::Status Journal::Put(const std::string& key, const std::string& value, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status status = db_->Put(options, key, value);
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("--data_dir ", directory_, ": ", key,
                                          " cannot be written: ", status.ToString()));
}

}  // namespace millrace::coordinator
