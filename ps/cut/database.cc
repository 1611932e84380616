// Bulk values go around the write-ahead log: Sync() writes the memtable out, so that they reach the
// disk once instead of twice. They are kept in blob files: compaction moves only their keys, never
// the values. A blob file goes when all its values are deleted; since a cut's values are written
// together and deleted together, files empty themselves, and collecting what lives in half-empty
// ones would only copy cuts that are about to go.
#include "ps/cut/database.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace millrace::ps {
namespace {

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.enable_blob_files = true;
  options.min_blob_size = 64 << 10;
  options.enable_blob_garbage_collection = false;
  // Far below the limit of 1024 that many systems give a process: sockets need the rest.
  options.max_open_files = 256;
  // A few keys for each megabyte of values: merging them at once costs nothing, and frees blobs
  // early.
  options.level0_file_num_compaction_trigger = 2;
  options.write_buffer_size = 64 << 20;
  options.max_total_wal_size = 16 << 20;
  options.compression = rocksdb::kNoCompression;  // Trained floats do not compress.
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.keep_log_file_num = 4;
  return options;
}

rocksdb::Slice ToSlice(absl::string_view text) { return rocksdb::Slice(text.data(), text.size()); }

absl::string_view FromSlice(const rocksdb::Slice& slice) {
  return absl::string_view(slice.data(), slice.size());
}

absl::StatusCode ToCode(const rocksdb::Status& status) {
  if (status.IsCorruption()) return absl::StatusCode::kDataLoss;
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return absl::StatusCode::kFailedPrecondition;
  }
  // A full disk too: it can be given space while the callers try again.
  return absl::StatusCode::kUnavailable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         DatabaseFault fault) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(), path, &db);
  if (!status.ok()) {
    return absl::Status(ToCode(status),
                        absl::StrCat("cannot open the database ", path, ": ", status.ToString()));
  }
  return std::unique_ptr<Database>(
      new Database(path, std::move(fault), std::unique_ptr<rocksdb::DB>(db)));
}

Database::Database(std::string path, DatabaseFault fault, std::unique_ptr<rocksdb::DB> db)
    : path_(std::move(path)), fault_(std::move(fault)), db_(std::move(db)) {}

Database::~Database() = default;

absl::Status Database::Error(absl::string_view operation, const rocksdb::Status& status) const {
  return absl::Status(ToCode(status), absl::StrCat("cannot ", operation, " the database ", path_,
                                                   ": ", status.ToString()));
}

absl::Status Database::Fault(absl::string_view operation) const {
  return fault_ ? fault_(operation) : absl::OkStatus();
}

absl::StatusOr<absl::optional<std::string>> Database::Get(absl::string_view key) {
  MILLRACE_RETURN_IF_ERROR(Fault("read"));
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
  if (status.IsNotFound()) return absl::optional<std::string>();
  if (!status.ok()) return Error("read", status);
  return absl::make_optional(std::move(value));
}

absl::Status Database::PutBulk(absl::string_view key, absl::Span<const absl::string_view> parts) {
  MILLRACE_RETURN_IF_ERROR(Fault("write"));
  std::vector<rocksdb::Slice> slices;
  for (const absl::string_view part : parts) slices.push_back(ToSlice(part));
  const rocksdb::Slice key_slice = ToSlice(key);
  rocksdb::WriteBatch batch;
  rocksdb::Status status =
      batch.Put(rocksdb::SliceParts(&key_slice, 1),
                rocksdb::SliceParts(slices.data(), static_cast<int>(slices.size())));
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  if (status.ok()) status = db_->Write(options, &batch);
  return status.ok() ? absl::OkStatus() : Error("write", status);
}

absl::Status Database::Sync() {
  MILLRACE_RETURN_IF_ERROR(Fault("flush"));
  const rocksdb::Status status = db_->Flush(rocksdb::FlushOptions());
  return status.ok() ? absl::OkStatus() : Error("flush", status);
}

absl::Status Database::Commit(const Changes& changes) {
  MILLRACE_RETURN_IF_ERROR(Fault("write"));
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const auto& [begin, end] : changes.delete_ranges) {
    if (status.ok()) status = batch.DeleteRange(begin, end);
  }
  for (const auto& [key, value] : changes.put) {
    if (status.ok()) status = batch.Put(key, value);
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  if (status.ok()) status = db_->Write(options, &batch);
  return status.ok() ? absl::OkStatus() : Error("write", status);
}

absl::Status Database::Scan(const std::string& prefix, const Visit& visit) {
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
  it->Seek(prefix);
  while (it->Valid() && it->key().starts_with(prefix)) {
    const absl::optional<std::string> next =
        visit(FromSlice(it->key()), [&it] { return FromSlice(it->value()); });
    if (next.has_value()) {
      it->Seek(*next);
    } else {
      it->Next();
    }
  }
  return it->status().ok() ? absl::OkStatus() : Error("scan", it->status());
}

absl::Status Database::Compact(const std::string& begin, const std::string& end) {
  MILLRACE_RETURN_IF_ERROR(Fault("compact"));
  MILLRACE_RETURN_IF_ERROR(Sync());
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  const rocksdb::Slice begin_slice = ToSlice(begin);
  const rocksdb::Slice end_slice = ToSlice(end);
  const rocksdb::Status status = db_->CompactRange(options, &begin_slice, &end_slice);
  return status.ok() ? absl::OkStatus() : Error("compact", status);
}

}  // namespace millrace::ps
