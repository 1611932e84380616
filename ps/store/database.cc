// Bulk values go around the write-ahead log: Sync() writes the memtable out, so that they reach the
// disk once instead of twice. They are kept in blob files: compaction moves only their keys, and a
// blob file goes when all its values are deleted.
#include "ps/store/database.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
  options.enable_blob_garbage_collection = true;
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
  if (status.IsNoSpace()) return absl::StatusCode::kResourceExhausted;
  if (status.IsInvalidArgument() || status.IsNotSupported()) {
    return absl::StatusCode::kFailedPrecondition;
  }
  return absl::StatusCode::kUnavailable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(DatabaseOptions(), path, &db);
  if (!status.ok()) {
    return absl::Status(ToCode(status),
                        absl::StrCat("cannot open the database ", path, ": ", status.ToString()));
  }
  return std::unique_ptr<Database>(new Database(path, std::unique_ptr<rocksdb::DB>(db)));
}

Database::Database(std::string path, std::unique_ptr<rocksdb::DB> db)
    : path_(std::move(path)), db_(std::move(db)) {}

Database::~Database() = default;

absl::Status Database::Error(absl::string_view operation, const rocksdb::Status& status) const {
  return absl::Status(ToCode(status), absl::StrCat("cannot ", operation, " the database ", path_,
                                                   ": ", status.ToString()));
}

absl::StatusOr<absl::optional<std::string>> Database::Get(absl::string_view key) {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), ToSlice(key), &value);
  if (status.IsNotFound()) return absl::optional<std::string>();
  if (!status.ok()) return Error("read", status);
  return absl::make_optional(std::move(value));
}

absl::Status Database::PutBulk(absl::string_view key, absl::Span<const absl::string_view> parts) {
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
  const rocksdb::Status status = db_->Flush(rocksdb::FlushOptions());
  return status.ok() ? absl::OkStatus() : Error("flush", status);
}

absl::Status Database::Commit(const Changes& changes) {
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

}  // namespace millrace::ps
