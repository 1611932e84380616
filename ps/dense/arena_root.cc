// Why what a root leads to is what the shard acknowledged.
//
// Shard calls Write under its lock with each state that it publishes, before answers for that state
// go out, and while it still has references to the blocks of the state before. RootFile changes
// from the old contents to the new ones in one step. So at every instant the root has a state whose
// blocks are whole and not in use for anything else, and that has every step that was acknowledged,
// except, in synchronous mode, contributions that are held; for these the root is marked before the
// first of them is acknowledged, and it is marked no more with the next version, which has them.
//
// A state with a block in ordinary memory cannot be found by a successor, and the one before must
// not be: steps were acknowledged since, and its blocks are about to be used again. So such a Write
// empties the root, and the shard comes back from its cut. The next state that is in the arena as a
// whole fills it again.
//
// The root's name is a hash of the spec, all of it: a shard of another spec does not find it. What
// else has to agree, with the shard's stored record and its cuts, is the store's to compare.
//
// In words: generation, epoch, then the state, then 1 and the version before, or 0. A state is its
// version, the watermark of its applied set, the number of steps above and these, the number of its
// blocks and their places; of a shard that awaits norms, 1 and its gradient's norm, or 0 and 0.
#include "ps/dense/arena_root.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// Room for steps above the watermark, before a root has to grow.
constexpr size_t kSpareWords = 256;

// FNV-1a of 64 bits: fixed for ever, unlike absl::Hash.
uint64_t Hash(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::string RootName(const ShardPlan& plan) {
  return absl::StrFormat("%016x", Hash(plan.spec.SerializeAsString()));
}

uint64_t BitsOf(double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

double FromBits(uint64_t bits) {
  double number;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

void AppendState(const ShardState& state, bool has_norm, std::vector<uint64_t>* words) {
  words->push_back(state.version);
  words->push_back(state.applied.watermark());
  words->push_back(state.applied.above().size());
  words->insert(words->end(), state.applied.above().begin(), state.applied.above().end());
  words->push_back(state.blocks.size());
  for (const auto& block : state.blocks) words->push_back(block->place());
  if (!has_norm) return;
  words->push_back(state.gradient_norm.has_value() ? 1 : 0);
  words->push_back(BitsOf(state.gradient_norm.value_or(0)));
}

bool InArena(const ShardState& state) {
  return std::all_of(state.blocks.begin(), state.blocks.end(),
                     [](const auto& block) { return block->place() != 0; });
}

class ArenaRoot final : public ShardRoot {
 public:
  // `file`: nullptr: the arena had no room.
  ArenaRoot(std::shared_ptr<Arena> arena, const ShardPlan& plan, std::unique_ptr<RootFile> file)
      : arena_(std::move(arena)),
        shard_(ShardName(plan.spec.job_id(), plan.spec.shard())),
        has_norms_(AwaitsNorms(plan.spec)),
        file_(std::move(file)) {}

  ~ArenaRoot() override {
    if (file_ == nullptr || arena_->abandoned()) return;
    file_->Erase();
    file_->Unlink();
  }

  void Write(const RootContents& contents) override {
    if (file_ == nullptr || arena_->abandoned()) return;
    const ShardState* const previous = contents.previous.get();
    if (!InArena(*contents.state)) return Empty("a block is in ordinary memory");
    // A version before that cannot be found is one that is not known.
    const bool has_previous = previous != nullptr && InArena(*previous);
    words_ = {contents.generation, contents.epoch};
    AppendState(*contents.state, has_norms_, &words_);
    words_.push_back(has_previous ? 1 : 0);
    if (has_previous) AppendState(*previous, has_norms_, &words_);
    const absl::Status status = file_->Write(words_, contents.more_acknowledged);
    if (!status.ok()) Empty(status.message());
  }

  void NoteMoreAcknowledged() override {
    if (file_ != nullptr && !arena_->abandoned()) file_->Mark();
  }

 private:
  void Empty(absl::string_view reason) {
    file_->Erase();
    LOG_IF(WARNING, !std::exchange(said_, true))
        << shard_ << " would come back from its cut after a kill: " << reason;
  }

  const std::shared_ptr<Arena> arena_;
  const std::string shard_;  // For messages.
  const bool has_norms_;
  const std::unique_ptr<RootFile> file_;
  std::vector<uint64_t> words_;  // Kept for its memory.
  bool said_ = false;
};

absl::Status Nonsense(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("its root in the arena makes no sense: ", what));
}

// Takes the words of a root one after the other.
class RootReader {
 public:
  RootReader(absl::Span<const uint64_t> words, const ShardPlan& plan, BlockPool* pool)
      : words_(words), plan_(plan), pool_(pool) {}

  // 0 when there is no further one: then Finish says so.
  uint64_t Next() {
    if (words_.empty()) {
      cut_short_ = true;
      return 0;
    }
    const uint64_t word = words_.front();
    words_.remove_prefix(1);
    return word;
  }

  absl::StatusOr<StatePtr> NextState() {
    auto state = std::make_shared<ShardState>();
    state->version = Next();
    StepSet applied;
    applied.set_watermark(Next());
    const uint64_t above = Next();
    if (above > words_.size()) return Nonsense("its steps do not end");
    for (uint64_t i = 0; i < above; ++i) applied.add_above(Next());
    const absl::StatusOr<AppliedSet> set = AppliedSet::FromProto(applied);
    if (!set.ok()) return Nonsense(set.status().message());
    state->applied = *set;
    if (Next() != plan_.layout.blocks().size()) return Nonsense("it has another number of blocks");
    for (const BlockLayout::BlockPlace& place : plan_.layout.blocks()) {
      const uint64_t where = Next();
      std::shared_ptr<const Block>& block = blocks_[where];
      if (block == nullptr) {
        block = pool_->Adopt(where, place.elements, plan_.optimizer->slots());
      }
      if (block == nullptr) return Nonsense("a block is not where it should be");
      state->blocks.push_back(block);
    }
    if (!AwaitsNorms(plan_.spec)) return state;
    const bool has_norm = Next() == 1;
    const double norm = FromBits(Next());
    if (has_norm) state->gradient_norm = norm;
    return state;
  }

  absl::Status Finish() const {
    if (cut_short_ || !words_.empty()) return Nonsense("it has another length");
    return absl::OkStatus();
  }

 private:
  absl::Span<const uint64_t> words_;
  const ShardPlan& plan_;
  BlockPool* const pool_;
  bool cut_short_ = false;
  // Two versions may share a block.
  absl::flat_hash_map<uint64_t, std::shared_ptr<const Block>> blocks_;
};

absl::StatusOr<RootContents> Decode(const RootFile::Contents& stored, const ShardPlan& plan,
                                    BlockPool* pool) {
  RootReader reader(stored.words, plan, pool);
  RootContents contents;
  contents.more_acknowledged = stored.marked;
  contents.generation = reader.Next();
  contents.epoch = reader.Next();
  MILLRACE_ASSIGN_OR_RETURN(contents.state, reader.NextState());
  if (reader.Next() == 1) {
    MILLRACE_ASSIGN_OR_RETURN(contents.previous, reader.NextState());
  }
  MILLRACE_RETURN_IF_ERROR(reader.Finish());
  return contents;
}

}  // namespace

std::unique_ptr<ShardRoot> MakeArenaRoot(std::shared_ptr<Arena> arena, const ShardPlan& plan) {
  const size_t states = plan.spec.replicas() == 0 ? 1 : 2;
  auto file = arena->MakeRoot(RootName(plan), states * plan.layout.blocks().size() + kSpareWords);
  LOG_IF(WARNING, !file.ok()) << ShardName(plan.spec.job_id(), plan.spec.shard())
                              << " would come back from its cut after a kill: "
                              << file.status().message();
  return std::make_unique<ArenaRoot>(std::move(arena), plan,
                                     file.ok() ? *std::move(file) : nullptr);
}

absl::StatusOr<absl::optional<RecoveredRoot>> RecoverArenaRoot(std::shared_ptr<Arena> arena,
                                                               const ShardPlan& plan,
                                                               BlockPool* pool) {
  absl::StatusOr<std::unique_ptr<RootFile>> file = arena->OpenRoot(RootName(plan));
  if (absl::IsNotFound(file.status())) return absl::optional<RecoveredRoot>();
  if (!file.ok()) return file.status();
  const absl::optional<RootFile::Contents> stored = (*file)->Read();
  // Where it is of no use, the file goes.
  auto root = std::make_unique<ArenaRoot>(std::move(arena), plan, *std::move(file));
  if (!stored.has_value()) return absl::optional<RecoveredRoot>();
  MILLRACE_ASSIGN_OR_RETURN(RootContents contents, Decode(*stored, plan, pool));
  return absl::make_optional(RecoveredRoot{std::move(contents), std::move(root)});
}

}  // namespace millrace::ps
