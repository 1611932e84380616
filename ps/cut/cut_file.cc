#include "ps/cut/cut_file.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/cut/cut_checksums.h"
#include "ps/cut/cut_keys.h"

namespace millrace::ps {
namespace {

// Restored contributions came on no stream.
constexpr uint64_t kNoStream = 0;

absl::string_view Bytes(const float* values, size_t count) {
  return absl::string_view(reinterpret_cast<const char*>(values), count * sizeof(float));
}

// The pieces by their places in the shard.
std::vector<const WirePiece*> InOrder(const PushAssembly& push) {
  std::vector<const WirePiece*> pieces;
  for (const PushPieces& message : push.pieces()) {
    for (const WirePiece& piece : *message) {
      if (piece.data.size() > 0) pieces.push_back(&piece);
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const WirePiece* a, const WirePiece* b) {
    return std::make_pair(a->slice, a->offset) < std::make_pair(b->slice, b->offset);
  });
  return pieces;
}

CutManifest MakeManifest(const CutContents& contents, std::string checksums) {
  CutManifest manifest;
  manifest.set_checksums(std::move(checksums));
  manifest.set_epoch(contents.epoch);
  manifest.set_version(contents.state->version);
  *manifest.mutable_applied() = contents.state->applied.ToProto();
  manifest.set_blocks(static_cast<uint32_t>(contents.state->blocks.size()));
  manifest.set_of_stop(contents.of_stop);
  if (contents.state->gradient_norm.has_value()) {
    manifest.set_gradient_norm(*contents.state->gradient_norm);
  }
  for (const PushPtr& push : contents.held) {
    HeldContribution& held = *manifest.add_held();
    held.set_step(push->step());
    held.set_examples(push->examples());
    held.set_has_gradient(!push->pieces().empty());
  }
  return manifest;
}

// Returns what CutManifest.checksums says, which is of what is in memory, whatever the disk makes
// of it.
absl::StatusOr<std::string> PutState(const Database::Put& put, const std::string& shard_key,
                                     uint64_t cut, const ShardState& state) {
  std::string checksums;
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    const Block& block = *state.blocks[i];
    for (int array = 0; array <= block.slots(); ++array) {
      const absl::string_view bytes = Bytes(block.array(array), block.elements());
      checksums += BinaryChecksum(bytes);
      MILLRACE_RETURN_IF_ERROR(
          put(BlockKey(shard_key, cut, static_cast<uint32_t>(i), array), bytes));
    }
  }
  return checksums;
}

// Complete pushes have each element once that is not frozen, so in order their pieces are the
// shard's elements without those. One without pieces is in the sum that stands for the first.
absl::Status PutHeld(const Database::Put& put, const std::string& shard_key, uint64_t cut,
                     const BlockLayout& layout, const PushAssembly& push) {
  std::vector<float> block;
  uint32_t index = 0;
  for (const WirePiece* piece : InOrder(push)) {
    std::vector<float> values(piece->data.size());
    piece->data.CopyTo(absl::MakeSpan(values));
    for (absl::Span<const float> rest = values; !rest.empty();) {
      while (layout.blocks()[index].frozen) ++index;
      const size_t elements = layout.blocks()[index].elements;
      const size_t count = std::min(rest.size(), elements - block.size());
      block.insert(block.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(count));
      rest.remove_prefix(count);
      if (block.size() < elements) continue;
      MILLRACE_RETURN_IF_ERROR(
          put(HeldKey(shard_key, cut, push.step(), index), Bytes(block.data(), elements)));
      block.clear();
      ++index;
    }
  }
  return absl::OkStatus();
}

// An error of the disk may pass at once.
constexpr int kAttempts = 3;

template <typename Read>
auto TryToRead(const Read& read) {
  for (int attempt = 1;; ++attempt) {
    auto result = read();
    if (!absl::IsUnavailable(result.status()) || attempt == kAttempts) return result;
    LOG(WARNING) << "tries again: " << result.status();
  }
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a cut's file is damaged: ", what));
}

}  // namespace

uint64_t CutFileBytes(const ShardPlan& plan, const CutContents& contents) {
  uint64_t bytes = StateBytes(plan);
  for (const PushPtr& push : contents.held) {
    if (!push->pieces().empty()) bytes += plan.layout.pushed_elements() * sizeof(float);
  }
  return bytes;
}

absl::Status PutCut(const ShardPlan& plan, uint64_t number, const CutContents& contents,
                    const Database::Put& put) {
  const std::string shard_key = ShardKey(plan.spec.job_id(), plan.spec.shard());
  MILLRACE_ASSIGN_OR_RETURN(std::string checksums,
                            PutState(put, shard_key, number, *contents.state));
  for (const PushPtr& push : contents.held) {
    MILLRACE_RETURN_IF_ERROR(PutHeld(put, shard_key, number, plan.layout, *push));
  }
  return put(ManifestKey(shard_key, number),
             MakeManifest(contents, std::move(checksums)).SerializeAsString());
}

CutReader::CutReader(Database* database, std::string shard_key, uint64_t number)
    : database_(database), shard_key_(std::move(shard_key)), number_(number) {}

absl::StatusOr<CutManifest> CutReader::Manifest() const {
  return TryToRead([this] { return ManifestOnce(); });
}

absl::StatusOr<ShardContents> CutReader::Contents(const ShardPlan& plan, BlockPool* pool) const {
  return TryToRead([&] { return ContentsOnce(plan, pool); });
}

absl::StatusOr<ShardContents> CutReader::ContentsOnce(const ShardPlan& plan,
                                                      BlockPool* pool) const {
  MILLRACE_ASSIGN_OR_RETURN(const CutManifest manifest, ManifestOnce());
  if (manifest.blocks() != plan.layout.blocks().size()) return Damaged("its manifest");
  ShardContents contents;
  contents.origin = ShardStatus::CUT;
  MILLRACE_ASSIGN_OR_RETURN(contents.state, State(plan, manifest, pool));
  for (const HeldContribution& held : manifest.held()) {
    MILLRACE_ASSIGN_OR_RETURN(PushPtr push, Held(plan, held));
    contents.held.push_back(std::move(push));
  }
  return contents;
}

absl::StatusOr<CutManifest> CutReader::ManifestOnce() const {
  absl::optional<CutManifest> manifest;
  const auto visit = [&manifest](absl::string_view /*key*/,
                                 absl::string_view value) -> absl::Status {
    if (!manifest.emplace().ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return Damaged("its manifest");
    }
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(Read(ManifestKey(shard_key_, number_), visit));
  if (!manifest.has_value()) return Damaged("it has no manifest");
  return *std::move(manifest);
}

absl::StatusOr<StatePtr> CutReader::State(const ShardPlan& plan, const CutManifest& manifest,
                                          BlockPool* pool) const {
  auto state = std::make_shared<ShardState>();
  state->version = manifest.version();
  if (manifest.has_gradient_norm()) state->gradient_norm = manifest.gradient_norm();
  absl::StatusOr<AppliedSet> applied = AppliedSet::FromProto(manifest.applied());
  if (!applied.ok()) return absl::DataLossError(applied.status().message());
  state->applied = *std::move(applied);
  const std::vector<BlockLayout::BlockPlace>& places = plan.layout.blocks();
  const int slots = plan.optimizer->slots();
  MILLRACE_ASSIGN_OR_RETURN(const CutChecksums checksums, CutChecksums::Of(manifest, slots + 1));
  std::shared_ptr<Block> block;
  int array = 0;
  const auto visit = [&](absl::string_view key, absl::string_view value) -> absl::Status {
    const size_t index = state->blocks.size();
    if (index >= places.size() || value.size() != places[index].elements * sizeof(float) ||
        key != BlockKey(shard_key_, number_, static_cast<uint32_t>(index), array)) {
      return Damaged("a block");
    }
    MILLRACE_RETURN_IF_ERROR(checksums.Check(index, array, value));
    if (array == 0) block = pool->Allocate(places[index].elements, slots);
    if (block == nullptr) return absl::ResourceExhaustedError("not enough memory for its blocks");
    std::copy_n(value.data(), value.size(), reinterpret_cast<char*>(block->array(array)));
    if (++array > slots) {
      state->blocks.push_back(std::move(block));
      array = 0;
    }
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(Read(BlocksPrefix(shard_key_, number_), visit));
  if (state->blocks.size() != places.size()) return Damaged("blocks are missing");
  return state;
}

absl::StatusOr<std::unique_ptr<OpenCut>> CutReader::Open(const ShardPlan& plan) const {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<BulkFile> file, TryToRead([this] {
                              return database_->OpenFile(CutFileName(shard_key_, number_));
                            }));
  auto cut = std::unique_ptr<OpenCut>(new OpenCut(&plan, std::move(file), shard_key_, number_));
  MILLRACE_RETURN_IF_ERROR(cut->ReadManifest());
  return cut;
}

OpenCut::OpenCut(const ShardPlan* plan, std::unique_ptr<BulkFile> file, std::string shard_key,
                 uint64_t number)
    : plan_(*plan), file_(std::move(file)), shard_key_(std::move(shard_key)), number_(number) {}

OpenCut::~OpenCut() = default;

absl::Status OpenCut::ReadManifest() {
  MILLRACE_ASSIGN_OR_RETURN(const absl::string_view bytes, Get(ManifestKey(shard_key_, number_)));
  if (!manifest_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      manifest_.blocks() != plan_.layout.blocks().size()) {
    return Damaged("its manifest");
  }
  MILLRACE_ASSIGN_OR_RETURN(checksums_, CutChecksums::Of(manifest_, plan_.optimizer->slots() + 1));
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> OpenCut::Get(const std::string& key) {
  return TryToRead([&] { return file_->Get(key); });
}

absl::StatusOr<absl::string_view> OpenCut::Read(size_t block, int array) {
  MILLRACE_ASSIGN_OR_RETURN(
      const absl::string_view bytes,
      Get(BlockKey(shard_key_, number_, static_cast<uint32_t>(block), array)));
  if (bytes.size() != plan_.layout.blocks()[block].elements * sizeof(float)) {
    return Damaged("a block");
  }
  MILLRACE_RETURN_IF_ERROR(checksums_->Check(block, array, bytes));
  return bytes;
}

absl::string_view OpenCut::Checksum(size_t block, int array) const {
  return checksums_->Get(block, array);
}

absl::StatusOr<PushPtr> CutReader::Held(const ShardPlan& plan, const HeldContribution& held) const {
  std::vector<BlockLayout::BlockPlace> places;
  for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
    if (!place.frozen) places.push_back(place);
  }
  auto push = std::make_shared<PushAssembly>(/*push_id=*/0, held.step(), held.examples());
  if (!held.has_gradient()) return push;
  auto pieces = std::make_shared<std::vector<WirePiece>>();
  const auto visit = [&](absl::string_view /*key*/, absl::string_view value) -> absl::Status {
    const size_t index = pieces->size();
    if (index >= places.size() || value.size() != places[index].elements * sizeof(float)) {
      return Damaged("a held contribution");
    }
    pieces->push_back({places[index].slice, places[index].offset,
                       FloatSlices({grpc::Slice(value.data(), value.size())})});
    return absl::OkStatus();
  };
  MILLRACE_RETURN_IF_ERROR(Read(HeldPrefix(shard_key_, number_, held.step()), visit));
  if (pieces->size() != places.size()) return Damaged("a part of a held contribution is missing");
  const absl::Status added = push->Add(plan.layout, kNoStream, std::move(pieces), /*keep=*/true);
  if (!added.ok()) return absl::DataLossError(added.message());
  return push;
}

absl::Status CutReader::Read(const std::string& prefix, const Database::Visit& visit) const {
  return database_->ReadFile(CutFileName(shard_key_, number_), prefix, visit);
}

}  // namespace millrace::ps
