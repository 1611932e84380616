#include "ps/cut/cut_keys.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

constexpr size_t kLengthBytes = 2;
constexpr size_t kShardBytes = 4;
constexpr size_t kCutBytes = 8;
constexpr char kFileSuffix[] = ".sst";

std::string BigEndian(uint64_t number, size_t bytes) {
  std::string result(bytes, '\0');
  for (size_t i = bytes; i-- > 0; number >>= 8) result[i] = static_cast<char>(number & 0xff);
  return result;
}

uint64_t FromBigEndian(absl::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

}  // namespace

std::string ShardKey(absl::string_view job_id, uint32_t shard) {
  CHECK_LT(job_id.size(), size_t{1} << 16);
  return absl::StrCat(BigEndian(job_id.size(), kLengthBytes), job_id,
                      BigEndian(shard, kShardBytes));
}

std::string RecordPrefix() { return "S"; }
std::string RecordKey(absl::string_view shard_key) { return absl::StrCat("S", shard_key); }

std::string HadCutPrefix() { return "H"; }
std::string HadCutKey(absl::string_view shard_key) { return absl::StrCat("H", shard_key); }

std::string DroppedPrefix() { return "D"; }
std::string DroppedKey(absl::string_view shard_key) { return absl::StrCat("D", shard_key); }

std::string NextNumberKey() { return "N"; }
std::string CleanStopKey() { return "E"; }
std::string DatabaseIdKey() { return "I"; }

std::string CutPrefix(absl::string_view shard_key, uint64_t cut) {
  return absl::StrCat("C", shard_key, BigEndian(cut, kCutBytes));
}

std::string ManifestKey(absl::string_view shard_key, uint64_t cut) {
  return absl::StrCat(CutPrefix(shard_key, cut), "M");
}

std::string BlocksPrefix(absl::string_view shard_key, uint64_t cut) {
  return absl::StrCat(CutPrefix(shard_key, cut), "B");
}

std::string BlockKey(absl::string_view shard_key, uint64_t cut, uint32_t block, int array) {
  return absl::StrCat(BlocksPrefix(shard_key, cut), BigEndian(block, 4),
                      BigEndian(static_cast<uint64_t>(array), 1));
}

std::string HeldPrefix(absl::string_view shard_key, uint64_t cut, uint64_t step) {
  return absl::StrCat(CutPrefix(shard_key, cut), "H", BigEndian(step, 8));
}

std::string HeldKey(absl::string_view shard_key, uint64_t cut, uint64_t step, uint32_t block) {
  return absl::StrCat(HeldPrefix(shard_key, cut, step), BigEndian(block, 4));
}

std::string CutFileName(absl::string_view shard_key, uint64_t cut) {
  const absl::string_view job_id =
      shard_key.substr(kLengthBytes, shard_key.size() - kLengthBytes - kShardBytes);
  const uint64_t shard = FromBigEndian(shard_key.substr(shard_key.size() - kShardBytes));
  return absl::StrCat(job_id, ".", shard, ".", cut, kFileSuffix);
}

absl::optional<CutKey> ParseCutFileName(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, kFileSuffix)) return absl::nullopt;
  std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  uint64_t cut = 0;
  uint32_t shard = 0;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts.back(), &cut) ||
      !absl::SimpleAtoi(parts[parts.size() - 2], &shard)) {
    return absl::nullopt;
  }
  parts.resize(parts.size() - 2);  // The job's id may have dots.
  CutKey key{ShardKey(absl::StrJoin(parts, "."), shard), cut};
  if (CutFileName(key.shard_key, cut) != absl::StrCat(name, kFileSuffix)) return absl::nullopt;
  return key;
}

absl::optional<ShardId> ParseRecordKey(absl::string_view key) {
  if (key.size() < 1 + kLengthBytes + kShardBytes || key[0] != 'S') return absl::nullopt;
  const uint64_t length = FromBigEndian(key.substr(1, kLengthBytes));
  const absl::string_view rest = key.substr(1 + kLengthBytes);
  if (rest.size() != length + kShardBytes) return absl::nullopt;
  return ShardId{std::string(rest.substr(0, length)),
                 static_cast<uint32_t>(FromBigEndian(rest.substr(length)))};
}

}  // namespace millrace::ps
