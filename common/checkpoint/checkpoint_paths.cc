#include "common/checkpoint/checkpoint_paths.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace millrace {
namespace {

// A number of at least `width` digits, without zeros that are not needed for that.
absl::optional<uint64_t> ParsePadded(absl::string_view text, size_t width) {
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return '0' <= c && c <= '9'; });
  if (!digits || text.size() < width || (text.size() > width && text[0] == '0')) {
    return absl::nullopt;
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return absl::nullopt;
  return number;
}

}  // namespace

std::string CheckpointFolder(uint64_t number) { return absl::StrFormat("%06d", number); }

std::string CheckpointPath(absl::string_view directory, uint64_t number) {
  return JoinPath(directory, CheckpointFolder(number));
}

absl::optional<uint64_t> ParseCheckpointFolder(absl::string_view name) {
  const absl::optional<uint64_t> number = ParsePadded(name, 6);
  return number == uint64_t{0} ? absl::nullopt : number;
}

std::string ManifestPath(uint64_t number) {
  return JoinPath(CheckpointFolder(number), kManifestFile);
}

std::string ShardValuesPath(uint64_t number, uint32_t shard) {
  return absl::StrFormat("%06d/shard-%05d.safetensors", number, shard);
}

std::string ShardRecordPath(uint64_t number, uint32_t shard) {
  return absl::StrFormat("%06d/shard-%05d.json", number, shard);
}

absl::optional<ShardFileName> ParseShardFile(absl::string_view path) {
  const size_t slash = path.find('/');
  if (slash == absl::string_view::npos) return absl::nullopt;
  const absl::optional<uint64_t> checkpoint = ParseCheckpointFolder(path.substr(0, slash));
  absl::string_view file = path.substr(slash + 1);
  ShardFileName name;
  if (absl::ConsumeSuffix(&file, ".json")) {
    name.is_record = true;
  } else if (!absl::ConsumeSuffix(&file, ".safetensors")) {
    return absl::nullopt;
  }
  if (!checkpoint.has_value() || !absl::ConsumePrefix(&file, "shard-")) return absl::nullopt;
  const absl::optional<uint64_t> shard = ParsePadded(file, 5);
  if (!shard.has_value() || *shard > std::numeric_limits<uint32_t>::max()) return absl::nullopt;
  name.checkpoint = *checkpoint;
  name.shard = static_cast<uint32_t>(*shard);
  return name;
}

std::string NormalDirectory(absl::string_view path) {
  std::string normal = std::filesystem::path(std::string(path)).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/", name);
}

absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "the checkpoint's path is empty; it is a directory of checkpoints, DIR, or one of them, "
        "such as DIR/000017 or DIR/latest");
  }
  const size_t slash = path.rfind('/');
  const absl::string_view last = slash == absl::string_view::npos ? path : path.substr(slash + 1);
  const absl::optional<uint64_t> number = ParseCheckpointFolder(last);
  if (last != kLatestFile && !number.has_value()) return CheckpointName{std::string(path), 0};
  absl::string_view directory = ".";
  if (slash != absl::string_view::npos) directory = slash == 0 ? "/" : path.substr(0, slash);
  return CheckpointName{std::string(directory), number.value_or(0)};
}

}  // namespace millrace
