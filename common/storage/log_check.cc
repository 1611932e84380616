// The format is the one of https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format:
// blocks of 32 KiB, of records that no block divides: a masked CRC-32C, the length, a type, and the
// bytes; zeros where fewer than a header are left of a block.
#include "common/storage/log_check.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/crc32c.h"
#include "common/status_macros.h"
#include "common/storage/rocks_database.h"
#include "rocksdb/env.h"

namespace millrace {
namespace {

constexpr char kDamagedLog[] = "millrace.damaged_log";
constexpr size_t kBlockBytes = 32 << 10;
constexpr size_t kTypeAt = 6;  // After the CRC and the length.
constexpr size_t kHeaderBytes = 7;
// A whole record, and the first part of one that blocks divide.
constexpr unsigned char kFull = 1;
constexpr unsigned char kFirst = 2;
constexpr unsigned char kLastType = 4;  // Middle and last parts; 0: what was only reserved.

size_t LeftOfBlock(size_t offset) { return kBlockBytes - offset % kBlockBytes; }

// The bytes of the whole record that begins here; 0: none does.
size_t RecordBytes(absl::string_view log, size_t offset) {
  const size_t left = std::min(LeftOfBlock(offset), log.size() - offset);
  if (left < kHeaderBytes) return 0;
  const absl::string_view header = log.substr(offset, kHeaderBytes);
  const auto byte = [&header](size_t i) { return static_cast<unsigned char>(header[i]); };
  const size_t length = byte(4) | byte(5) << 8;
  if (byte(kTypeAt) == 0 || byte(kTypeAt) > kLastType || kHeaderBytes + length > left) return 0;
  const absl::string_view bytes = log.substr(offset + kTypeAt, 1 + length);
  return MatchesMaskedCrc32c(bytes, header.substr(0, kCrcBytes)) ? kHeaderBytes + length : 0;
}

// Not so a later part: it may be of the write that a crash cut short, whose pages reach the disk in
// any order.
bool BeginsRecord(absl::string_view log, size_t offset) {
  const unsigned char type = log[offset + kTypeAt];
  return type == kFull || type == kFirst;
}

bool IsLog(const std::string& name) {
  absl::string_view number = name;
  return absl::ConsumeSuffix(&number, ".log") && !number.empty() &&
         std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

absl::optional<uint64_t> FindDamageInLog(absl::string_view log) {
  size_t offset = 0;
  for (;;) {
    if (LeftOfBlock(offset) < kHeaderBytes) offset += LeftOfBlock(offset);
    if (offset >= log.size()) return absl::nullopt;
    const size_t bytes = RecordBytes(log, offset);
    if (bytes == 0) break;
    offset += bytes;
  }
  for (size_t behind = offset + 1; behind < log.size(); ++behind) {
    if (RecordBytes(log, behind) > 0 && BeginsRecord(log, behind)) return offset;
  }
  return absl::nullopt;
}

bool IsDamagedLog(const absl::Status& status) { return status.GetPayload(kDamagedLog).has_value(); }

absl::Status CheckLogs(rocksdb::Env* env, const std::string& directory) {
  std::vector<std::string> names;
  const rocksdb::Status listed = env->GetChildren(directory, &names);
  if (listed.IsNotFound() || listed.IsPathNotFound()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(FromRocks(listed, absl::StrCat("cannot list ", directory)));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!IsLog(name)) continue;
    std::string log;
    const std::string path = absl::StrCat(directory, "/", name);
    MILLRACE_RETURN_IF_ERROR(
        FromRocks(rocksdb::ReadFileToString(env, path, &log), absl::StrCat("cannot read ", path)));
    if (const auto damage = FindDamageInLog(log)) {
      absl::Status status =
          absl::DataLossError(absl::StrCat(path, " is damaged at byte ", *damage,
                                           ", and what was written after that cannot be read"));
      status.SetPayload(kDamagedLog, absl::Cord(path));
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
