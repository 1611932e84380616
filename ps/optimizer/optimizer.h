// What a step does to a block: one formula for each member of this folder.
#ifndef MILLRACE_PS_OPTIMIZER_OPTIMIZER_H_
#define MILLRACE_PS_OPTIMIZER_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/optimizer.pb.h"

namespace millrace::ps {

// Elementwise: the result for an element depends on that element's value, slots and gradient and on
// the version alone, so it is the same however a variable is divided; on every processor it is the
// same to the bit. Numbers too small for a normal float32 (1.2e-38) count as 0. Immutable and
// thread-safe.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Slots of each element, such as momentum: as many as OptimizerSlots names, in that order. Of a
  // slice's own rule: those of its shard's optimizer.
  virtual int slots() const = 0;

  // At what a slot starts, counted from 1 as in Apply.
  virtual float initial_slot(int /*slot*/) const { return 0; }

  // Applies a gradient to `count` consecutive elements. in[0] and out[0] point to the values, in[1]
  // and out[1] to the first slot, and so on; each `out` array is the same as its `in` array or does
  // not overlap it. `gradient` is `count` floats, not necessarily aligned. `version` counts updates
  // from 1: the one that this update makes. Does not allocate or block.
  virtual void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
                     float* const* out) const = 0;
};

// INVALID_ARGUMENT: a hyperparameter out of range, by its field's path ("optimizer.sgd.momentum").
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerSpec& spec);

// The rule of a slice that has one of its own, in a shard whose optimizer has `slots` slots; it
// leaves them as they are. nullptr: the slice is frozen, and nothing is applied to it.
// INVALID_ARGUMENT: as CheckUpdateRule.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeSliceRule(const UpdateRule& rule, int slots,
                                                         absl::string_view path);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_OPTIMIZER_H_
