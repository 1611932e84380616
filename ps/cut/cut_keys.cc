#include "ps/cut/cut_keys.h"

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

constexpr size_t kLengthBytes = 2;
constexpr size_t kShardBytes = 4;
constexpr size_t kCutBytes = 8;

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

std::string CleanStopKey() { return "E"; }

std::string CutsPrefix() { return "C"; }
std::string CutsPrefix(absl::string_view shard_key) { return absl::StrCat("C", shard_key); }
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

absl::optional<CutKey> ParseCutKey(absl::string_view key) {
  if (key.size() < 1 + kLengthBytes || key[0] != 'C') return absl::nullopt;
  key.remove_prefix(1);
  const size_t shard_key_bytes =
      kLengthBytes + FromBigEndian(key.substr(0, kLengthBytes)) + kShardBytes;
  if (key.size() <= shard_key_bytes + kCutBytes) return absl::nullopt;
  return CutKey{std::string(key.substr(0, shard_key_bytes)),
                FromBigEndian(key.substr(shard_key_bytes, kCutBytes))};
}

absl::optional<ShardId> ParseRecordKey(absl::string_view key) {
  if (key.size() < 1 + kLengthBytes + kShardBytes || key[0] != 'S') return absl::nullopt;
  const uint64_t length = FromBigEndian(key.substr(1, kLengthBytes));
  const absl::string_view rest = key.substr(1 + kLengthBytes);
  if (rest.size() != length + kShardBytes) return absl::nullopt;
  return ShardId{std::string(rest.substr(0, length)),
                 static_cast<uint32_t>(FromBigEndian(rest.substr(length)))};
}

std::string EndOfPrefix(std::string prefix) {
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xff) prefix.pop_back();
  CHECK(!prefix.empty());
  prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

}  // namespace millrace::ps
