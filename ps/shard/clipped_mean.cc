#include "ps/shard/clipped_mean.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::ps {

ClippedMean::ClippedMean(const UpdateTools& tools, double clip_norm,
                         std::shared_ptr<const RunningSum> sum, float divisor)
    : tools_(tools), clip_norm_(clip_norm), sum_(std::move(sum)), divisor_(divisor) {
  const std::vector<BlockLayout::BlockPlace>& places = tools_.layout->blocks();
  for (size_t block = 0; block < places.size(); ++block) {
    if (!places[block].frozen) blocks_.push_back(block);
  }
  if (blocks_.empty()) blocks_.push_back(places.size());
  squares_ = std::make_shared<std::vector<ExactSquareSum>>(places.size() + 1);
}

VersionMeasure ClippedMean::Measure() const {
  VersionMeasure measure;
  if (norm_.has_value()) {
    measure.state = MeasureVersionResponse::NORM_KNOWN;
    measure.norm = *norm_;
  } else if (is_measured()) {
    measure.state = MeasureVersionResponse::MEASURED;
    measure.squares = total_;
  } else {
    measure.state = MeasureVersionResponse::ADDING;
  }
  return measure;
}

absl::Status ClippedMean::SetNorm(double norm) {
  if (!is_measured()) return absl::AbortedError("the gradient is still being measured");
  if (norm_.has_value() && !SameNorm(*norm_, norm)) {
    return absl::FailedPreconditionError(
        absl::StrCat("norm: ", norm, "; it is being applied with ", *norm_));
  }
  norm_ = norm;
  return absl::OkStatus();
}

bool ClippedMean::IsClipped(size_t block) const {
  if (block >= tools_.layout->blocks().size()) return false;
  return tools_.rules == nullptr ||
         (*tools_.rules)[tools_.layout->blocks()[block].slice] == nullptr;
}

Work ClippedMean::MeasuringOf(size_t block) {
  Work work;
  if (!IsClipped(block)) {
    work.compute = [] {};
    return work;
  }
  work.compute = [sum = sum_, squares = squares_, divisor = divisor_, block] {
    (*squares)[block] = sum->MeanSquares(block, divisor);
  };
  return work;
}

Work ClippedMean::ApplyingOf(size_t block) {
  Work work;
  work.update = update_;
  if (block >= tools_.layout->blocks().size()) {
    work.compute = [] {};
    return work;
  }
  const float factor = IsClipped(block) ? ClipFactor(*norm_, clip_norm_) : 1;
  work.compute = [sum = sum_, update = update_, divisor = divisor_, factor, block] {
    sum->ApplyMean(block, divisor, factor, update.get());
  };
  return work;
}

absl::optional<Work> ClippedMean::Next(const StatePtr& state) {
  if (phase_ == Phase::kMeasured && norm_.has_value()) {
    phase_ = Phase::kApplying;
    claimed_ = computed_ = 0;
    update_ = std::make_shared<StagedUpdate>(tools_, state);
    update_->set_gradient_norm(*norm_);
  }
  if (phase_ == Phase::kMeasured || claimed_ == blocks_.size()) return absl::nullopt;
  const size_t block = blocks_[claimed_++];
  return phase_ == Phase::kMeasuring ? MeasuringOf(block) : ApplyingOf(block);
}

bool ClippedMean::Done(const Work& /*work*/) {
  if (++computed_ < blocks_.size()) return false;
  if (phase_ == Phase::kApplying) return true;
  for (const ExactSquareSum& squares : *squares_) total_.Add(squares);
  phase_ = Phase::kMeasured;
  return false;
}

}  // namespace millrace::ps
