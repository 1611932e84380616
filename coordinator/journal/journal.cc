// Keys: "format" says whose database it is; "job/NUMBER" holds a JobRecord, "events/NUMBER"
// a count and "step/NUMBER" another one, NUMBER in 20 digits so that keys sort as numbers do;
// "evacuated" holds EvacuatedDirectories.
// (Those made by earlier versions have a key "tag" besides.)
//
// Sequence numbers of events must have no gaps and never be used twice, or a watcher that resumes
// would miss some. Their count is written with each event, which is cheap because it is not synced:
// the write is in the kernel's hands, and only a crash of the machine, or a disk that is full, can
// lose it. How many steps were done then is written with it: what was told of progress is known in
// the next life.
#include "coordinator/journal/journal.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job_state.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "common/storage/log_check.h"

namespace millrace::coordinator {
namespace {

constexpr char kFormatKey[] = "format";
constexpr char kFormat[] = "millrace coordinator 1";
constexpr char kJobPrefix[] = "job/";
constexpr char kEvacuatedKey[] = "evacuated";

std::string JobKey(uint64_t number) { return absl::StrFormat("job/%020d", number); }
std::string EventsKey(uint64_t number) { return absl::StrFormat("events/%020d", number); }
std::string StepKey(uint64_t number) { return absl::StrFormat("step/%020d", number); }

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
  if (has_database || std::filesystem::exists(directory + "/LOCK", error)) return absl::OkStatus();
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename() != kLockFile) return SomethingElse(directory);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) {
  auto lock = DirectoryLock::Take(directory);
  if (lock.ok() || !absl::IsUnavailable(lock.status())) return lock;
  return absl::FailedPreconditionError(
      absl::StrCat("--data_dir ", directory, ": another process has it open; stop that one, or ",
                   "name another directory"));
}

// The flag is what an operator knows it by.
absl::Status Named(const std::string& directory, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("--data_dir ", directory, ": ", std::string(status.message())));
}

absl::Status Damaged(const std::string& directory, const absl::Status& status) {
  const std::string what =
      absl::StrCat("--data_dir ", directory, ": ", std::string(status.message()),
                   "; put back a whole copy of the directory");
  if (!IsDamagedLog(status)) return absl::DataLossError(what);
  return absl::DataLossError(absl::StrCat(
      what, "; or start the coordinator once with --cut_damaged_journal, which goes on with what ",
      "precedes the damage: jobs that were taken after that are unknown then, and those that have ",
      "ended since fail"));
}

// What a job asks for and this program does not know it would leave out.
absl::Status CheckKnown(const std::string& directory, const JobRecord& record) {
  if (HasEnded(record.state())) return absl::OkStatus();
  const absl::Status known = CheckAllKnown(record.spec(), "its spec");
  if (known.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--data_dir ", directory, ": job ", record.job_id(), ": ", known.message(),
                   "; start the version of the coordinator that took the job, and cancel it there ",
                   "if this one is to go on"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& directory,
                                                       const RocksDatabaseOptions& options) {
  MILLRACE_RETURN_IF_ERROR(MakeDirectory(directory));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<DirectoryLock> lock, Lock(directory));
  auto database = RocksDatabase::Open(directory, options);
  // Other column families.
  if (absl::IsFailedPrecondition(database.status())) return SomethingElse(directory);
  if (absl::IsDataLoss(database.status())) return Damaged(directory, database.status());
  MILLRACE_RETURN_IF_ERROR(Named(directory, database.status()));
  std::unique_ptr<Journal> journal(new Journal(directory, std::move(lock), *std::move(database)));
  MILLRACE_RETURN_IF_ERROR(journal->CheckFormat());
  return journal;
}

Journal::Journal(std::string directory, std::unique_ptr<DirectoryLock> lock,
                 std::unique_ptr<RocksDatabase> database)
    : directory_(std::move(directory)), lock_(std::move(lock)), database_(std::move(database)) {}

absl::Status Journal::CheckFormat() {
  const auto format = database_->Get(kFormatKey);
  MILLRACE_RETURN_IF_ERROR(Named(directory_, format.status()));
  if (format->has_value() && **format == kFormat) return absl::OkStatus();
  const auto keys = database_->List("");
  MILLRACE_RETURN_IF_ERROR(Named(directory_, keys.status()));
  if (keys->empty()) return Put({{kFormatKey, kFormat}}, /*sync=*/true);
  return SomethingElse(directory_);
}

absl::StatusOr<std::vector<Journal::Entry>> Journal::ReadJobs() const {
  const auto jobs = database_->List(kJobPrefix);
  MILLRACE_RETURN_IF_ERROR(Named(directory_, jobs.status()));
  std::vector<Entry> entries;
  for (const auto& [key, value] : *jobs) {
    Entry entry;
    if (!entry.record.ParseFromString(value)) {
      return absl::DataLossError(
          absl::StrCat("--data_dir ", directory_, ": the entry ", key, " cannot be read"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckKnown(directory_, entry.record));
    MILLRACE_ASSIGN_OR_RETURN(entry.events, Count(EventsKey(entry.record.number())));
    MILLRACE_ASSIGN_OR_RETURN(entry.step, Count(StepKey(entry.record.number())));
    entries.push_back(std::move(entry));
  }
  return entries;
}

// What is there already is written once more.
absl::Status Journal::CheckWritable() { return Put({{kFormatKey, kFormat}}, /*sync=*/false); }

absl::Status Journal::Write(const JobRecord& record) {
  // With the step: of what was told before, a later step may have been taken back.
  return Put({{JobKey(record.number()), record.SerializeAsString()},
              {StepKey(record.number()), absl::StrCat(record.step())}},
             /*sync=*/true);
}

absl::Status Journal::Forget(uint64_t job_number) {
  return Named(
      directory_,
      database_->Write(
          {.put = {}, .remove = {JobKey(job_number), EventsKey(job_number), StepKey(job_number)}}));
}

absl::StatusOr<EvacuatedDirectories> Journal::ReadEvacuated() const {
  const auto value = database_->Get(kEvacuatedKey);
  MILLRACE_RETURN_IF_ERROR(Named(directory_, value.status()));
  EvacuatedDirectories directories;
  if (!value->has_value() || directories.ParseFromString(**value)) return directories;
  return absl::DataLossError(
      absl::StrCat("--data_dir ", directory_, ": the entry ", kEvacuatedKey, " cannot be read"));
}

absl::Status Journal::WriteEvacuated(const EvacuatedDirectories& directories) {
  return Put({{kEvacuatedKey, directories.SerializeAsString()}}, /*sync=*/true);
}

absl::Status Journal::WriteEvents(uint64_t job_number, uint64_t events, uint64_t step) {
  return Put(
      {{EventsKey(job_number), absl::StrCat(events)}, {StepKey(job_number), absl::StrCat(step)}},
      /*sync=*/false);
}

// 0 where there is none. Not where it cannot be read: numbers would be used twice.
absl::StatusOr<uint64_t> Journal::Count(const std::string& key) const {
  const auto text = database_->Get(key);
  MILLRACE_RETURN_IF_ERROR(Named(directory_, text.status()));
  uint64_t count = 0;
  if (text->has_value() && !absl::SimpleAtoi(**text, &count)) {
    return absl::DataLossError(
        absl::StrCat("--data_dir ", directory_, ": the entry ", key, " cannot be read"));
  }
  return count;
}

absl::Status Journal::Put(Values values, bool sync) {
  return Named(directory_, database_->Write({.put = std::move(values), .remove = {}}, sync));
}

}  // namespace millrace::coordinator
