#include "common/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_lineage.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/stored_shard.h"
#include "common/printable.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

// Files that a checkpoint keeps open at once.
constexpr size_t kMaxOpenFiles = 16;

// Each element of each variable is in one block.
absl::Status CheckCoverage(const std::string& path, const Checkpoint::Variable& variable,
                           uint64_t begin, uint64_t next) {
  if (begin == next) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": damaged: of '", PrintableName(variable.name),
                                          "' element ", std::min(begin, next),
                                          begin > next ? " is in no shard" : " is there twice"));
}

}  // namespace

class Checkpoint::Impl {
 public:
  Impl(FileSystemPtr file_system, std::string directory, CheckpointManifest manifest)
      : file_system_(std::move(file_system)),
        directory_(std::move(directory)),
        manifest_(std::move(manifest)) {
    for (const VariableSpec& variable : manifest_.plan().variables()) {
      const std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
      names_[variable.name()] = variables_.size();
      variables_.push_back({variable.name(), shape, *ElementsOf(shape)});
    }
  }

  const CheckpointManifest& manifest() const { return manifest_; }
  const std::vector<Variable>& variables() const { return variables_; }

  absl::optional<size_t> Find(absl::string_view name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) return absl::nullopt;
    return found->second;
  }

  absl::Status Load(const ProblemSink& sink, const ReadHook& on_read) {
    for (int i = 0; i < manifest_.shards_size(); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(StoredShard shard,
                                ReadStoredShard(file_system_, directory_, manifest_,
                                                static_cast<uint32_t>(i), sink, on_read));
      shards_.push_back(std::move(shard));
    }
    return absl::OkStatus();
  }

  // REQUIRES: Load() was OK.
  absl::Status IndexBlocks() {
    const std::string path = JoinPath(directory_, ManifestPath(manifest_.number()));
    blocks_.resize(variables_.size());
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      for (const StoredShard::Block& block : shards_[shard].blocks) {
        const absl::optional<size_t> variable = Find(block.variable);
        if (!variable.has_value()) {
          return absl::DataLossError(
              absl::StrCat(path, ": damaged: shard ", shard, " has elements of '",
                           PrintableName(block.variable), "', which is no variable of the job"));
        }
        blocks_[*variable].push_back({&block, shard});
      }
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      std::sort(blocks_[i].begin(), blocks_[i].end(), [](const Indexed& a, const Indexed& b) {
        return a.block->offset < b.block->offset;
      });
      uint64_t next = 0;
      for (const Indexed& indexed : blocks_[i]) {
        MILLRACE_RETURN_IF_ERROR(CheckCoverage(path, variables_[i], indexed.block->offset, next));
        next = indexed.block->offset + indexed.block->elements;
      }
      MILLRACE_RETURN_IF_ERROR(CheckCoverage(path, variables_[i], variables_[i].elements, next));
    }
    return absl::OkStatus();
  }

  absl::Status Read(size_t variable, int array, uint64_t begin, absl::Span<float> values) {
    MILLRACE_RETURN_IF_ERROR(CheckRange(variable, begin, values.size()));
    for (size_t i = FirstBlock(variable, begin); !values.empty(); ++i) {
      const Indexed& indexed = blocks_[variable][i];
      const uint64_t offset = begin - indexed.block->offset;
      const size_t count = std::min<size_t>(indexed.block->elements - offset, values.size());
      if (count == indexed.block->elements) {
        MILLRACE_RETURN_IF_ERROR(ReadBlock(indexed, array, values.subspan(0, count)));
      } else {
        MILLRACE_RETURN_IF_ERROR(ReadIntoCache(indexed, array));
        std::copy_n(cache_.begin() + static_cast<ptrdiff_t>(offset), count, values.begin());
      }
      begin += count;
      values.remove_prefix(count);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<uint32_t>> ShardsOf(size_t variable, uint64_t begin,
                                                 uint64_t count) const {
    MILLRACE_RETURN_IF_ERROR(CheckRange(variable, begin, count));
    std::vector<uint32_t> shards;
    if (count == 0) return shards;
    for (size_t i = FirstBlock(variable, begin); i < blocks_[variable].size(); ++i) {
      const Indexed& indexed = blocks_[variable][i];
      if (indexed.block->offset >= begin + count) break;
      shards.push_back(indexed.shard);
    }
    std::sort(shards.begin(), shards.end());
    shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
    return shards;
  }

  // All arrays of all blocks.
  absl::Status ReadAll(const ProblemSink& sink, const ReadHook& on_read) {
    for (const StoredShard& shard : shards_) {
      for (const StoredShard::Block& block : shard.blocks) {
        for (size_t array = 0; array < block.arrays.size(); ++array) {
          cache_.resize(block.elements);
          const std::string& name = shard.files[block.arrays[array].file];
          MILLRACE_ASSIGN_OR_RETURN(const RandomAccessReader* file, File(name));
          MILLRACE_RETURN_IF_ERROR(ReadElements(*file, name, block, static_cast<int>(array),
                                                absl::MakeSpan(cache_), sink));
          if (on_read == nullptr) continue;
          MILLRACE_RETURN_IF_ERROR(on_read(cache_.size() * sizeof(float)));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Indexed {
    const StoredShard::Block* block = nullptr;
    uint32_t shard = 0;
  };

  absl::Status CheckRange(size_t variable, uint64_t begin, uint64_t count) const {
    const Variable& found = variables_[variable];
    if (begin <= found.elements && count <= found.elements - begin) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("'", PrintableName(found.name), "' has ",
                                              found.elements, " elements, not ", begin, " to ",
                                              begin + count));
  }

  // That has the element.
  size_t FirstBlock(size_t variable, uint64_t element) const {
    const auto after = std::upper_bound(
        blocks_[variable].begin(), blocks_[variable].end(), element,
        [](uint64_t value, const Indexed& indexed) { return value < indexed.block->offset; });
    return static_cast<size_t>(after - blocks_[variable].begin()) - 1;
  }

  absl::Status ReadBlock(const Indexed& indexed, int array, absl::Span<float> target) {
    const std::string& name =
        shards_[indexed.shard].files[indexed.block->arrays[static_cast<size_t>(array)].file];
    MILLRACE_ASSIGN_OR_RETURN(const RandomAccessReader* file, File(name));
    return ReadElements(
        *file, name, *indexed.block, array, target,
        [](const CheckpointProblem& problem) { return absl::DataLossError(problem.what); });
  }

  absl::Status ReadIntoCache(const Indexed& indexed, int array) {
    if (cached_block_ == indexed.block && cached_array_ == array) return absl::OkStatus();
    cached_block_ = nullptr;
    cache_.resize(indexed.block->elements);
    MILLRACE_RETURN_IF_ERROR(ReadBlock(indexed, array, absl::MakeSpan(cache_)));
    cached_block_ = indexed.block;
    cached_array_ = array;
    return absl::OkStatus();
  }

  // Valid until the next call.
  absl::StatusOr<const RandomAccessReader*> File(const std::string& name) {
    if (const auto found = files_.find(name); found != files_.end()) return &found->second;
    const std::string path = JoinPath(directory_, name);
    absl::StatusOr<RandomAccessReader> file = OpenCheckpointFile(file_system_, directory_, name);
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(absl::StrCat(path, ": damaged: it is not there any more"));
    }
    MILLRACE_RETURN_IF_ERROR(file.status());
    if (files_.size() == kMaxOpenFiles) files_.clear();
    return &files_.emplace(name, *std::move(file)).first->second;
  }

  const FileSystemPtr file_system_;
  const std::string directory_;
  const CheckpointManifest manifest_;
  std::vector<Variable> variables_;
  absl::flat_hash_map<std::string, size_t> names_;
  std::vector<StoredShard> shards_;
  std::vector<std::vector<Indexed>> blocks_;  // By variable; by offset.
  std::map<std::string, RandomAccessReader> files_;
  // An array of a block.
  std::vector<float> cache_;
  const StoredShard::Block* cached_block_ = nullptr;
  int cached_array_ = 0;
};

namespace {

bool RefersTo(const CheckpointManifest& manifest, absl::string_view damage) {
  return std::any_of(
      manifest.shards().begin(), manifest.shards().end(), [&](const CheckpointShard& shard) {
        return std::any_of(shard.files().begin(), shard.files().end(),
                           [&](const auto& file) { return absl::StrContains(damage, file); });
      });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const FileSystemPtr& file_system,
                                                             const std::string& directory,
                                                             uint64_t number) {
  if (number == 0) {
    MILLRACE_ASSIGN_OR_RETURN(number, CheckpointDirectory(file_system, directory).Newest());
  }
  MILLRACE_ASSIGN_OR_RETURN(CheckpointManifest manifest,
                            ReadManifest(file_system, directory, number));
  auto impl = std::make_unique<Impl>(file_system, directory, std::move(manifest));
  const ProblemSink refuse = [](const CheckpointProblem& problem) {
    return absl::DataLossError(problem.what);
  };
  MILLRACE_RETURN_IF_ERROR(impl->Load(refuse, nullptr));
  MILLRACE_RETURN_IF_ERROR(impl->IndexBlocks());
  return absl::WrapUnique(new Checkpoint(std::move(impl)));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;

const CheckpointManifest& Checkpoint::manifest() const { return impl_->manifest(); }

const std::vector<Checkpoint::Variable>& Checkpoint::variables() const {
  return impl_->variables();
}

absl::optional<size_t> Checkpoint::Find(absl::string_view name) const { return impl_->Find(name); }

int Checkpoint::arrays() const { return 1 + manifest().slots_size(); }

absl::Status Checkpoint::Read(size_t variable, int array, uint64_t begin,
                              absl::Span<float> values) {
  return impl_->Read(variable, array, begin, values);
}

absl::StatusOr<std::vector<uint32_t>> Checkpoint::ShardsOf(size_t variable, uint64_t begin,
                                                           uint64_t count) const {
  return impl_->ShardsOf(variable, begin, count);
}

absl::optional<CheckpointManifest> FindOneBefore(const FileSystemPtr& file_system,
                                                 const std::string& directory, uint64_t number,
                                                 absl::string_view damage) {
  auto listed = CheckpointDirectory(file_system, directory).List();
  if (!listed.ok()) return absl::nullopt;
  for (const CheckpointDirectory::Listed& one : LeadingUpTo(number, *std::move(listed))) {
    if (one.number >= number || !one.manifest.ok() || RefersTo(*one.manifest, damage)) continue;
    const auto opened = Checkpoint::Open(file_system, directory, one.number);
    if (opened.ok()) return (*opened)->manifest();
  }
  return absl::nullopt;
}

absl::StatusOr<VerifyResult> VerifyCheckpoint(
    const FileSystemPtr& file_system, const std::string& directory, uint64_t number,
    const std::function<void(const CheckpointProblem&)>& on_problem,
    const std::function<absl::Status(uint64_t bytes)>& on_read) {
  VerifyResult result;
  if (number == 0) {
    MILLRACE_ASSIGN_OR_RETURN(number, CheckpointDirectory(file_system, directory).Newest());
  }
  result.number = number;
  const ProblemSink tell = [&](const CheckpointProblem& problem) {
    ++result.problems;
    on_problem(problem);
    return absl::OkStatus();
  };
  const ReadHook count = [&](uint64_t bytes) {
    result.bytes += bytes;
    return on_read == nullptr ? absl::OkStatus() : on_read(bytes);
  };
  const auto file = OpenCheckpointFile(file_system, directory, ManifestPath(number));
  if (!file.ok() && !absl::IsDataLoss(file.status())) return file.status();
  const uint64_t bytes = file.ok() ? file->bytes() : 0;
  absl::StatusOr<CheckpointManifest> manifest = ReadManifest(file_system, directory, number);
  const auto tell_of_manifest = [&](const absl::Status& status) {
    return tell({ManifestPath(number), 0, bytes, std::string(status.message())});
  };
  if (absl::IsDataLoss(manifest.status())) {
    MILLRACE_RETURN_IF_ERROR(tell_of_manifest(manifest.status()));
    return result;
  }
  MILLRACE_RETURN_IF_ERROR(manifest.status());
  MILLRACE_RETURN_IF_ERROR(count(bytes));
  Checkpoint::Impl checkpoint(file_system, directory, *std::move(manifest));
  MILLRACE_RETURN_IF_ERROR(checkpoint.Load(tell, count));
  // What is missing because of damage is told already.
  if (result.problems == 0) {
    if (const absl::Status covered = checkpoint.IndexBlocks(); !covered.ok()) {
      MILLRACE_RETURN_IF_ERROR(tell_of_manifest(covered));
    }
  }
  MILLRACE_RETURN_IF_ERROR(checkpoint.ReadAll(tell, count));
  return result;
}

}  // namespace millrace
