// Why a cut survives wholly or not at all.
//
// Its blocks are written under a number that no cut had before, and synced. Then one synced write
// commits it: the manifest, which lists the blocks' checksums, together with the deletion of the
// third newest cut. A cut without a manifest is one whose writing was cut short: Open() deletes it.
// So at every moment the database has the newest committed cut and the one before, whole, whatever
// happens.
//
// A cut with a damaged block is passed over for the one before it: steps that are missing there are
// run again, as after any crash.
#include "ps/cut/cut_store.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/cut/cut_keys.h"
#include "zlib.h"

namespace millrace::ps {
namespace {

constexpr size_t kKeptCuts = 2;
// Restored contributions came on no stream.
constexpr uint64_t kNoStream = 0;

uint32_t Crc32(uint32_t crc, absl::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<CutStore>> CutStore::Open(const std::string& path,
                                                         DatabaseFault fault) {
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                            Database::Open(path, std::move(fault)));
  std::unique_ptr<CutStore> store(new CutStore(std::move(database)));
  MILLRACE_RETURN_IF_ERROR(store->FindCuts());
  MILLRACE_RETURN_IF_ERROR(store->DeleteLeftovers());
  return store;
}

CutStore::CutStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}

absl::Status CutStore::FindCuts() {
  absl::Status failed;
  MILLRACE_RETURN_IF_ERROR(database_->Scan(
      CutsPrefix(),
      [&](absl::string_view key, const auto& /*value*/) -> absl::optional<std::string> {
        const absl::optional<CutKey> cut = ParseCutKey(key);
        if (!cut.has_value()) return absl::nullopt;
        const absl::StatusOr<absl::optional<Cut>> found = FindCut(*cut);
        failed.Update(found.status());
        if (found.ok() && found->has_value()) {
          MutexLock lock(&mutex_);
          cuts_[cut->shard_key].push_back(**found);
        }
        return EndOfPrefix(CutPrefix(cut->shard_key, cut->cut));
      }));
  return failed;
}

// nullopt: it was not committed. A damaged cut counts, so that its shard is not taken for one that
// never had a cut.
absl::StatusOr<absl::optional<CutStore::Cut>> CutStore::FindCut(const CutKey& key) {
  const auto stored = database_->Get(ManifestKey(key.shard_key, key.cut));
  if (!stored.ok() && !absl::IsDataLoss(stored.status())) return stored.status();
  if (stored.ok() && !stored->has_value()) return absl::optional<Cut>();
  CutManifest manifest;
  const bool whole = stored.ok() && manifest.ParseFromString(**stored);
  return absl::make_optional(Cut{key.cut, manifest.version(), /*damaged=*/!whole});
}

absl::Status CutStore::DeleteLeftovers() {
  Changes changes;
  MILLRACE_RETURN_IF_ERROR(database_->Scan(
      CutsPrefix(),
      [&](absl::string_view key, const auto& /*value*/) -> absl::optional<std::string> {
        const absl::optional<CutKey> cut = ParseCutKey(key);
        if (!cut.has_value()) return absl::nullopt;
        const std::string begin = CutPrefix(cut->shard_key, cut->cut);
        const std::vector<Cut> kept = Cuts(cut->shard_key);
        if (std::none_of(kept.begin(), kept.end(),
                         [&](const Cut& each) { return each.number == cut->cut; })) {
          changes.delete_ranges.emplace_back(begin, EndOfPrefix(begin));
        }
        return EndOfPrefix(begin);
      }));
  // A record is written with its shard's first cut: one without cuts belongs to a shard whose
  // making was cut short.
  MILLRACE_RETURN_IF_ERROR(database_->Scan(
      RecordPrefix(),
      [&](absl::string_view key, const auto& /*value*/) -> absl::optional<std::string> {
        if (Cuts(std::string(key.substr(RecordPrefix().size()))).empty()) {
          changes.delete_ranges.emplace_back(std::string(key), std::string(key) + '\0');
        }
        return absl::nullopt;
      }));
  if (changes.delete_ranges.empty()) return absl::OkStatus();
  return database_->Commit(changes);
}

std::vector<CutStore::Cut> CutStore::Cuts(const std::string& shard_key) const {
  MutexLock lock(&mutex_);
  auto it = cuts_.find(shard_key);
  return it == cuts_.end() ? std::vector<Cut>() : it->second;
}

std::vector<uint64_t> CutStore::Versions(const std::string& job_id, uint32_t shard) const {
  std::vector<uint64_t> versions;
  for (const Cut& cut : Cuts(ShardKey(job_id, shard))) versions.push_back(cut.version);
  return versions;
}

absl::StatusOr<std::vector<StoredShard>> CutStore::ListShards() {
  std::vector<StoredShard> shards;
  MILLRACE_RETURN_IF_ERROR(database_->Scan(
      RecordPrefix(), [&](absl::string_view key, const auto& value) -> absl::optional<std::string> {
        const absl::optional<ShardId> id = ParseRecordKey(key);
        if (!id.has_value()) return absl::nullopt;
        ShardRecord record;
        const absl::string_view bytes = value();
        StoredShard shard;
        shard.damaged = !record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
                        record.spec().job_id() != id->job_id || record.spec().shard() != id->shard;
        if (!shard.damaged) shard = {record.spec(), record.generation()};
        shard.spec.set_job_id(id->job_id);
        shard.spec.set_shard(id->shard);
        shards.push_back(std::move(shard));
        return absl::nullopt;
      }));
  return shards;
}

absl::Status CutStore::WriteRecord(const ShardSpec& spec, uint64_t generation) {
  ShardRecord record;
  *record.mutable_spec() = spec;
  record.set_generation(generation);
  Changes changes;
  changes.put.emplace_back(RecordKey(ShardKey(spec.job_id(), spec.shard())),
                           record.SerializeAsString());
  return database_->Commit(changes);
}

absl::Status CutStore::WriteCut(const ShardPlan& plan, const ShardState& state,
                                const std::vector<PushPtr>& held) {
  const std::string shard_key = ShardKey(plan.spec.job_id(), plan.spec.shard());
  const std::vector<Cut> cuts = Cuts(shard_key);
  const Cut cut = {cuts.empty() ? 0 : cuts.back().number + 1, state.version};
  // What a failed attempt left under this number.
  Changes leftovers;
  const std::string prefix = CutPrefix(shard_key, cut.number);
  leftovers.delete_ranges.emplace_back(prefix, EndOfPrefix(prefix));
  MILLRACE_RETURN_IF_ERROR(database_->Commit(leftovers));

  CutManifest manifest;
  manifest.set_version(state.version);
  *manifest.mutable_applied() = state.applied.ToProto();
  MILLRACE_RETURN_IF_ERROR(WriteBlocks(shard_key, cut.number, state, &manifest));
  for (const PushPtr& push : held) {
    MILLRACE_RETURN_IF_ERROR(WriteHeld(shard_key, cut.number, plan.layout, *push, &manifest));
  }
  MILLRACE_RETURN_IF_ERROR(database_->Sync());
  return Commit(shard_key, cut, manifest);
}

absl::Status CutStore::WriteBlocks(const std::string& shard_key, uint64_t cut,
                                   const ShardState& state, CutManifest* manifest) {
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    const Block& block = *state.blocks[i];
    std::vector<absl::string_view> arrays;
    uint32_t crc = 0;
    for (int array = 0; array <= block.slots(); ++array) {
      arrays.push_back(Bytes(block.array(array), block.elements()));
      crc = Crc32(crc, arrays.back());
    }
    manifest->add_block_crc32(crc);
    MILLRACE_RETURN_IF_ERROR(
        database_->PutBulk(BlockKey(shard_key, cut, static_cast<uint32_t>(i)), arrays));
  }
  return absl::OkStatus();
}

absl::Status CutStore::WriteHeld(const std::string& shard_key, uint64_t cut,
                                 const BlockLayout& layout, const PushAssembly& push,
                                 CutManifest* manifest) {
  HeldContribution* held = manifest->add_held();
  held->set_step(push.step());
  held->set_examples(push.examples());
  // Complete pushes have each element once, so in order their pieces are the shard's elements. One
  // without pieces is in the sum that stands for the first.
  std::vector<float> block;
  uint32_t index = 0;
  for (const WirePiece* piece : InOrder(push)) {
    std::vector<float> values(piece->data.size());
    piece->data.CopyTo(absl::MakeSpan(values));
    for (absl::Span<const float> rest = values; !rest.empty();) {
      const size_t elements = layout.blocks()[index].elements;
      const size_t count = std::min(rest.size(), elements - block.size());
      block.insert(block.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(count));
      rest.remove_prefix(count);
      if (block.size() < elements) continue;
      const absl::string_view bytes = Bytes(block.data(), elements);
      held->add_block_crc32(Crc32(0, bytes));
      MILLRACE_RETURN_IF_ERROR(
          database_->PutBulk(HeldKey(shard_key, cut, push.step(), index), {bytes}));
      block.clear();
      ++index;
    }
  }
  return absl::OkStatus();
}

absl::Status CutStore::Commit(const std::string& shard_key, const Cut& cut,
                              const CutManifest& manifest) {
  std::vector<Cut> cuts = Cuts(shard_key);
  cuts.push_back(cut);
  Changes changes;
  if (cuts.size() > kKeptCuts) {
    cuts.erase(cuts.begin(), cuts.end() - kKeptCuts);
    changes.delete_ranges.emplace_back(CutPrefix(shard_key, 0),
                                       CutPrefix(shard_key, cuts.front().number));
  }
  changes.put.emplace_back(ManifestKey(shard_key, cut.number), manifest.SerializeAsString());
  MILLRACE_RETURN_IF_ERROR(database_->Commit(changes));
  MutexLock lock(&mutex_);
  cuts_[shard_key] = std::move(cuts);
  return absl::OkStatus();
}

absl::Status CutStore::MarkStopped() {
  Changes changes;
  changes.put.emplace_back(CleanStopKey(), "");
  return database_->Commit(changes);
}

absl::StatusOr<bool> CutStore::TakeStopMark() {
  const std::string key = CleanStopKey();
  MILLRACE_ASSIGN_OR_RETURN(const absl::optional<std::string> mark, database_->Get(key));
  if (!mark.has_value()) return false;
  Changes changes;
  changes.delete_ranges.emplace_back(key, key + '\0');
  MILLRACE_RETURN_IF_ERROR(database_->Commit(changes));
  return true;
}

absl::Status CutStore::DropShard(const std::string& job_id, uint32_t shard) {
  const std::string shard_key = ShardKey(job_id, shard);
  const std::string record = RecordKey(shard_key);
  const std::string cuts = CutsPrefix(shard_key);
  Changes changes;
  changes.delete_ranges.emplace_back(record, record + '\0');
  changes.delete_ranges.emplace_back(cuts, EndOfPrefix(cuts));
  MILLRACE_RETURN_IF_ERROR(database_->Commit(changes));
  MutexLock lock(&mutex_);
  cuts_.erase(shard_key);
  return absl::OkStatus();
}

absl::Status CutStore::FreeSpace(const std::string& job_id, uint32_t shard) {
  const std::string cuts = CutsPrefix(ShardKey(job_id, shard));
  return database_->Compact(cuts, EndOfPrefix(cuts));
}

absl::StatusOr<ShardContents> CutStore::ReadShard(const ShardPlan& plan, BlockPool* pool) {
  const std::string shard_key = ShardKey(plan.spec.job_id(), plan.spec.shard());
  const std::string name = ShardName(plan.spec.job_id(), plan.spec.shard());
  absl::Status status = absl::DataLossError("it has no cut");
  std::vector<Cut> cuts = Cuts(shard_key);
  // Damaged ones first, and the newest version last. A clean stop that was cut short may have
  // written the version before once more, after the newest.
  std::stable_sort(cuts.begin(), cuts.end(), [](const Cut& a, const Cut& b) {
    return a.damaged != b.damaged ? a.damaged : a.version < b.version;
  });
  for (const Cut& cut : cuts) {
    if (cut.damaged) Forget(shard_key, cut.number);
  }
  for (; !cuts.empty(); cuts.pop_back()) {
    absl::StatusOr<ShardContents> contents = ReadCut(plan, cuts.back().number, pool);
    if (contents.ok() && cuts.size() > 1) {
      MILLRACE_ASSIGN_OR_RETURN(contents->previous, ReadPrevious(plan, cuts[cuts.size() - 2],
                                                                 contents->state->version, pool));
    }
    if (contents.ok()) return contents;
    status = contents.status();
    if (!absl::IsDataLoss(status)) {
      return absl::Status(status.code(), absl::StrCat("cannot read a cut of ", name, ": ",
                                                      std::string(status.message())));
    }
    LOG(ERROR) << name << ": passes over a cut of version " << cuts.back().version << ": "
               << status;
    Forget(shard_key, cuts.back().number);
  }
  return absl::DataLossError(absl::StrCat(
      name, " cannot be restored, no whole cut of it is left: ", std::string(status.message()),
      "; cancel its job and submit it again"));
}

absl::StatusOr<StatePtr> CutStore::ReadPrevious(const ShardPlan& plan, const Cut& cut,
                                                uint64_t version, BlockPool* pool) {
  if (plan.spec.replicas() == 0 || cut.damaged || cut.version + 1 != version) return nullptr;
  absl::StatusOr<ShardContents> contents = ReadCut(plan, cut.number, pool);
  if (contents.ok()) return contents->state;
  if (absl::IsDataLoss(contents.status())) return nullptr;
  return contents.status();
}

void CutStore::Forget(const std::string& shard_key, uint64_t number) {
  MutexLock lock(&mutex_);
  std::vector<Cut>& cuts = cuts_[shard_key];
  cuts.erase(std::remove_if(cuts.begin(), cuts.end(),
                            [number](const Cut& cut) { return cut.number == number; }),
             cuts.end());
}

absl::StatusOr<ShardContents> CutStore::ReadCut(const ShardPlan& plan, uint64_t cut,
                                                BlockPool* pool) {
  MILLRACE_ASSIGN_OR_RETURN(const CutManifest manifest, ReadManifest(plan, cut));
  ShardContents contents;
  MILLRACE_ASSIGN_OR_RETURN(contents.state, ReadState(plan, cut, manifest, pool));
  const std::string shard_key = ShardKey(plan.spec.job_id(), plan.spec.shard());
  for (const HeldContribution& held : manifest.held()) {
    MILLRACE_ASSIGN_OR_RETURN(PushPtr push, ReadHeld(plan, shard_key, cut, held));
    contents.held.push_back(std::move(push));
  }
  return contents;
}

absl::StatusOr<CutManifest> CutStore::ReadManifest(const ShardPlan& plan, uint64_t cut) {
  const std::string shard_key = ShardKey(plan.spec.job_id(), plan.spec.shard());
  MILLRACE_ASSIGN_OR_RETURN(const absl::optional<std::string> stored,
                            database_->Get(ManifestKey(shard_key, cut)));
  CutManifest manifest;
  if (!stored.has_value() || !manifest.ParseFromString(*stored) ||
      manifest.block_crc32_size() != static_cast<int>(plan.layout.blocks().size())) {
    return absl::DataLossError("the cut's manifest is damaged");
  }
  return manifest;
}

absl::StatusOr<StatePtr> CutStore::ReadState(const ShardPlan& plan, uint64_t cut,
                                             const CutManifest& manifest, BlockPool* pool) {
  const std::string shard_key = ShardKey(plan.spec.job_id(), plan.spec.shard());
  auto state = std::make_shared<ShardState>();
  state->version = manifest.version();
  absl::StatusOr<AppliedSet> applied = AppliedSet::FromProto(manifest.applied());
  if (!applied.ok()) return absl::DataLossError(applied.status().message());
  state->applied = *std::move(applied);
  const int slots = plan.optimizer->slots();
  for (size_t i = 0; i < plan.layout.blocks().size(); ++i) {
    const size_t elements = plan.layout.blocks()[i].elements;
    const size_t bytes = elements * sizeof(float);
    MILLRACE_ASSIGN_OR_RETURN(const std::string value,
                              ReadChecked(BlockKey(shard_key, cut, static_cast<uint32_t>(i)),
                                          bytes * static_cast<size_t>(slots + 1),
                                          manifest.block_crc32(static_cast<int>(i))));
    std::shared_ptr<Block> block = pool->Allocate(elements, slots);
    if (block == nullptr) return absl::ResourceExhaustedError("not enough memory for its blocks");
    for (int array = 0; array <= slots; ++array) {
      std::copy_n(value.data() + static_cast<size_t>(array) * bytes, bytes,
                  reinterpret_cast<char*>(block->array(array)));
    }
    state->blocks.push_back(std::move(block));
  }
  return state;
}

absl::StatusOr<PushPtr> CutStore::ReadHeld(const ShardPlan& plan, const std::string& shard_key,
                                           uint64_t cut, const HeldContribution& held) {
  const std::vector<BlockLayout::BlockPlace>& places = plan.layout.blocks();
  auto push = std::make_shared<PushAssembly>(/*push_id=*/0, held.step(), held.examples());
  if (held.block_crc32().empty()) return push;
  if (held.block_crc32_size() != static_cast<int>(places.size())) {
    return absl::DataLossError("the cut's manifest is damaged");
  }
  auto pieces = std::make_shared<std::vector<WirePiece>>();
  for (size_t i = 0; i < places.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::string value,
        ReadChecked(HeldKey(shard_key, cut, held.step(), static_cast<uint32_t>(i)),
                    places[i].elements * sizeof(float), held.block_crc32(static_cast<int>(i))));
    pieces->push_back({places[i].slice, places[i].offset, FloatSlices({grpc::Slice(value)})});
  }
  const absl::Status added = push->Add(plan.layout, kNoStream, std::move(pieces), /*keep=*/true);
  if (!added.ok()) return absl::DataLossError(added.message());
  return push;
}

absl::StatusOr<std::string> CutStore::ReadChecked(const std::string& key, size_t bytes,
                                                  uint32_t crc32) {
  MILLRACE_ASSIGN_OR_RETURN(absl::optional<std::string> value, database_->Get(key));
  if (!value.has_value()) return absl::DataLossError("a block is missing");
  if (value->size() != bytes || Crc32(0, *value) != crc32) {
    return absl::DataLossError(absl::StrCat("a block of ", value->size(), " bytes is damaged: ",
                                            bytes, " bytes with another checksum were written"));
  }
  return *std::move(value);
}

}  // namespace millrace::ps
