#include "common/applied_set.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace {

absl::StatusOr<AppliedSet> AppliedSet::FromProto(const StepSet& proto) {
  AppliedSet set;
  set.watermark_ = proto.watermark();
  uint64_t last = proto.watermark();
  for (uint64_t step : proto.above()) {
    if (step <= last) {
      return absl::InvalidArgumentError(
          absl::StrCat("StepSet.above: ", step, " follows ", last,
                       "; the steps must increase and lie above the watermark"));
    }
    if (step == std::numeric_limits<uint64_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("StepSet.above: ", step, "; no job has so many steps"));
    }
    set.above_.insert(step);
    last = step;
  }
  return set;
}

StepSet AppliedSet::ToProto() const {
  StepSet proto;
  proto.set_watermark(watermark_);
  for (uint64_t step : above_) proto.add_above(step);
  return proto;
}

bool AppliedSet::Insert(uint64_t step) {
  if (Contains(step)) return false;
  if (step != watermark_) {
    above_.insert(step);
    return true;
  }
  ++watermark_;
  while (!above_.empty() && *above_.begin() == watermark_) {
    above_.erase(above_.begin());
    ++watermark_;
  }
  return true;
}

AppliedSet AppliedSet::Intersection(const AppliedSet& a, const AppliedSet& b) {
  AppliedSet result;
  result.watermark_ = std::min(a.watermark_, b.watermark_);
  for (const AppliedSet* set : {&a, &b}) {
    const AppliedSet& other = set == &a ? b : a;
    for (uint64_t step : set->above_) {
      if (other.Contains(step)) result.Insert(step);
    }
  }
  return result;
}

AppliedSet AppliedSet::Union(const AppliedSet& a, const AppliedSet& b) {
  const AppliedSet& higher = a.watermark_ < b.watermark_ ? b : a;
  const AppliedSet& lower = a.watermark_ < b.watermark_ ? a : b;
  AppliedSet result = higher;
  for (uint64_t step : lower.above_) result.Insert(step);
  return result;
}

}  // namespace millrace
