// Versions that wait for the norm of their gradient over all shards. The coordinator asks every
// shard for its part, adds them up, and tells every shard the norm; both calls may be repeated, by
// the next coordinator too. A shard that has made the version already tells with which norm, and
// the others are told that one: so all of them make it with the same.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exact_square_sum.h"
#include "common/status_macros.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard_internal.h"

namespace millrace::ps {
namespace {

MeasureVersionResponse ToProto(const VersionMeasure& measure) {
  MeasureVersionResponse response;
  response.set_state(measure.state);
  if (measure.state == MeasureVersionResponse::NORM_KNOWN) response.set_norm(measure.norm);
  if (measure.state != MeasureVersionResponse::MEASURED) return response;
  response.set_not_finite(!measure.squares.is_finite());
  if (response.not_finite()) return response;
  for (const uint64_t word : measure.squares.ToWords()) response.add_square_sum(word);
  return response;
}

}  // namespace

template <typename Request>
absl::Status Shard::CheckVersionCall(const Request& request) const {
  MILLRACE_RETURN_IF_ERROR(CheckOpen(request.generation()));
  if (!AwaitsNorms(plan_.spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_,
                     " waits for no norms: it is asynchronous, or its optimizer has no "
                     "global_clip_norm"));
  }
  if (retired_) return Ended();
  const std::string version =
      absl::StrCat("version ", request.version(), " of epoch ", request.epoch(), ": ", name_,
                   " is at version ", state_->version, " of epoch ", epoch_);
  if (request.epoch() == epoch_ && request.version() > state_->version) {
    return absl::OutOfRangeError(absl::StrCat(version, ", and has not come to it"));
  }
  const bool is_made = request.version() + 1 == state_->version;
  if (request.epoch() != epoch_ || (request.version() != state_->version && !is_made)) {
    return absl::FailedPreconditionError(absl::StrCat(version, ", and is past it"));
  }
  if (is_made && !state_->gradient_norm.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(version, ", and does not know with which norm it was made"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MeasureVersionResponse> Shard::MeasureVersion(const MeasureVersionRequest& request) {
  Effects effects;
  {
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(CheckVersionCall(request));
    NextWork(&effects);  // What another life of the server has held is to be measured again.
  }
  Run(std::move(effects));
  MutexLock lock(&mutex_);
  MILLRACE_RETURN_IF_ERROR(CheckVersionCall(request));
  if (request.version() == state_->version) return ToProto(rule_->Measure(*state_));
  VersionMeasure made;
  made.state = MeasureVersionResponse::NORM_KNOWN;
  made.norm = *state_->gradient_norm;
  return ToProto(made);
}

absl::StatusOr<ApplyVersionResponse> Shard::ApplyVersion(const ApplyVersionRequest& request) {
  if (!(request.norm() >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("norm: ", request.norm(), "; must be a number of at least 0"));
  }
  Effects effects;
  {
    MutexLock lock(&mutex_);
    MILLRACE_RETURN_IF_ERROR(CheckVersionCall(request));
    if (request.version() == state_->version) {
      MILLRACE_RETURN_IF_ERROR(rule_->SetNorm(request.norm()));
    } else if (!SameNorm(request.norm(), *state_->gradient_norm)) {
      return absl::FailedPreconditionError(absl::StrCat("norm: ", request.norm(), "; version ",
                                                        request.version(), " of ", name_,
                                                        " was made with ", *state_->gradient_norm));
    }
    NextWork(&effects);
  }
  Run(std::move(effects));
  ApplyVersionResponse response;
  MutexLock lock(&mutex_);
  response.set_version(state_->version);
  return response;
}

}  // namespace millrace::ps
