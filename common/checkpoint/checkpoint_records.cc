#include "common/checkpoint/checkpoint_records.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/applied_set.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/printable.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace {
namespace {

using ::google::protobuf::util::MessageDifferencer;

// How a manifest begins; its checksum follows.
constexpr absl::string_view kManifestBeginning = "{\"checksum\":\"";
// More than any file has; and as much memory as one that is damaged can cost.
constexpr uint64_t kMaxTextBytes = 1 << 30;
// There is always a next one.
constexpr uint64_t kEpochs = uint64_t{1} << 32;
constexpr uint64_t kVersions = uint64_t{1} << 63;
constexpr uint64_t kSteps = uint64_t{1} << 63;

absl::Status BadField(const std::string& path, absl::string_view field, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", field, ": ", what));
}

absl::Status CheckFormatVersion(const std::string& path, uint32_t version) {
  if (version > kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": format_version ", version, "; this program reads up to ",
                     kCheckpointFormatVersion, ": use a newer one"));
  }
  if (version == 0) return BadField(path, "format_version", "missing");
  return absl::OkStatus();
}

absl::Status CheckChecksum(const std::string& path, absl::string_view field,
                           const std::string& checksum) {
  if (IsChecksum(checksum)) return absl::OkStatus();
  return BadField(path, field,
                  absl::StrCat("'", PrintableName(checksum), "'; must be ", kChecksumDigits,
                               " hexadecimal digits"));
}

// A file of values, of this checkpoint or one before.
absl::Status CheckValuesPath(const std::string& path, absl::string_view field,
                             const std::string& file, uint64_t newest) {
  const absl::optional<ShardFileName> name = ParseShardFile(file);
  if (name.has_value() && !name->is_record && name->checkpoint <= newest) return absl::OkStatus();
  return BadField(path, field,
                  absl::StrCat("'", PrintableName(file),
                               "'; must be NUMBER/shard-NUMBER.safetensors, of this checkpoint or "
                               "one before"));
}

// `field` is shards[].applied: every step below the manifest's is in the shard, and no other one in
// one that is exact.
absl::Status CheckApplied(const std::string& path, const std::string& field,
                          const CheckpointManifest& manifest, const StepSet& steps) {
  if (const auto applied = AppliedSet::FromProto(steps); !applied.ok()) {
    return BadField(path, field, applied.status().message());
  }
  if (steps.watermark() >= kSteps) {
    return BadField(path, field + ".watermark",
                    absl::StrCat(steps.watermark(), "; must be below ", kSteps));
  }
  if (manifest.step() > steps.watermark()) {
    return BadField(path, "step",
                    absl::StrCat(manifest.step(), "; ", field, ".watermark is ", steps.watermark(),
                                 ", and the shard must have all steps below"));
  }
  if (!manifest.exact()) return absl::OkStatus();
  if (manifest.step() == steps.watermark() && steps.above().empty()) return absl::OkStatus();
  return BadField(
      path, "exact",
      absl::StrCat("true; but ", field, " has steps from step ", manifest.step(), " on"));
}

absl::Status CheckManifestShard(const std::string& path, const CheckpointManifest& manifest,
                                int index) {
  const CheckpointShard& shard = manifest.shards(index);
  const std::string field = absl::StrCat("shards[", index, "]");
  const std::string record = ShardRecordPath(manifest.number(), static_cast<uint32_t>(index));
  if (shard.shard() != static_cast<uint32_t>(index)) {
    return BadField(path, field + ".shard", absl::StrCat(shard.shard(), "; must be ", index));
  }
  if (shard.record() != record) {
    return BadField(path, field + ".record",
                    absl::StrCat("'", PrintableName(shard.record()), "'; must be '", record, "'"));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckChecksum(path, field + ".record_checksum", shard.record_checksum()));
  MILLRACE_RETURN_IF_ERROR(CheckApplied(path, field + ".applied", manifest, shard.applied()));
  if (shard.epoch() >= kEpochs) {
    return BadField(path, field + ".epoch",
                    absl::StrCat(shard.epoch(), "; must be below ", kEpochs));
  }
  if (shard.version() >= kVersions) {
    return BadField(path, field + ".version",
                    absl::StrCat(shard.version(), "; must be below ", kVersions));
  }
  for (const std::string& file : shard.files()) {
    MILLRACE_RETURN_IF_ERROR(CheckValuesPath(path, field + ".files", file, manifest.number()));
  }
  return absl::OkStatus();
}

absl::Status CheckManifest(const std::string& path, const CheckpointManifest& manifest) {
  MILLRACE_RETURN_IF_ERROR(CheckFormatVersion(path, manifest.format_version()));
  if (manifest.number() == 0) return BadField(path, "number", "missing");
  // Not said: nobody knows.
  const uint64_t last = manifest.total_steps() == 0 ? kSteps - 1 : manifest.total_steps();
  if (manifest.step() > last) {
    return BadField(path, "step", absl::StrCat(manifest.step(), "; must be at most ", last));
  }
  absl::flat_hash_set<absl::string_view> slots;
  for (const std::string& slot : manifest.slots()) {
    if (!slots.insert(slot).second) {
      return BadField(path, "slots", absl::StrCat("'", PrintableName(slot), "' is there twice"));
    }
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const VariableSpec& variable : manifest.plan().variables()) {
    const std::string field = absl::StrCat("plan.variables '", PrintableName(variable.name()), "'");
    if (!names.insert(variable.name()).second) return BadField(path, field, "it is there twice");
    if (!ElementsOf(variable.shape()).has_value()) return BadField(path, field, "too large");
  }
  for (int i = 0; i < manifest.shards_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckManifestShard(path, manifest, i));
  }
  return absl::OkStatus();
}

absl::Status CheckValueFile(const std::string& path, absl::string_view field,
                            const ValueFile& file) {
  MILLRACE_RETURN_IF_ERROR(CheckValuesPath(path, absl::StrCat(field, ".path"), file.path(),
                                           std::numeric_limits<uint64_t>::max()));
  if (file.header_bytes() < kSafetensorsLengthBytes || file.header_bytes() > file.bytes() ||
      file.header_bytes() > kSafetensorsLengthBytes + kMaxSafetensorsHeaderBytes) {
    return BadField(path, absl::StrCat(field, ".header_bytes"),
                    absl::StrCat(file.header_bytes(), " of ", file.bytes()));
  }
  return CheckChecksum(path, absl::StrCat(field, ".header_checksum"), file.header_checksum());
}

absl::Status CheckBlock(const std::string& path, const ShardRecord& record, int index,
                        size_t arrays) {
  const StoredBlock& block = record.blocks(index);
  const std::string field = absl::StrCat("blocks[", index, "]");
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (block.length() == 0 || block.length() > kMaxBlockElements) {
    return BadField(
        path, field + ".length",
        absl::StrCat(block.length(), "; must be at least 1 and at most ", kMaxBlockElements));
  }
  if (block.offset() > kMax - block.length()) {
    return BadField(path, field + ".offset", absl::StrCat(block.offset()));
  }
  if (static_cast<size_t>(block.arrays_size()) != arrays) {
    return BadField(path, field + ".arrays",
                    absl::StrCat(block.arrays_size(), "; must be ", arrays));
  }
  for (const StoredArray& array : block.arrays()) {
    if (array.file() >= static_cast<uint32_t>(record.files_size())) {
      return BadField(path, field + ".arrays.file", absl::StrCat(array.file()));
    }
    if (array.begin() > kMax - block.length()) {
      return BadField(path, field + ".arrays.begin", absl::StrCat(array.begin()));
    }
    MILLRACE_RETURN_IF_ERROR(CheckChecksum(path, field + ".arrays.checksum", array.checksum()));
  }
  return absl::OkStatus();
}

absl::Status CheckRecord(const std::string& path, const ShardRecord& record, size_t arrays) {
  MILLRACE_RETURN_IF_ERROR(CheckFormatVersion(path, record.format_version()));
  for (int i = 0; i < record.files_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckValueFile(path, absl::StrCat("files[", i, "]"), record.files(i)));
  }
  for (int i = 0; i < record.blocks_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckBlock(path, record, i, arrays));
  }
  return absl::OkStatus();
}

// As bad input: it is not from a file.
absl::Status AsInvalid(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json);
  if (status.ok()) return json;
  return absl::InvalidArgumentError(
      absl::StrCat("cannot be written as JSON: ", Printable(std::string(status.message()))));
}

absl::Status FromJson(const std::string& path, absl::string_view text,
                      google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), message, options);
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": malformed: ", Printable(std::string(status.message()))));
}

absl::StatusOr<std::string> ReadText(const RandomAccessReader& file) {
  if (file.bytes() > kMaxTextBytes) {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": damaged: it has ", file.bytes(), " bytes"));
  }
  std::string text(file.bytes(), '\0');
  MILLRACE_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(text)));
  return text;
}

// What is not there is found out by whoever opens it.
absl::Status CheckKind(const std::string& path, mode_t kind, absl::string_view name) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0 || (found.st_mode & S_IFMT) == kind) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": damaged: it is ",
                                          S_ISLNK(found.st_mode) ? "a symbolic link; " : "",
                                          "no regular ", name));
}

// What a record and the manifest both say, they say alike.
absl::Status CheckAgrees(const std::string& path, const ShardRecord& record,
                         const CheckpointManifest& manifest, const CheckpointShard& expected) {
  const std::string in_manifest = absl::StrCat("shards[", expected.shard(), "].");
  const auto differs = [&](absl::string_view field, const auto& found, const auto& said) {
    return BadField(path, field,
                    absl::StrCat(found, "; the manifest says ", said, " in ", in_manifest, field));
  };
  if (record.shard() != expected.shard()) return differs("shard", record.shard(), expected.shard());
  if (record.job_id() != manifest.job_id()) {
    return BadField(path, "job_id",
                    absl::StrCat("'", PrintableName(record.job_id()), "'; the manifest says '",
                                 PrintableName(manifest.job_id()), "'"));
  }
  if (record.epoch() != expected.epoch()) return differs("epoch", record.epoch(), expected.epoch());
  if (record.version() != expected.version()) {
    return differs("version", record.version(), expected.version());
  }
  if (!MessageDifferencer::Equals(record.applied(), expected.applied())) {
    return BadField(
        path, "applied",
        absl::StrCat("other steps than those in the manifest's ", in_manifest, "applied"));
  }
  absl::flat_hash_set<absl::string_view> files(expected.files().begin(), expected.files().end());
  for (const ValueFile& file : record.files()) {
    if (files.contains(file.path())) continue;
    return BadField(
        path, "files.path",
        absl::StrCat("'", file.path(), "'; the manifest's ", in_manifest, "files do not name it"));
  }
  for (const ValueFile& file : record.files()) files.erase(file.path());
  if (!files.empty()) {
    return BadField(path, "files",
                    absl::StrCat("no '", *files.begin(), "', which the manifest names in ",
                                 in_manifest, "files"));
  }
  uint64_t bytes = 0;
  for (const StoredBlock& block : record.blocks()) {
    bytes += uint64_t{block.length()} * static_cast<uint64_t>(block.arrays_size()) * sizeof(float);
  }
  if (bytes == expected.bytes()) return absl::OkStatus();
  return BadField(path, "blocks",
                  absl::StrCat("they have ", bytes, " bytes; the manifest says ", expected.bytes(),
                               " in ", in_manifest, "bytes"));
}

// A record as the manifest describes it.
absl::StatusOr<std::string> ReadRecordText(const FileSystemPtr& file_system,
                                           const std::string& directory,
                                           const CheckpointShard& expected) {
  const std::string path = JoinPath(directory, expected.record());
  const auto file = OpenCheckpointFile(file_system, directory, expected.record());
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: it is not there"));
  }
  MILLRACE_RETURN_IF_ERROR(file.status());
  if (file->bytes() != expected.record_bytes()) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: it has ", file->bytes(),
                                            " bytes where the manifest says ",
                                            expected.record_bytes()));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::string text, ReadText(*file));
  if (const std::string found = Checksum(text); found != expected.record_checksum()) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: the checksum of its ", text.size(),
                                            " bytes is ", found, ", not ",
                                            expected.record_checksum()));
  }
  return text;
}

// Its checksum is compared and nothing else is checked. Returns it; it stands in `text`.
absl::StatusOr<absl::string_view> CheckManifestText(const std::string& path,
                                                    absl::string_view text) {
  const absl::string_view checksum =
      text.substr(std::min(kManifestBeginning.size(), text.size()), kChecksumDigits);
  if (!absl::StartsWith(text, kManifestBeginning) || !IsChecksum(checksum)) {
    return absl::DataLossError(
        absl::StrCat(path, ": damaged: it does not begin with its checksum"));
  }
  std::string zeroed(text);
  zeroed.replace(kManifestBeginning.size(), kChecksumDigits, kChecksumDigits, '0');
  if (const std::string found = Checksum(zeroed); found != checksum) {
    return absl::DataLossError(absl::StrCat(path, ": damaged: the checksum of its ", text.size(),
                                            " bytes is ", found, ", not ", checksum));
  }
  return checksum;
}

// Of folder `number`, if that is known. `text` has its checksum.
absl::StatusOr<CheckpointManifest> ParseChecked(const std::string& path, absl::string_view text,
                                                absl::optional<uint64_t> number) {
  CheckpointManifest manifest;
  MILLRACE_RETURN_IF_ERROR(FromJson(path, text, &manifest));
  MILLRACE_RETURN_IF_ERROR(CheckFormatVersion(path, manifest.format_version()));
  // Before the paths, which depend on it.
  if (number.has_value() && manifest.number() != *number) {
    return BadField(path, "number", absl::StrCat(manifest.number(), "; the folder says ", *number));
  }
  MILLRACE_RETURN_IF_ERROR(CheckManifest(path, manifest));
  return manifest;
}

}  // namespace

absl::StatusOr<std::string> EncodeManifest(CheckpointManifest* manifest) {
  manifest->set_format_version(kCheckpointFormatVersion);
  manifest->set_checksum(std::string(kChecksumDigits, '0'));
  MILLRACE_RETURN_IF_ERROR(AsInvalid(CheckManifest(ManifestPath(manifest->number()), *manifest)));
  MILLRACE_ASSIGN_OR_RETURN(std::string text, ToJson(*manifest));
  manifest->set_checksum(Checksum(text));
  text.replace(kManifestBeginning.size(), kChecksumDigits, manifest->checksum());
  return text;
}

absl::StatusOr<std::string> EncodeShardRecord(const ShardRecord& record) {
  const size_t arrays = record.blocks_size() == 0 ? 1 : record.blocks(0).arrays_size();
  MILLRACE_RETURN_IF_ERROR(
      AsInvalid(CheckRecord(absl::StrCat("record of shard ", record.shard()), record, arrays)));
  return ToJson(record);
}

absl::StatusOr<CheckpointManifest> ParseManifest(const std::string& path, absl::string_view text) {
  MILLRACE_RETURN_IF_ERROR(CheckManifestText(path, text).status());
  return ParseChecked(path, text, /*number=*/absl::nullopt);
}

absl::StatusOr<ShardRecord> ParseShardRecord(const std::string& path, absl::string_view text,
                                             size_t arrays) {
  ShardRecord record;
  MILLRACE_RETURN_IF_ERROR(FromJson(path, text, &record));
  MILLRACE_RETURN_IF_ERROR(CheckRecord(path, record, arrays));
  return record;
}

absl::StatusOr<RandomAccessReader> OpenCheckpointFile(const FileSystemPtr& file_system,
                                                      const std::string& directory,
                                                      const std::string& name) {
  const std::string path = JoinPath(directory, name);
  MILLRACE_RETURN_IF_ERROR(CheckKind(DirectoryOf(path), S_IFDIR, "directory"));
  MILLRACE_RETURN_IF_ERROR(CheckKind(path, S_IFREG, "file"));
  return RandomAccessReader::Open(file_system, path);
}

absl::optional<CheckpointManifest> ManifestCache::Find(uint64_t number,
                                                       absl::string_view checksum) const {
  MutexLock lock(&mutex_);
  const auto found = manifests_.find(number);
  if (found == manifests_.end() || found->second.checksum() != checksum) return absl::nullopt;
  return found->second;
}

void ManifestCache::Put(const CheckpointManifest& manifest) {
  MutexLock lock(&mutex_);
  manifests_[manifest.number()] = manifest;
}

void ManifestCache::KeepOnly(const std::vector<uint64_t>& numbers) {
  MutexLock lock(&mutex_);
  absl::erase_if(manifests_, [&](const auto& kept) {
    return !std::binary_search(numbers.begin(), numbers.end(), kept.first);
  });
}

absl::StatusOr<CheckpointManifest> ReadManifest(const FileSystemPtr& file_system,
                                                const std::string& directory, uint64_t number,
                                                ManifestCache* cache) {
  const std::string path = JoinPath(directory, ManifestPath(number));
  MILLRACE_ASSIGN_OR_RETURN(const RandomAccessReader file,
                            OpenCheckpointFile(file_system, directory, ManifestPath(number)));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadText(file));
  MILLRACE_ASSIGN_OR_RETURN(const absl::string_view checksum, CheckManifestText(path, text));
  if (cache == nullptr) return ParseChecked(path, text, number);
  if (auto parsed = cache->Find(number, checksum)) return *std::move(parsed);
  MILLRACE_ASSIGN_OR_RETURN(CheckpointManifest manifest, ParseChecked(path, text, number));
  // Of two such fields one was checked.
  if (manifest.checksum() == checksum) cache->Put(manifest);
  return manifest;
}

absl::StatusOr<ShardRecord> ReadShardRecord(const FileSystemPtr& file_system,
                                            const std::string& directory,
                                            const CheckpointManifest& manifest, uint32_t shard) {
  const CheckpointShard& expected = manifest.shards(static_cast<int>(shard));
  const std::string path = JoinPath(directory, expected.record());
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            ReadRecordText(file_system, directory, expected));
  MILLRACE_ASSIGN_OR_RETURN(
      ShardRecord record,
      ParseShardRecord(path, text, 1 + static_cast<size_t>(manifest.slots_size())));
  MILLRACE_RETURN_IF_ERROR(CheckAgrees(path, record, manifest, expected));
  return record;
}

}  // namespace millrace
