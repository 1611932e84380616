#include "coordinator/run/unmaker.h"

#include "common/status_macros.h"
#include "coordinator/run/job_beginning.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

// A new job that waits for a server keeps what it has made elsewhere for this long: a server that
// is started again is back by then.
constexpr absl::Duration kKeptMade = absl::Seconds(10);

}  // namespace

absl::StatusOr<bool> Unmaker::MakeWay(ShardGroup& shards, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return MakeWayInTime(shards);
  stuck_since_.reset();
  if (environment_.memory_turn->Take(job_->id())) return false;
  MILLRACE_RETURN_IF_ERROR(Unmake(shards));
  return true;
}

absl::StatusOr<bool> Unmaker::MakeWayInTime(ShardGroup& shards) {
  environment_.memory_turn->GiveBack(job_->id());
  const absl::Time now = environment_.clock->Now();
  if (!stuck_since_) stuck_since_ = now;
  if (now - *stuck_since_ < kKeptMade || unmade_without_ == shards.missing()) return false;
  MILLRACE_RETURN_IF_ERROR(Unmake(shards));
  return true;
}

absl::Status Unmaker::Unmake(ShardGroup& shards) {
  const absl::Status unmade = shards.Unmake(tries_.generation(), /*all=*/job_->state() == PENDING);
  LOG_IF(WARNING, !unmade.ok()) << job_->id() << ": " << unmade;
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  if (unmade.ok()) {
    unmade_without_ = shards.missing();
  } else if (stuck_since_) {
    stuck_since_ = environment_.clock->Now();  // It is tried again, later.
  }
  // A call that was given up may arrive yet, and must not drop what is made next.
  return tries_.BeginGeneration(tries_.generation() + 1);
}

absl::StatusOr<bool> Unmaker::Displace(ShardGroup& shards, const RestoredFrom& from) {
  environment_.memory_turn->GiveBack(job_->id());
  const absl::Status dropped = shards.Unmake(tries_.generation(), /*all=*/true);
  MILLRACE_RETURN_IF_ERROR(inbox_->interrupt());
  switch (tries_.Decide(dropped)) {
    case ReachAction::kReached:
      MILLRACE_RETURN_IF_ERROR(reporter_->Journal([&](JobRecord& record) {
        record.clear_shards();
        if (record.has_restored_from()) SetRestoredFrom(from, record);
      }));
      return true;
    case ReachAction::kAskWhoIsNew:
      MILLRACE_RETURN_IF_ERROR(tries_.AdoptGeneration(shards, dropped));
      break;
    case ReachAction::kRetry:
      MILLRACE_RETURN_IF_ERROR(tries_.Pause(shards, dropped));
      break;
    case ReachAction::kGiveUp:
      return dropped;
  }
  // A call that was given up may arrive yet, and must not drop what is made next.
  MILLRACE_RETURN_IF_ERROR(tries_.BeginGeneration(tries_.generation() + 1));
  return false;
}

}  // namespace millrace::coordinator
