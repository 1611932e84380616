#include "coordinator/explain/wording.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/proto_duration.h"

namespace millrace::coordinator {
namespace {

// A push or a pull that has taken this long is worth telling.
constexpr absl::Duration kLongCall = absl::Seconds(10);

}  // namespace

std::string DescribeDuration(absl::Duration duration) {
  if (duration < absl::Seconds(1)) {
    return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
  }
  if (duration < absl::Minutes(2)) return absl::StrCat(absl::ToInt64Seconds(duration), " s");
  if (duration < absl::Hours(2)) return absl::StrCat(absl::ToInt64Minutes(duration), " min");
  return absl::StrCat(absl::ToInt64Hours(duration), " h");
}

std::string For(absl::Duration since) {
  return since > absl::ZeroDuration() ? absl::StrCat(" for ", DescribeDuration(since)) : "";
}

std::string Wording::DescribeStep(uint64_t step) const {
  if (replicas_ == 0) return absl::StrCat("step ", step);
  return absl::StrCat("step ", step, " (version ", step / replicas_, ")");
}

std::string Wording::Describe(const DepartureFacts& departure) {
  return absl::StrCat(departure.name, " is gone", For(departure.since), " (", departure.reason,
                      ")");
}

std::string Wording::Describe(const Activity& activity) const {
  const std::string since = For(FromProto(activity.since()));
  switch (activity.kind()) {
    case Activity::IDLE:
      return absl::StrCat("has waited for a step", since);
    case Activity::PREPARING:
      return absl::StrCat("has been opening the data and compiling the model", since);
    case Activity::READING:
      return absl::StrCat("has been reading the examples of step ", activity.step(), since);
    case Activity::PULLING:
      return absl::StrCat(
          "has been pulling ",
          replicas_ > 0 ? absl::StrCat("version ", activity.version()) : "the values",
          PlaceOf(activity), since);
    case Activity::COMPUTING:
      return absl::StrCat("has been computing step ", activity.step(), since);
    case Activity::PUSHING:
      return absl::StrCat("has been pushing step ", activity.step(), PlaceOf(activity), since);
    case Activity::EVALUATING:
      return absl::StrCat("has been evaluating", since);
    default:
      return "does something that this coordinator does not know";
  }
}

std::string Wording::PlaceOf(const Activity& activity) const {
  if (!activity.has_shard()) return "";
  const ShardFacts* shard = ShardOf(activity);
  return absl::StrCat(
      activity.kind() == Activity::PUSHING ? " to shard " : " of shard ", activity.shard(),
      shard == nullptr
          ? ""
          : absl::StrCat(activity.kind() == Activity::PUSHING ? " on " : " from ", shard->server));
}

// The server answers the coordinator, so whoever cannot reach it is to blame, or what is between.
std::string Wording::ServerRemark(const Activity& activity) const {
  const ShardFacts* shard = ShardOf(activity);
  if (shard == nullptr || !shard->is_known || shard->silent > absl::ZeroDuration()) return "";
  if (activity.kind() == Activity::PULLING && replicas_ > 0 &&
      shard->version < activity.version()) {
    return absl::StrCat(", which is at version ", shard->version);
  }
  return ", which answers the coordinator: see what is between them";
}

std::string Wording::TroubleOf(const WorkerView& worker) const {
  const MemberFacts* member = Member(worker.worker);
  if (!worker.refusal.empty()) return absl::StrCat("cannot run the job: ", worker.refusal);
  if (!worker.has_answered) {
    const Activity* activity = ActivityFor(member, 0, worker);
    if (activity == nullptr || activity->kind() != Activity::PREPARING) {
      return "has not answered yet whether it can run the job";
    }
    return absl::StrCat("opens the data and compiles the model", For(FromProto(activity->since())));
  }
  if (worker.draining) return "is about to stop";
  if (worker.faults > 1) {
    return absl::StrCat("gives steps back undone, ", worker.faults, " in a row; ",
                        worker.last_fault);
  }
  for (const LeaseView& lease : worker.leases) {
    if (lease.expired) {
      return absl::StrCat("has had ", DescribeStep(lease.step), For(lease.out),
                          ", longer than its lease, and keeps a slot");
    }
  }
  if (member != nullptr && member->silent > absl::ZeroDuration()) {
    return absl::StrCat("is silent", For(member->silent));
  }
  if (worker.leases.empty() && worker.other_leases > 0) return "computes for other jobs";
  return "";
}

std::string Wording::LongCallOf(const WorkerView& worker) const {
  const MemberFacts* member = Member(worker.worker);
  if (member == nullptr) return "";
  for (const Activity& activity : member->activities) {
    // A pull of a version waits for those who have not contributed to it.
    const bool waits_for_a_server = activity.kind() == Activity::PUSHING ||
                                    (activity.kind() == Activity::PULLING && replicas_ == 0);
    if (!waits_for_a_server || FromProto(activity.since()) < kLongCall) continue;
    return absl::StrCat(Describe(activity), ServerRemark(activity));
  }
  return "";
}

std::string Wording::TroubleOf(const ShardFacts& shard) const {
  for (const DepartureFacts& departure : facts_.departures) {
    if (!departure.is_worker && departure.name == shard.server) {
      return absl::StrCat("is gone", For(departure.since), " (", departure.reason, ")");
    }
  }
  const absl::Duration silent = std::max(shard.silent, SilenceOf(shard.server));
  if (silent > absl::ZeroDuration()) {
    return absl::StrCat("does not answer", For(silent),
                        shard.error.empty() ? "" : absl::StrCat(" (", shard.error, ")"));
  }
  return shard.trouble;
}

const MemberFacts* Wording::Member(uint64_t worker) const {
  const auto member = facts_.members.find(worker);
  return member == facts_.members.end() ? nullptr : &member->second;
}

const Activity* Wording::ActivityFor(const MemberFacts* member, uint64_t step,
                                     const WorkerView& worker) {
  if (member == nullptr) return nullptr;
  const Activity* busy = nullptr;
  for (const Activity& activity : member->activities) {
    const bool has_step =
        activity.kind() == Activity::READING || activity.kind() == Activity::PULLING ||
        activity.kind() == Activity::COMPUTING || activity.kind() == Activity::PUSHING;
    if (has_step && activity.step() == step) return &activity;
    const bool is_out =
        std::any_of(worker.leases.begin(), worker.leases.end(),
                    [&](const LeaseView& lease) { return lease.step == activity.step(); });
    const bool is_old_news = has_step && !is_out && member->silent > absl::ZeroDuration();
    if (activity.kind() != Activity::IDLE && !is_old_news) busy = &activity;
  }
  return busy;
}

absl::Duration Wording::SilenceOf(const std::string& server) const {
  for (const auto& [id, member] : facts_.members) {
    if (!member.is_worker && member.name == server) return member.silent;
  }
  return absl::ZeroDuration();
}

// Whose answer it waits for; null: not known.
const ShardFacts* Wording::ShardOf(const Activity& activity) const {
  const bool is_known = activity.has_shard() && activity.shard() < facts_.shards.size();
  return is_known ? &facts_.shards[activity.shard()] : nullptr;
}

}  // namespace millrace::coordinator
