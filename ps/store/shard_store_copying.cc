// How a store takes over a shard from another server, while that one keeps its own.
//
// Which of the two counts is decided by whoever asked for the copy, under a greater generation. So
// a copy that nobody came back for, of an earlier try, is a shard like any other here, at a
// generation that has passed: the next try finds it, and makes another one in its place.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {
namespace {

// It is of steps that the shard's job has.
absl::Status CheckSteps(const ShardPlan& plan, const AppliedSet& applied) {
  const uint64_t end =
      applied.above().empty() ? applied.watermark() : *applied.above().rbegin() + 1;
  if (end <= plan.spec.total_steps()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("what came of ", ShardName(plan.spec.job_id(), plan.spec.shard()), " has step ",
                   end - 1, " of a job with ", plan.spec.total_steps(), " steps"));
}

absl::StatusOr<ShardContents> ReadContents(const ShardPlan& plan, const ShardSnapshot& snapshot,
                                           ShardSource& source, BlockPool* pool,
                                           const MayGoOn& may_go_on) {
  auto state = std::make_shared<ShardState>();
  absl::StatusOr<AppliedSet> applied = AppliedSet::FromProto(snapshot.applied());
  if (!applied.ok()) return absl::DataLossError(applied.status().message());
  MILLRACE_RETURN_IF_ERROR(CheckSteps(plan, *applied));
  state->applied = *std::move(applied);
  state->version = snapshot.version();
  if (snapshot.has_gradient_norm()) state->gradient_norm = snapshot.gradient_norm();
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Block>> blocks,
                            AllocateBlocks(plan, pool));
  for (const std::shared_ptr<Block>& block : blocks) {
    for (int array = 0; array <= block->slots(); ++array) {
      MILLRACE_RETURN_IF_ERROR(may_go_on());
      MILLRACE_RETURN_IF_ERROR(
          source.ReadArray(absl::MakeSpan(block->array(array), block->elements())));
    }
  }
  MILLRACE_RETURN_IF_ERROR(source.Close());
  state->blocks.assign(blocks.begin(), blocks.end());
  ShardContents contents;
  contents.state = std::move(state);
  contents.epoch = snapshot.epoch();
  contents.stepped_back_to = snapshot.stepped_back_to();
  contents.origin = ShardStatus::COPY;
  return contents;
}

}  // namespace

absl::StatusOr<ShardStatus> ShardStore::Copy(const CopyShardRequest& request, ShardSource& source,
                                             absl::Duration timeout) {
  MILLRACE_RETURN_IF_ERROR(CheckOpen());
  const absl::Time deadline = clock_->Now() + timeout;
  const Key key(request.job_id(), request.shard());
  const uint64_t generation = request.generation();
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> earlier, FindCopy(key, generation));
  if (earlier != nullptr) return earlier->Status();
  const absl::Time begin = clock_->Now();
  MILLRACE_ASSIGN_OR_RETURN(const ShardSnapshot snapshot, source.Open());
  const ShardSpec& spec = snapshot.spec();
  if (Key(spec.job_id(), spec.shard()) != key) {
    return absl::DataLossError(absl::StrCat("what came is ", ShardName(spec.job_id(), spec.shard()),
                                            " instead of ", ShardName(key.first, key.second)));
  }
  MILLRACE_ASSIGN_OR_RETURN(ShardPlan plan, PlanShard(spec));
  // Another call may have made it while this one waited for the source, or for its turn below.
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> overtaken, FindCopy(key, generation));
  if (overtaken != nullptr) return overtaken->Status();
  MILLRACE_RETURN_IF_ERROR(DropOlder(key, request, deadline));
  MILLRACE_ASSIGN_OR_RETURN(const Making making,
                            to_come_.Begin(key, generation, MemoryNeed(plan), deadline));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> there, FindCopy(key, generation));
  if (there != nullptr) return there->Status();
  if (!absl::IsNotFound(shards_.Find(key.first, key.second).status())) {
    return absl::AbortedError(absl::StrCat(ShardName(key.first, key.second),
                                           " was made by another call meanwhile; ask again"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckMemory(plan));
  MILLRACE_ASSIGN_OR_RETURN(
      ShardContents contents,
      ReadContents(plan, snapshot, source, &pool_, [this, &key] { return CheckMaking(key); }));
  contents.load = clock_->Now() - begin;
  MILLRACE_RETURN_IF_ERROR(
      AddWithFirstCut(std::move(plan), generation, std::move(contents), deadline, making));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> made, shards_.Find(key.first, key.second));
  return made->Status();
}

// What a try or a move before has left is at an older generation than the source. One at its
// generation is the source itself, which would be gone before it is read.
absl::Status ShardStore::DropOlder(const Key& key, const CopyShardRequest& request,
                                   absl::Time deadline) {
  const auto there = shards_.Find(key.first, key.second);
  if (absl::IsNotFound(there.status())) return absl::OkStatus();
  if (there.ok() && (*there)->generation() >= request.source_generation()) {
    return absl::FailedPreconditionError(
        absl::StrCat((*there)->name(), " is here at generation ", (*there)->generation(),
                     "; what is older than source_generation, ", request.source_generation(),
                     ", is replaced: is this server the source?"));
  }
  return Drop(key.first, key.second, request.generation() - 1, deadline - clock_->Now());
}

absl::StatusOr<std::shared_ptr<Shard>> ShardStore::FindCopy(const Key& key,
                                                            uint64_t generation) const {
  const auto there = shards_.Find(key.first, key.second);
  if (!there.ok()) {  // What is damaged is of no generation that is known.
    MILLRACE_RETURN_IF_ERROR(to_come_.CheckNotOlder(key, generation));
    return nullptr;
  }
  MILLRACE_RETURN_IF_ERROR((*there)->CheckNotOlder(generation));
  if ((*there)->generation() != generation) return nullptr;
  MILLRACE_RETURN_IF_ERROR((*there)->CheckServes(generation));
  return *there;
}

}  // namespace millrace::ps
