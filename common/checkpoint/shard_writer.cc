// The file of values is written from its beginning to its end, under its own name: a mounted bucket
// can do nothing else, and a rename there copies. It needs no name of its own while it is written,
// because nothing is read that no manifest leads to.
//
// Its header comes first, so what it will have is decided before: with a base, the checksums of all
// arrays are compared with those of the base's record, and only what differs is written. So that
// the space of what is referred to stays in proportion, an older file is referred to only if at
// least half of its values would be.
//
// A writer that nobody waits for any more, since its coordinator has another one begin, may still
// be at it. It takes no file that somebody else has made, and removes none: it keeps its own open,
// so that it can tell them from others of the same name.
#include "common/checkpoint/shard_writer.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/checksum.h"
#include "common/checkpoint/new_file.h"
#include "common/checkpoint/stored_shard.h"
#include "common/printable.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "protos/checkpoint.pb.h"

namespace millrace {
namespace {

// Index of a file in a record that is not decided yet: the new one.
constexpr uint32_t kNewFile = std::numeric_limits<uint32_t>::max();

absl::Status ImageError(const ShardImage& image, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("shard ", image.shard, " of job '",
                                                 PrintableName(image.job_id),
                                                 "' cannot be written: ", what));
}

absl::Status CheckImage(const ShardImage& image) {
  uint32_t slice = 0;
  uint64_t next = 0;
  for (const ShardImage::Block& block : image.blocks) {
    if (block.slice != slice) next = 0;
    if (block.slice < slice || block.slice >= image.slices.size()) {
      return ImageError(image, absl::StrCat("a block of slice ", block.slice));
    }
    slice = block.slice;
    if (block.elements == 0 || block.elements > kMaxBlockElements || block.offset != next) {
      return ImageError(image, absl::StrCat("a block of ", block.elements, " elements at ",
                                            block.offset, " where ", next, " is expected"));
    }
    next += block.elements;
  }
  return absl::OkStatus();
}

// The record of the shard in the base; nothing is written again that is the same in it.
class BaseRecord {
 public:
  // With nothing in it, where it cannot be used.
  static BaseRecord Read(const ShardWriteOptions& options, const ShardImage& image) {
    BaseRecord base;
    if (options.base == 0 || options.base >= options.number) return base;
    const auto manifest = ReadManifest(options.file_system, options.directory, options.base);
    absl::Status status = manifest.status();
    if (status.ok() && IsLike(*manifest, image)) {
      auto record = ReadShardRecord(options.file_system, options.directory, *manifest, image.shard);
      status = record.status();
      if (record.ok()) base.Take(options, *std::move(record));
    }
    LOG_IF(WARNING, !status.ok()) << "a checkpoint is written as a whole, since the one before "
                                     "cannot be read: "
                                  << status.message();
    return base;
  }

  const ShardRecord& record() const { return record_; }
  bool empty() const { return record_.blocks().empty(); }

  // Where the base has such a block's array with this checksum; nullptr: nowhere.
  const StoredArray* Find(const StoredBlock& block, int array, const std::string& checksum) const {
    const auto found = blocks_.find({block.variable(), block.offset(), block.length()});
    if (found == blocks_.end()) return nullptr;
    const StoredArray& stored = found->second->arrays(array);
    return stored.checksum() == checksum && usable_[stored.file()] ? &stored : nullptr;
  }

 private:
  using Key = std::tuple<std::string, uint64_t, uint32_t>;

  static bool IsLike(const CheckpointManifest& manifest, const ShardImage& image) {
    return manifest.job_id() == image.job_id &&
           image.shard < static_cast<uint32_t>(manifest.shards_size()) &&
           std::equal(manifest.slots().begin(), manifest.slots().end(), image.slots.begin(),
                      image.slots.end());
  }

  void Take(const ShardWriteOptions& options, ShardRecord record) {
    record_ = std::move(record);
    for (const StoredBlock& block : record_.blocks()) {
      blocks_[{block.variable(), block.offset(), block.length()}] = &block;
    }
    // A file that is damaged is no place to refer to, as far as that is seen without its values.
    for (const ValueFile& file : record_.files()) {
      const absl::Status status = CheckValueFile(options.file_system, options.directory, file);
      LOG_IF(WARNING, !status.ok()) << "values are written again: " << status.message();
      usable_.push_back(status.ok());
    }
  }

  ShardRecord record_;
  absl::flat_hash_map<Key, const StoredBlock*> blocks_;
  std::vector<bool> usable_;  // By file.
};

class ShardWriter {
 public:
  ShardWriter(const ShardWriteOptions& options, const ShardImage& image, BlockSource* source)
      : options_(options),
        image_(image),
        source_(source),
        base_(BaseRecord::Read(options, image)),
        values_path_(ShardValuesPath(options.number, image.shard)),
        record_path_(ShardRecordPath(options.number, image.shard)),
        values_(FileOptions(/*bulk=*/true), JoinPath(options.directory, values_path_)),
        record_file_(FileOptions(/*bulk=*/false), JoinPath(options.directory, record_path_)) {}

  absl::StatusOr<CheckpointShard> Write() {
    absl::StatusOr<CheckpointShard> written = WriteFiles();
    if (!written.ok()) {
      values_.Remove();
      record_file_.Remove();
    }
    return written;
  }

 private:
  absl::StatusOr<CheckpointShard> WriteFiles() {
    FillRecord();
    MILLRACE_RETURN_IF_ERROR(FindUnchanged());
    RewriteFilesOfLittleUse();
    SafetensorsHeader header = LayOut();
    MILLRACE_RETURN_IF_ERROR(WriteValues(&header));
    NumberFiles();
    MILLRACE_ASSIGN_OR_RETURN(const std::string record, EncodeShardRecord(record_));
    MILLRACE_RETURN_IF_ERROR(record_file_.Create());
    MILLRACE_RETURN_IF_ERROR(record_file_.Append(record));
    MILLRACE_RETURN_IF_ERROR(record_file_.Finish());
    MILLRACE_RETURN_IF_ERROR(
        SyncDirectory(options_.file_system, CheckpointPath(options_.directory, options_.number)));
    return Result(record);
  }

  NewFileOptions FileOptions(bool bulk) const {
    return {options_.file_system, options_.before_write, bulk};
  }

  int arrays() const { return 1 + static_cast<int>(image_.slots.size()); }

  StoredArray* Stored(size_t block, int array) {
    return record_.mutable_blocks(static_cast<int>(block))->mutable_arrays(array);
  }

  // All but where the arrays are. In each array's `file`: kNewFile.
  void FillRecord() {
    record_.set_format_version(kCheckpointFormatVersion);
    record_.set_job_id(image_.job_id);
    record_.set_shard(image_.shard);
    record_.set_epoch(image_.epoch);
    record_.set_version(image_.version);
    *record_.mutable_applied() = image_.applied;
    for (const ShardImage::Block& block : image_.blocks) {
      StoredBlock* stored = record_.add_blocks();
      stored->set_variable(image_.slices[block.slice].variable);
      stored->set_offset(image_.slices[block.slice].offset + block.offset);
      stored->set_length(block.elements);
      for (int array = 0; array < arrays(); ++array) stored->add_arrays()->set_file(kNewFile);
    }
  }

  absl::StatusOr<absl::string_view> ReadArray(size_t block, int array) {
    MILLRACE_ASSIGN_OR_RETURN(const absl::string_view bytes, source_->Read(block, array));
    if (bytes.size() != image_.blocks[block].elements * sizeof(float)) {
      return ImageError(image_, absl::StrCat("array ", array, " of block ", block, " has ",
                                             bytes.size(), " bytes"));
    }
    return bytes;
  }

  // Calls `visit`(block, array, its place in the record) in the order of the file.
  template <typename Visit>
  absl::Status ForEachArray(const Visit& visit) {
    for (size_t begin = 0, end = 0; begin < image_.blocks.size(); begin = end) {
      while (end < image_.blocks.size() && image_.blocks[end].slice == image_.blocks[begin].slice) {
        ++end;
      }
      for (int array = 0; array < arrays(); ++array) {
        for (size_t block = begin; block < end; ++block) {
          MILLRACE_RETURN_IF_ERROR(visit(block, array, Stored(block, array)));
        }
      }
    }
    return absl::OkStatus();
  }

  // Sets the checksums, as far as they are known, and the places of what the base has.
  absl::Status FindUnchanged() {
    return ForEachArray([this](size_t block, int array, StoredArray* stored) -> absl::Status {
      if (options_.before_write != nullptr) {
        MILLRACE_RETURN_IF_ERROR(options_.before_write(0));
      }
      if (absl::optional<std::string> known = source_->KnownChecksum(block, array)) {
        stored->set_checksum(*std::move(known));
      } else if (!base_.empty()) {
        MILLRACE_ASSIGN_OR_RETURN(const absl::string_view bytes, ReadArray(block, array));
        stored->set_checksum(Checksum(bytes));
      }
      const StoredArray* same =
          base_.Find(record_.blocks(static_cast<int>(block)), array, stored->checksum());
      if (same != nullptr) *stored = *same;
      return absl::OkStatus();
    });
  }

  // The space rule.
  void RewriteFilesOfLittleUse() {
    std::vector<uint64_t> used(static_cast<size_t>(base_.record().files_size()));
    for (const StoredBlock& block : record_.blocks()) {
      for (const StoredArray& array : block.arrays()) {
        if (array.file() != kNewFile) used[array.file()] += block.length() * sizeof(float);
      }
    }
    for (StoredBlock& block : *record_.mutable_blocks()) {
      for (StoredArray& array : *block.mutable_arrays()) {
        if (array.file() == kNewFile) continue;
        const ValueFile& file = base_.record().files(static_cast<int>(array.file()));
        if (used[array.file()] >= (file.bytes() - file.header_bytes()) / 2) continue;
        array.set_file(kNewFile);
      }
    }
  }

  // Of elements [begin, end) of the slice.
  std::string TensorName(const ShardImage::Slice& slice, int array, bool whole, uint64_t begin,
                         uint64_t end) {
    std::string name = slice.variable;
    if (!whole) absl::StrAppend(&name, "[", slice.offset + begin, ":", slice.offset + end, "]");
    if (array > 0) absl::StrAppend(&name, "@", image_.slots[static_cast<size_t>(array) - 1]);
    // Names of variables may look like those of others' slots and parts.
    while (!tensor_names_.insert(name).second) name.append("'");
    return name;
  }

  // Blocks [begin, end) of a slice that are written, of one array.
  struct Run {
    int array = 0;
    size_t begin = 0;
    size_t end = 0;
  };

  // As long as they can be, in the order of the file.
  std::vector<Run> WrittenRuns() {
    std::vector<Run> runs;
    const absl::Status visited =
        ForEachArray([&](size_t block, int array, const StoredArray* stored) {
          if (stored->file() != kNewFile) return absl::OkStatus();
          const bool goes_on = !runs.empty() && runs.back().array == array &&
                               runs.back().end == block &&
                               image_.blocks[block - 1].slice == image_.blocks[block].slice;
          if (!goes_on) runs.push_back({array, block, block});
          runs.back().end = block + 1;
          return absl::OkStatus();
        });
    CHECK(visited.ok());
    return runs;
  }

  // A tensor for each run; places what is written into it.
  SafetensorsEntry MakeTensor(const Run& run) {
    const ShardImage::Block& front = image_.blocks[run.begin];
    const ShardImage::Block& back = image_.blocks[run.end - 1];
    const ShardImage::Slice& slice = image_.slices[front.slice];
    const uint64_t elements = back.offset + back.elements - front.offset;
    const bool whole = !slice.shape.empty() && slice.offset + front.offset == 0 &&
                       ElementsOf(slice.shape) == elements;
    SafetensorsEntry tensor;
    tensor.name = TensorName(slice, run.array, whole, front.offset, front.offset + elements);
    tensor.dtype = "F32";
    tensor.shape = whole ? slice.shape : std::vector<uint64_t>{elements};
    for (size_t block = run.begin; block < run.end; ++block) {
      StoredArray* stored = Stored(block, run.array);
      stored->set_tensor(tensor.name);
      stored->set_begin(image_.blocks[block].offset - front.offset);
    }
    return tensor;
  }

  SafetensorsHeader LayOut() {
    SafetensorsHeader header;
    for (const Run& run : WrittenRuns()) header.tensors.push_back(MakeTensor(run));
    header.metadata = {{"format", "millrace"}, {"job", image_.job_id}};
    return header;
  }

  // No file, if nothing is new.
  absl::Status WriteValues(SafetensorsHeader* header) {
    if (header->tensors.empty()) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                              EncodeSafetensorsHeader(values_path_, header));
    MILLRACE_RETURN_IF_ERROR(values_.Create());
    MILLRACE_RETURN_IF_ERROR(values_.Append(text));
    MILLRACE_RETURN_IF_ERROR(ForEachArray([this](size_t block, int array,
                                                 StoredArray* stored) -> absl::Status {
      if (stored->file() != kNewFile) return absl::OkStatus();
      MILLRACE_ASSIGN_OR_RETURN(const absl::string_view bytes, ReadArray(block, array));
      std::string checksum = Checksum(bytes);
      if (!stored->checksum().empty() && stored->checksum() != checksum) {
        return absl::DataLossError(absl::StrCat(
            "shard ", image_.shard, " of job '", PrintableName(image_.job_id), "': array ", array,
            " of its block ", block, " has changed since it was written: its checksum is ",
            checksum, ", not ", stored->checksum()));
      }
      stored->set_checksum(std::move(checksum));
      return values_.Append(bytes);
    }));
    ValueFile* file = record_.add_files();
    file->set_path(values_path_);
    file->set_bytes(values_.bytes());
    file->set_header_bytes(header->bytes);
    file->set_header_checksum(Checksum(text));
    return values_.Finish();
  }

  // Lists the files that are referred to, and sets their indices.
  void NumberFiles() {
    absl::flat_hash_map<uint32_t, uint32_t> numbers = {{kNewFile, 0}};
    for (StoredBlock& block : *record_.mutable_blocks()) {
      for (StoredArray& array : *block.mutable_arrays()) {
        const auto [found, is_new] =
            numbers.try_emplace(array.file(), static_cast<uint32_t>(record_.files_size()));
        if (is_new) {
          *record_.add_files() = base_.record().files(static_cast<int>(array.file()));
        }
        array.set_file(found->second);
      }
    }
  }

  CheckpointShard Result(const std::string& record) const {
    CheckpointShard shard;
    shard.set_shard(image_.shard);
    shard.set_record(record_path_);
    shard.set_record_bytes(record.size());
    shard.set_record_checksum(Checksum(record));
    for (const ValueFile& file : record_.files()) shard.add_files(file.path());
    uint64_t elements = 0;
    for (const ShardImage::Block& block : image_.blocks) elements += block.elements;
    shard.set_bytes(elements * sizeof(float) * static_cast<uint64_t>(arrays()));
    shard.set_bytes_written(values_.bytes() + record_file_.bytes());
    shard.set_epoch(image_.epoch);
    shard.set_version(image_.version);
    *shard.mutable_applied() = image_.applied;
    return shard;
  }

  const ShardWriteOptions& options_;
  const ShardImage& image_;
  BlockSource* const source_;
  const BaseRecord base_;
  const std::string values_path_;
  const std::string record_path_;
  NewFile values_;
  NewFile record_file_;
  ShardRecord record_;
  absl::flat_hash_set<std::string> tensor_names_;
};

}  // namespace

absl::StatusOr<CheckpointShard> WriteShard(const ShardWriteOptions& options,
                                           const ShardImage& image, BlockSource* source) {
  MILLRACE_RETURN_IF_ERROR(CheckImage(image));
  return ShardWriter(options, image, source).Write();
}

}  // namespace millrace
