// A restored shard takes its applied set, version and epoch from the shards of the checkpoint that
// have its elements. Where these differ (an asynchronous job's, which was saved as it ran) there is
// no state that all elements of the shard were in, so it must lie within shards that agree.
//
// Whose slices these are does not matter: elements are found by variable and place.
#include "ps/checkpoint/first_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/applied_set.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/job_spec.h"
#include "common/printable.h"
#include "common/safetensors/safetensors_file.h"
#include "common/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "ps/dense/initial_value.h"

namespace millrace::ps {
namespace {

std::string ShapeText(absl::Span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// A tensor that has a slice: in a checkpoint or a file.
struct FoundTensor {
  std::string where;  // For messages: "'dense/kernel' in /checkpoints/000017".
  std::vector<uint64_t> shape;
  uint64_t elements = 0;
};

absl::Status CheckFits(const ShardSlice& slice, const FoundTensor& tensor) {
  if (!slice.shape().empty() && !std::equal(slice.shape().begin(), slice.shape().end(),
                                            tensor.shape.begin(), tensor.shape.end())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the shape of variable '", PrintableName(slice.variable_name()),
        "': ", ShapeText({slice.shape().data(), static_cast<size_t>(slice.shape_size())}), "; ",
        tensor.where, " has ", ShapeText(tensor.shape)));
  }
  const uint64_t end = slice.slice().offset() + slice.slice().length();
  if (end <= tensor.elements) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(tensor.where, " has ", tensor.elements,
                                          " elements, and the shard needs those up to ", end));
}

// The blocks of slice number `slice`: [first, second) in the layout.
std::pair<size_t, size_t> BlocksOf(const BlockLayout& layout, uint32_t slice) {
  const auto& places = layout.blocks();
  const auto begin = std::find_if(places.begin(), places.end(),
                                  [slice](const auto& place) { return place.slice == slice; });
  const auto end = std::find_if(begin, places.end(),
                                [slice](const auto& place) { return place.slice != slice; });
  return {begin - places.begin(), end - places.begin()};
}

// Reads elements [begin, begin + values.size()) of a variable's array.
using ReadValues = std::function<absl::Status(int array, uint64_t begin, absl::Span<float> values)>;

// Fills an array of the blocks of a slice, in the order in which files have it.
absl::Status FillArray(const ShardPlan& plan, uint32_t slice, int array,
                       const std::vector<std::shared_ptr<Block>>& blocks, const ReadValues& read,
                       const MayGoOn& may_go_on) {
  const uint64_t offset = plan.spec.slices(static_cast<int>(slice)).slice().offset();
  const auto [begin, end] = BlocksOf(plan.layout, slice);
  for (size_t i = begin; i < end; ++i) {
    MILLRACE_RETURN_IF_ERROR(may_go_on());
    MILLRACE_RETURN_IF_ERROR(read(array, offset + plan.layout.blocks()[i].offset,
                                  absl::MakeSpan(blocks[i]->array(array), blocks[i]->elements())));
  }
  return absl::OkStatus();
}

// Makes a shard's first state from a checkpoint.
class CheckpointLoader {
 public:
  CheckpointLoader(const ShardPlan& plan, std::unique_ptr<Checkpoint> checkpoint)
      : plan_(plan),
        checkpoint_(std::move(checkpoint)),
        folder_(CheckpointPath(plan.spec.restore().directory(), plan.spec.restore().checkpoint())) {
  }

  absl::StatusOr<ShardContents> Load(BlockPool* pool, const MayGoOn& may_go_on);

 private:
  absl::Status CheckManifest() const;
  // Which arrays of the checkpoint those of the shard are.
  absl::StatusOr<std::vector<int>> FindArrays() const;
  absl::Status FindSlices();
  // The one whose applied set, version and epoch the shard gets.
  absl::StatusOr<CheckpointShard> ChooseShard() const;
  absl::Status CheckSteps(const AppliedSet& applied, uint64_t version) const;

  const ShardPlan& plan_;
  const std::unique_ptr<Checkpoint> checkpoint_;
  const std::string folder_;       // For messages.
  std::vector<size_t> variables_;  // Of the checkpoint, by slice.
};

absl::Status CheckpointLoader::CheckManifest() const {
  const std::string& wanted = plan_.spec.restore().manifest_checksum();
  const std::string& found = checkpoint_->manifest().checksum();
  if (wanted == found) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(folder_, " is another checkpoint than the one that was ",
                                          "chosen: its checksum is ", found, ", not ", wanted));
}

absl::StatusOr<std::vector<int>> CheckpointLoader::FindArrays() const {
  std::vector<int> arrays = {0};
  const auto& slots = checkpoint_->manifest().slots();
  for (const std::string& name : OptimizerSlots(plan_.spec.optimizer())) {
    const auto slot = std::find(slots.begin(), slots.end(), name);
    if (slot == slots.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("spec.optimizer: needs the slot '", name, "'; ", folder_, " has ",
                       slots.empty() ? "none" : absl::StrJoin(slots, ", "),
                       ": use the optimizer that the checkpoint was trained with"));
    }
    arrays.push_back(1 + static_cast<int>(slot - slots.begin()));
  }
  return arrays;
}

absl::Status CheckpointLoader::FindSlices() {
  for (const ShardSlice& slice : plan_.spec.slices()) {
    const absl::optional<size_t> index = checkpoint_->Find(slice.variable_name());
    const std::string where =
        absl::StrCat("'", PrintableName(slice.variable_name()), "' in ", folder_);
    if (!index.has_value()) {
      return absl::NotFoundError(absl::StrCat("there is no variable ", where));
    }
    const Checkpoint::Variable& variable = checkpoint_->variables()[*index];
    MILLRACE_RETURN_IF_ERROR(CheckFits(slice, {where, variable.shape, variable.elements}));
    variables_.push_back(*index);
  }
  return absl::OkStatus();
}

bool AreOfOneState(const CheckpointShard& a, const CheckpointShard& b) {
  return a.epoch() == b.epoch() && a.version() == b.version() &&
         google::protobuf::util::MessageDifferencer::Equals(a.applied(), b.applied());
}

absl::StatusOr<CheckpointShard> CheckpointLoader::ChooseShard() const {
  const auto& shards = checkpoint_->manifest().shards();
  const CheckpointShard* chosen = nullptr;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const Slice& slice = plan_.spec.slices(static_cast<int>(i)).slice();
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> needed,
                              checkpoint_->ShardsOf(variables_[i], slice.offset(), slice.length()));
    for (const uint32_t index : needed) {
      const CheckpointShard& shard = shards[static_cast<int>(index)];
      if (chosen == nullptr) chosen = &shard;
      if (AreOfOneState(*chosen, shard)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(ShardName(plan_.spec.job_id(), plan_.spec.shard()), " needs shards ",
                       chosen->shard(), " and ", shard.shard(), " of ", folder_,
                       ", which were saved with different steps (versions ", chosen->version(),
                       " and ", shard.version(), "): each shard must lie within one of those"));
    }
  }
  return *chosen;
}

absl::Status CheckpointLoader::CheckSteps(const AppliedSet& applied, uint64_t version) const {
  const uint64_t total = plan_.spec.total_steps();
  const uint64_t end =
      applied.above().empty() ? applied.watermark() : *applied.above().rbegin() + 1;
  if (end > total) {
    return absl::InvalidArgumentError(absl::StrCat("spec.total_steps: ", total, "; ", folder_,
                                                   " has step ", end - 1, " already"));
  }
  const uint64_t replicas = plan_.spec.replicas();
  if (replicas == 0) return absl::OkStatus();
  // Versions and steps go together, and the last version may have fewer.
  const uint64_t versions = total / replicas + (total % replicas != 0 ? 1 : 0);
  if (applied.above().empty() && version <= versions &&
      applied.watermark() == (version == versions ? total : version * replicas)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "spec.replicas: ", replicas, "; ", folder_, " has version ", version, " with ",
      applied.size(), " steps, which is no moment of a job with so many and ", total, " steps"));
}

absl::StatusOr<ShardContents> CheckpointLoader::Load(BlockPool* pool, const MayGoOn& may_go_on) {
  MILLRACE_RETURN_IF_ERROR(CheckManifest());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<int> arrays, FindArrays());
  MILLRACE_RETURN_IF_ERROR(FindSlices());
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointShard shard, ChooseShard());
  auto state = std::make_shared<ShardState>();
  absl::StatusOr<AppliedSet> applied = AppliedSet::FromProto(shard.applied());
  if (!applied.ok()) {
    return absl::DataLossError(absl::StrCat(folder_, ": the steps of shard ", shard.shard(), ": ",
                                            applied.status().message()));
  }
  state->applied = *std::move(applied);
  state->version = shard.version();
  MILLRACE_RETURN_IF_ERROR(CheckSteps(state->applied, state->version));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Block>> blocks,
                            AllocateBlocks(plan_, pool));
  for (size_t i = 0; i < variables_.size(); ++i) {
    const auto read = [&](int array, uint64_t begin, absl::Span<float> values) {
      return checkpoint_->Read(variables_[i], arrays[static_cast<size_t>(array)], begin, values);
    };
    for (int array = 0; array < static_cast<int>(arrays.size()); ++array) {
      MILLRACE_RETURN_IF_ERROR(
          FillArray(plan_, static_cast<uint32_t>(i), array, blocks, read, may_go_on));
    }
  }
  state->blocks.assign(blocks.begin(), blocks.end());
  ShardContents contents;
  contents.epoch = shard.epoch();
  contents.stepped_back_to.set_epoch(shard.epoch());
  contents.stepped_back_to.set_version(shard.version());
  contents.origin = ShardStatus::CHECKPOINT;
  contents.state = std::move(state);
  return contents;
}

// Files and checkpoints with tensors, each open once.
class TensorFiles {
 public:
  explicit TensorFiles(FileSystemPtr file_system) : file_system_(std::move(file_system)) {}

  // Checks that the tensor has the slice's elements, and returns what reads them.
  absl::StatusOr<ReadValues> Open(const ShardSlice& slice);

 private:
  absl::StatusOr<ReadValues> OpenFile(const ShardSlice& slice, const StoredTensor& tensor);
  absl::StatusOr<ReadValues> OpenCheckpoint(const ShardSlice& slice, const StoredTensor& tensor);

  const FileSystemPtr file_system_;
  absl::btree_map<std::string, std::shared_ptr<SafetensorsReader>> files_;  // By path.
  absl::btree_map<std::string, std::shared_ptr<Checkpoint>> checkpoints_;   // By folder.
};

absl::StatusOr<ReadValues> TensorFiles::Open(const ShardSlice& slice) {
  const StoredTensor& tensor = slice.initial_value().stored();
  return tensor.checkpoint() == 0 ? OpenFile(slice, tensor) : OpenCheckpoint(slice, tensor);
}

absl::Status NoSuchTensor(const std::string& where) {
  return absl::NotFoundError(absl::StrCat("there is no tensor ", where));
}

absl::StatusOr<ReadValues> TensorFiles::OpenFile(const ShardSlice& slice,
                                                 const StoredTensor& tensor) {
  std::shared_ptr<SafetensorsReader>& file = files_[tensor.path()];
  if (file == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(SafetensorsReader opened,
                              SafetensorsReader::Open(file_system_, tensor.path()));
    file = std::make_shared<SafetensorsReader>(std::move(opened));
  }
  const std::string where =
      absl::StrCat("'", PrintableName(tensor.name()), "' in ", Printable(tensor.path()));
  const absl::optional<size_t> index = file->Find(tensor.name());
  if (!index.has_value()) return NoSuchTensor(where);
  const SafetensorsEntry& entry = file->header().tensors[*index];
  if (!IsReadableAsFloat(entry.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is of type ", entry.dtype, "; must be F32, F64, F16 or BF16"));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckFits(slice, {where, entry.shape, ElementsOf(entry.shape).value_or(0)}));
  return [file, index](int /*array*/, uint64_t begin, absl::Span<float> values) {
    return file->Read(*index, begin, values);
  };
}

absl::StatusOr<ReadValues> TensorFiles::OpenCheckpoint(const ShardSlice& slice,
                                                       const StoredTensor& tensor) {
  const std::string folder = CheckpointPath(tensor.path(), tensor.checkpoint());
  std::shared_ptr<Checkpoint>& checkpoint = checkpoints_[folder];
  if (checkpoint == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(checkpoint,
                              Checkpoint::Open(file_system_, tensor.path(), tensor.checkpoint()));
  }
  const std::string where = absl::StrCat("'", PrintableName(tensor.name()), "' in ", folder);
  const absl::optional<size_t> index = checkpoint->Find(tensor.name());
  if (!index.has_value()) return NoSuchTensor(where);
  const Checkpoint::Variable& variable = checkpoint->variables()[*index];
  MILLRACE_RETURN_IF_ERROR(CheckFits(slice, {where, variable.shape, variable.elements}));
  return [checkpoint, index](int array, uint64_t begin, absl::Span<float> values) {
    return checkpoint->Read(*index, array, begin, values);
  };
}

// Initial values, some of which are stored ones.
absl::StatusOr<ShardContents> ReadStoredValues(const FileSystemPtr& file_system,
                                               const ShardPlan& plan, BlockPool* pool,
                                               const MayGoOn& may_go_on) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Block>> blocks,
                            AllocateBlocks(plan, pool));
  TensorFiles files(file_system);
  for (int i = 0; i < plan.spec.slices_size(); ++i) {
    const ShardSlice& slice = plan.spec.slices(i);
    ReadValues read = [&plan, &slice](int /*array*/, uint64_t begin, absl::Span<float> values) {
      FillInitialValues(slice.initial_value(), plan.spec.seed(), slice.variable_name(), begin,
                        values);
      return absl::OkStatus();
    };
    if (slice.initial_value().has_stored()) {
      MILLRACE_ASSIGN_OR_RETURN(read, files.Open(slice));
    }
    MILLRACE_RETURN_IF_ERROR(
        FillArray(plan, static_cast<uint32_t>(i), /*array=*/0, blocks, read, may_go_on));
  }
  auto state = std::make_shared<ShardState>();
  for (const std::shared_ptr<Block>& block : blocks) {
    FillInitialSlots(*plan.optimizer, block.get());
    state->blocks.push_back(block);
  }
  ShardContents contents;
  contents.state = std::move(state);
  return contents;
}

}  // namespace

absl::StatusOr<ShardContents> ReadFirstState(const FileSystemPtr& file_system,
                                             const ShardPlan& plan, BlockPool* pool,
                                             const MayGoOn& may_go_on) {
  if (!plan.spec.has_restore()) return ReadStoredValues(file_system, plan, pool, may_go_on);
  const ShardRestore& restore = plan.spec.restore();
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<Checkpoint> checkpoint,
      Checkpoint::Open(file_system, restore.directory(), restore.checkpoint()));
  return CheckpointLoader(plan, std::move(checkpoint)).Load(pool, may_go_on);
}

}  // namespace millrace::ps
