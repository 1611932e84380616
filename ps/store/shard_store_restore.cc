// How a store finds its shards again when its server starts.
//
// A shard is as its process left it where that is in memory still, otherwise at its newest cut; one
// whose job has ended needs its record alone, until somebody asks for its values. What the disk
// does not give, or another version of the program has made, keeps nobody from the others: requests
// to it are answered with why, and where it may yet be had, nobody takes its memory or makes it
// anew. Where there is no memory for all of them the server does not start.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/store/arena_recovery.h"
#include "ps/store/shard_store.h"

namespace millrace::ps {

absl::Status ShardStore::Restore() {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<StoredShard> stored, cuts_->ListShards());
  MILLRACE_ASSIGN_OR_RETURN(const bool whole, cuts_->TakeStopMark());
  for (const StoredShard& each : stored) {
    absl::Status status = RestoreShard(each, whole);
    if (status.ok()) continue;
    if (absl::IsUnavailable(status)) {
      // An older cut would lose steps that the disk may yet give back. One whose job has ended is
      // not made anew, and needs no memory.
      if (!each.term.retired) Await(each);
      status = absl::UnavailableError(
          absl::StrCat(ShardName(each.spec.job_id(), each.spec.shard()),
                       " is not served: ", std::string(status.message()), "; mend ",
                       "that and start the server again, or cancel the job"));
    } else if (!absl::IsDataLoss(status)) {
      return status;
    }
    LOG(ERROR) << status;
    shards_.AddDamaged(each.spec.job_id(), each.spec.shard(), status);
  }
  if (arena_ != nullptr) arena_->EndRecovery();
  return absl::OkStatus();
}

absl::Status ShardStore::RestoreShard(const StoredShard& stored, bool whole) {
  const std::string name = ShardName(stored.spec.job_id(), stored.spec.shard());
  if (stored.damaged) {
    return absl::DataLossError(absl::StrCat(name, " cannot be restored, its record is damaged; ",
                                            "start the server on a whole copy of its directory"));
  }
  absl::StatusOr<ShardPlan> plan = PlanShard(stored.spec);
  if (!plan.ok()) {  // A version that does may be started next.
    return absl::UnavailableError(
        absl::StrCat("this version of the program does not take its spec: ",
                     std::string(plan.status().message())));
  }
  if (stored.term.retired) {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Shard> retired,
                              FromRecord(*std::move(plan), stored));
    flusher_.Report(retired.get());
    shards_.Add(retired);
    return absl::OkStatus();
  }
  std::shared_ptr<Shard> shard = FromArena(&*plan, stored);
  if (shard == nullptr) {
    MILLRACE_RETURN_IF_ERROR(stored.unreadable);
    MILLRACE_ASSIGN_OR_RETURN(shard, FromCut(*std::move(plan), stored, whole));
  }
  flusher_.Watch(shard);
  ServeReads(shard);
  shards_.Add(shard);
  return absl::OkStatus();
}

// A version that knows all of its spec may need more memory for it.
void ShardStore::Await(const StoredShard& stored) {
  ShardSpec known = stored.spec;
  known.DiscardUnknownFields();
  const absl::StatusOr<ShardPlan> plan = PlanShard(known);
  to_come_.Await(Key(stored.spec.job_id(), stored.spec.shard()), stored.term.generation,
                 plan.ok() ? MemoryNeed(*plan) : 0);
}

absl::StatusOr<std::shared_ptr<Shard>> ShardStore::FromRecord(ShardPlan plan,
                                                              const StoredShard& stored) {
  auto state = std::make_shared<ShardState>();
  state->version = stored.term.retired_version;
  absl::StatusOr<AppliedSet> applied = AppliedSet::FromProto(stored.term.retired_applied);
  if (!applied.ok()) return absl::DataLossError(applied.status().message());
  state->applied = *std::move(applied);
  ShardContents contents;
  contents.state = std::move(state);
  contents.epoch = stored.term.epoch;
  contents.stepped_back_to = stored.term.stepped_back_to;
  contents.origin = ShardStatus::CUT;
  contents.retired = true;
  const auto shard =
      std::make_shared<Shard>(std::move(plan), stored.term.generation, std::move(contents), &pool_,
                              /*root=*/nullptr, &spare_);
  shard->SetStored(stored.term);
  ServeReads(shard);
  return shard;
}

std::shared_ptr<Shard> ShardStore::FromArena(ShardPlan* plan, const StoredShard& stored) {
  const uint64_t newest_cut = cuts_->NewestVersion(stored.spec.job_id(), stored.spec.shard());
  const StoredPlace place = {stored.term.generation, stored.term.epoch, newest_cut};
  absl::optional<RecoveredRoot> found = RecoverShard(arena_, *plan, place, &pool_);
  if (!found.has_value()) return nullptr;
  ShardContents contents;
  contents.state = std::move(found->contents.state);
  contents.previous = std::move(found->contents.previous);
  contents.epoch = stored.term.epoch;
  contents.stepped_back_to = stored.term.stepped_back_to;
  contents.origin = ShardStatus::ARENA;
  // Whether a cut is newer cannot be told where one is unreadable.
  contents.more_acknowledged = found->contents.more_acknowledged || !stored.unreadable.ok();
  const uint64_t version = contents.state->version;
  auto shard =
      std::make_shared<Shard>(std::move(*plan), found->contents.generation, std::move(contents),
                              &pool_, std::move(found->root), &spare_);
  shard->SetStored(stored.term);  // The root's generation may be newer.
  LOG(INFO) << shard->name() << " is back at version " << version << ", from memory"
            << (shard->Status().closed() ? "; what it held may be missing" : "");
  return shard;
}

absl::StatusOr<std::shared_ptr<Shard>> ShardStore::FromCut(ShardPlan plan,
                                                           const StoredShard& stored, bool whole) {
  MILLRACE_ASSIGN_OR_RETURN(ShardContents contents, cuts_->ReadShard(plan, &pool_));
  const uint64_t version = contents.state->version;
  contents.epoch = stored.term.epoch;
  contents.stepped_back_to = stored.term.stepped_back_to;
  const bool initial_values = version == 0 && !StartsFromFiles(plan.spec);
  contents.origin = initial_values ? ShardStatus::INITIAL_VALUES : ShardStatus::CUT;
  // There is nothing that a shard with all steps could have acknowledged beyond them.
  contents.more_acknowledged = (!whole || contents.more_acknowledged) &&
                               contents.state->applied.watermark() < stored.spec.total_steps();
  std::unique_ptr<ShardRoot> root = MakeRoot(plan);
  auto shard = std::make_shared<Shard>(std::move(plan), stored.term.generation, std::move(contents),
                                       &pool_, std::move(root), &spare_);
  LOG(INFO) << shard->name() << " is back at version " << version
            << (initial_values ? ", from its initial values" : ", from its cut")
            << (shard->Status().closed() ? ": what was applied since is missing" : "");
  return shard;
}

}  // namespace millrace::ps
