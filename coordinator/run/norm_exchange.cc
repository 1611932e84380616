// Why all shards make a version with the same norm, and none twice, whoever is killed when.
//
// A version is due when all of its contributions are reported, so that every shard holds them. The
// shards' parts are asked for before anything is told, in one generation: so each of them has
// either made the version, and says with which norm, or holds the contributions that its part
// follows from. If any has made it, all others are told the same norm. If none has, nobody has been
// told for good: the parts are added up, exactly, so that neither their order nor how the variables
// are divided shows in the norm.
//
// A shard that loses what it holds is closed until a new generation begins, in which the version's
// steps are computed again; this begins anew then, with what the shards say. A shard goes no
// further than one version beyond another one, since the next contribution is pulled from all of
// them; and it keeps the norm of its newest version for as long as it has that version.
//
// A coordinator that dies after some shards were told leaves those a version ahead, or knowing the
// norm; the next one asks first, too.
#include "coordinator/run/norm_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/exact_square_sum.h"
#include "common/job_spec.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
// Contributions may still be added up when another worker's copy of the last one is acknowledged.
constexpr absl::Duration kFirstTryPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestTryPause = absl::Seconds(1);

}  // namespace

absl::StatusOr<NormDecision> DecideNorm(absl::Span<const MeasureVersionResponse> shards) {
  NormDecision decision;
  for (const MeasureVersionResponse& shard : shards) {
    if (shard.state() != MeasureVersionResponse::NORM_KNOWN) continue;
    if (decision.norm && !SameNorm(*decision.norm, shard.norm())) {
      return absl::InternalError(absl::StrCat("shards have made a version with different norms, ",
                                              *decision.norm, " and ", shard.norm()));
    }
    decision.norm = shard.norm();
  }
  ExactSquareSum sum;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].state() == MeasureVersionResponse::NORM_KNOWN) continue;
    if (shards[i].state() != MeasureVersionResponse::MEASURED) {
      return NormDecision{absl::nullopt, static_cast<uint32_t>(i), shards[i].state()};
    }
    const auto part = ExactSquareSum::FromWords(
        {shards[i].square_sum().data(), static_cast<size_t>(shards[i].square_sum_size())},
        !shards[i].not_finite());
    if (!part.ok()) return absl::InternalError(part.status().message());
    sum.Add(*part);
  }
  if (!decision.norm) decision.norm = std::sqrt(sum.ToDouble());
  return decision;
}

NormExchange::NormExchange(const JobSpec& spec, uint64_t total_steps, Clock* clock)
    : is_needed_(Replicas(spec) > 0 && spec.optimizer().has_global_clip_norm()),
      replicas_(Replicas(spec)),
      total_steps_(total_steps),
      clock_(clock),
      due_at_(kNever),
      backoff_(kFirstTryPause, kLongestTryPause) {}

void NormExchange::Start(absl::Span<const ShardStatus> shards) {
  if (!is_needed_) return;
  generation_ = shards[0].generation();
  epoch_ = shards[0].epoch();
  uint64_t version = shards[0].version();
  for (const ShardStatus& shard : shards) version = std::min(version, shard.version());
  SetVersion(version);
}

void NormExchange::SetVersion(uint64_t version) {
  version_ = version;
  next_try_ = absl::InfinitePast();
  backoff_.Reset();
  stall_.reset();
  const bool was_last = version >= (total_steps_ + replicas_ - 1) / replicas_;
  due_at_ = was_last ? kNever : std::min((version + 1) * replicas_, total_steps_);
}

void NormExchange::WaitFor(const std::string& whom) {
  const absl::Time since = stall_ ? stall_->since : clock_->Now();
  stall_ = Dispatcher::Stall{
      absl::StrCat(whom, " (the norm of the gradient of version ", version_, ")"), since,
      /*is_sure=*/true};
}

absl::Status NormExchange::Try(ShardGroup& shards, Job& job) {
  const absl::Status status = Exchange(shards, job);
  if (status.ok()) {
    SetVersion(version_ + 1);
  } else {
    next_try_ = clock_->Now() + backoff_.Next();
  }
  return status;
}

absl::Status NormExchange::Exchange(ShardGroup& shards, Job& job) {
  const auto on_wait = [&](const std::vector<uint32_t>& unanswered) {
    if (unanswered.empty()) return;
    WaitFor(shards.NameOf(unanswered.front()));
    job.SetStalled(stall_->whom, stall_->since, stall_->is_sure);
  };
  MeasureVersionRequest measure;
  measure.set_generation(generation_);
  measure.set_epoch(epoch_);
  measure.set_version(version_);
  const auto measured = shards.MeasureVersion(measure, on_wait);
  if (!measured.ok()) {
    WaitFor(shards.NameOf(shards.failed_shard()));
    return measured.status();
  }
  MILLRACE_ASSIGN_OR_RETURN(const NormDecision decision, DecideNorm(*measured));
  if (!decision.norm) {
    WaitFor(shards.NameOf(decision.shard));
    return absl::UnavailableError(absl::StrCat(
        shards.NameOf(decision.shard),
        decision.state == MeasureVersionResponse::ADDING ? " still adds up" : " has not got",
        " all contributions to version ", version_));
  }
  ApplyVersionRequest apply;
  apply.set_generation(generation_);
  apply.set_epoch(epoch_);
  apply.set_version(version_);
  apply.set_norm(*decision.norm);
  const absl::Status applied = shards.ApplyVersion(apply, on_wait);
  if (!applied.ok()) WaitFor(shards.NameOf(shards.failed_shard()));
  return applied;
}

}  // namespace millrace::coordinator
