// What RocksDB does on its own when its disk fails is turned off: its threads would try again
// behind our back, and Debian builds it with assertions, of which some do not hold on that path.
// Instead each write that follows an error asks it to resume first, which runs on our thread. That
// works for errors that may pass, and MakeRetryable says so of all of them: what does not pass is
// found out by trying.
//
// The memory table may have 64 MiB (KeepMemoryTableFilled says why), so a log of somewhat more is
// reserved on the disk when it is begun, and records can be written to it for long after the disk
// is full. Both grow with the records until the table is full and goes to the disk, the log with
// it.
//
// RocksDB has its files open, and would go on to write to them when nobody finds them any more. So
// each write looks first whether the directory is where it was opened. Files that are open keep its
// inode, so that another directory at the path has another one.
#include "common/storage/rocks_database.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/storage/log_check.h"
#include "common/storage/retryable_file_system.h"
#include "glog/logging.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace millrace {
namespace {

// What RocksDB has to say beside the statuses that it returns goes to our log, for who asks for it.
// In a file of its own it would stop the process when the disk is full: the file's writer has an
// assertion against whatever follows an error.
class ToOurLog final : public rocksdb::Logger {
 public:
  ToOurLog() : rocksdb::Logger(rocksdb::WARN_LEVEL) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1000];
    vsnprintf(line, sizeof(line), format, arguments);
    VLOG(1) << "RocksDB: " << line;
  }
  void LogHeader(const char* /*format*/, va_list /*arguments*/) override {}
};

rocksdb::Options MakeOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 20;  // See KeepMemoryTableFilled.
  // Far below the limit of 1024 that many systems give a process: sockets need the rest.
  options.max_open_files = 256;
  // Records only; large files of other data (see SstFileWriter) stay where they were put.
  options.ttl = 0;
  options.periodic_compaction_seconds = 0;
  options.compression = rocksdb::kNoCompression;
  options.max_bgerror_resume_count = 0;
  options.info_log = std::make_shared<ToOurLog>();
  return options;
}

rocksdb::Slice ToSlice(absl::string_view text) { return rocksdb::Slice(text.data(), text.size()); }

absl::StatusCode ToCode(const rocksdb::Status& status) {
  if (status.IsCorruption()) return absl::StatusCode::kDataLoss;
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return absl::StatusCode::kFailedPrecondition;
  }
  if (status.IsPathNotFound() || status.IsNotFound()) return absl::StatusCode::kNotFound;
  return absl::StatusCode::kUnavailable;
}

}  // namespace

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(ToCode(status), absl::StrCat(what, ": ", status.ToString()));
}

absl::StatusOr<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(
    const std::string& path, const RocksDatabaseOptions& options) {
  std::unique_ptr<RocksDatabase> database(new RocksDatabase(
      path, options, rocksdb::NewCompositeEnv(MakeRetryable(options.file_system))));
  const absl::Status logs = CheckLogs(database->env_.get(), path);
  if (absl::IsDataLoss(logs) && options.damaged_logs == DamagedLogs::kCutShort) {
    LOG(ERROR) << std::string(logs.message()) << "; it goes on with what was written before that";
  } else {
    MILLRACE_RETURN_IF_ERROR(logs);
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(*database->options_, path, &db);
  MILLRACE_RETURN_IF_ERROR(FromRocks(status, absl::StrCat("cannot open the database ", path)));
  database->db_.reset(db);
  if (auto place = DirectoryPlace::Of(path); place.ok()) database->place_ = *std::move(place);
  MILLRACE_RETURN_IF_ERROR(database->KeepMemoryTableFilled());
  return database;
}

// After an error in its log RocksDB goes on in a new one, but only if its table in memory has
// something: with an empty one Resume() leaves the broken log in place, and the next write stops
// the process where assertions are on. So there is always something in it, a deletion of nothing
// that is in no log; and the table is so large that it is hardly ever replaced while the disk
// fails.
absl::Status RocksDatabase::KeepMemoryTableFilled() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return Error("prepare", db_->Delete(options, rocksdb::Slice("\0", 1)));
}

RocksDatabase::RocksDatabase(std::string path, const RocksDatabaseOptions& options,
                             std::unique_ptr<rocksdb::Env> env)
    : path_(std::move(path)),
      file_system_(options.file_system),
      clock_(options.clock),
      env_(std::move(env)),
      options_(std::make_unique<rocksdb::Options>(MakeOptions(env_.get()))) {}

RocksDatabase::~RocksDatabase() = default;

absl::Status RocksDatabase::CheckPlace() {
  if (!place_.has_value()) return absl::OkStatus();
  const absl::Status status = place_->Check();
  MutexLock lock(&mutex_);
  LOG_IF(ERROR, !status.ok() && !lost_) << status;
  LOG_IF(INFO, status.ok() && lost_) << "the directory " << path_ << " is there again";
  lost_ = !status.ok();
  return status;
}

absl::Status RocksDatabase::Error(absl::string_view operation,
                                  const rocksdb::Status& status) const {
  return FromRocks(status, absl::StrCat("cannot ", operation, " the database ", path_));
}

absl::Status RocksDatabase::Check(absl::string_view operation, const rocksdb::Status& status) {
  absl::Status error = Error(operation, status);
  if (error.ok()) return error;
  MutexLock lock(&mutex_);
  if (error_.ok()) LOG(ERROR) << error;
  error_ = error;
  next_resume_ = std::max(next_resume_, clock_->Now());
  return error;
}

absl::Status RocksDatabase::Revive() {
  {
    MutexLock lock(&mutex_);
    if (error_.ok()) return absl::OkStatus();
    const absl::Time now = clock_->Now();
    if (now < next_resume_) return error_;
    next_resume_ = now + kResumePause;
  }
  const rocksdb::Status status = db_->Resume();
  absl::Status error = Error("resume", status);
  if (error.ok()) error = KeepMemoryTableFilled();
  MutexLock lock(&mutex_);
  LOG_IF(INFO, error.ok()) << "the database " << path_ << " can be written again";
  error_ = error;
  return error;
}

absl::Status RocksDatabase::Write(const Changes& changes, bool sync) {
  MILLRACE_RETURN_IF_ERROR(CheckPlace());
  MILLRACE_RETURN_IF_ERROR(Revive());
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const std::string& key : changes.remove) {
    if (status.ok()) status = batch.Delete(key);
  }
  for (const auto& [key, value] : changes.put) {
    if (status.ok()) status = batch.Put(key, value);
  }
  rocksdb::WriteOptions options;
  options.sync = sync;
  if (status.ok()) status = db_->Write(options, &batch);
  return Check("write", status);
}

absl::StatusOr<absl::optional<std::string>> RocksDatabase::Get(absl::string_view key) const {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
  if (status.IsNotFound()) return absl::optional<std::string>();
  MILLRACE_RETURN_IF_ERROR(Error("read", status));
  return absl::make_optional(std::move(value));
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> RocksDatabase::List(
    const std::string& prefix) const {
  std::vector<std::pair<std::string, std::string>> found;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    found.emplace_back(it->key().ToString(), it->value().ToString());
  }
  MILLRACE_RETURN_IF_ERROR(Error("read", it->status()));
  return found;
}

}  // namespace millrace
