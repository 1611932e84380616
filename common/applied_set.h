// Which steps have been applied: everything below a watermark, and a few above it.
#ifndef MILLRACE_COMMON_APPLIED_SET_H_
#define MILLRACE_COMMON_APPLIED_SET_H_

#include <cstdint>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "protos/parameter_server.pb.h"

namespace millrace {

// Its size is that of the gaps: with a staleness bound s at most s numbers above the watermark.
// A value type; not thread-safe.
class AppliedSet {
 public:
  AppliedSet() = default;

  // INVALID_ARGUMENT when the numbers above are not increasing, or not above the watermark.
  static absl::StatusOr<AppliedSet> FromProto(const StepSet& proto);
  StepSet ToProto() const;

  bool Contains(uint64_t step) const { return step < watermark_ || above_.contains(step); }

  // Returns false when it was there already.
  bool Insert(uint64_t step);

  // All steps below this are in the set, and this one is not.
  uint64_t watermark() const { return watermark_; }
  const absl::btree_set<uint64_t>& above() const { return above_; }
  uint64_t size() const { return watermark_ + above_.size(); }

  // What is in both.
  static AppliedSet Intersection(const AppliedSet& a, const AppliedSet& b);

  // What is in either.
  static AppliedSet Union(const AppliedSet& a, const AppliedSet& b);

  friend bool operator==(const AppliedSet& a, const AppliedSet& b) {
    return a.watermark_ == b.watermark_ && a.above_ == b.above_;
  }

 private:
  uint64_t watermark_ = 0;
  absl::btree_set<uint64_t> above_;  // Each larger than watermark_.
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_APPLIED_SET_H_
