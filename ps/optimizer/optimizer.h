// What a step does to a block: one formula for each member of this folder.
#ifndef MILLRACE_PS_OPTIMIZER_OPTIMIZER_H_
#define MILLRACE_PS_OPTIMIZER_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/optimizer.pb.h"
#include "ps/optimizer/norms.h"

namespace millrace::ps {

// Consecutive elements. in[0] and out[0] point to the values, in[1] and out[1] to the first slot,
// and so on; each `out` array is the same as its `in` array or does not overlap it. `gradient` is
// `count` floats, not necessarily aligned.
struct ElementRun {
  const char* gradient = nullptr;
  size_t count = 0;
  const float* const* in = nullptr;
  float* const* out = nullptr;
};

// What an update knows of a variable besides its elements.
struct VariableFacts {
  uint64_t version = 0;  // See Apply.
  SquaredNorms norms;    // Of all of the variable, as far as they are measured.
};

// Elementwise: the result for an element depends on that element's value, slots and gradient and on
// the version alone, so it is the same however a variable is divided; on every processor it is the
// same to the bit. But for one that has passes(): there it depends on norms of the element's
// variable too, and is elementwise once these are known.
//
// Numbers too small for a normal float32 (1.2e-38) count as 0. Immutable and thread-safe; nothing
// allocates or blocks.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Slots of each element, such as momentum: as many as OptimizerSlots names, in that order. Of a
  // slice's own rule: those of its shard's optimizer.
  virtual int slots() const = 0;

  // At what a slot starts, counted from 1 as in Apply.
  virtual float initial_slot(int /*slot*/) const { return 0; }

  // Applies a gradient to a run of elements (see ElementRun); with passes(), to a whole variable.
  // `version` counts updates from 1: the one that this update makes.
  virtual void Apply(uint64_t version, const char* gradient, size_t count, const float* const* in,
                     float* const* out) const = 0;

  // Whether a gradient of 0 leaves an element and its slots as they are, whatever the version: so
  // that what has no gradient need not be updated. (But for numbers that Apply takes for 0.)
  virtual bool keeps_without_gradient() const { return false; }

  // How often a whole variable is measured before any element of it is updated. With 0, which is
  // elementwise, Apply is all that there is to an update.
  virtual int passes() const { return 0; }

  // Pass `pass` over a run, counted from 0: adds to `sums` what it measures, and may write slots to
  // `out`. A block's runs come in order (see SquareSum), and `variable` has what the passes before
  // have measured. REQUIRES: pass < passes().
  virtual void Measure(int /*pass*/, const VariableFacts& /*variable*/, const ElementRun& /*run*/,
                       NormSums* /*sums*/) const {}

  // Applies the gradient, after all passes, with the same arrays.
  virtual void ApplyMeasured(const VariableFacts& variable, const ElementRun& run) const {
    Apply(variable.version, run.gradient, run.count, run.in, run.out);
  }
};

// Passes and update of a variable that is one block.
void ApplyToVariable(const Optimizer& optimizer, uint64_t version, const ElementRun& variable);

// INVALID_ARGUMENT: a hyperparameter out of range, by its field's path ("optimizer.sgd.momentum").
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerSpec& spec);

// The rule of a slice that has one of its own, in a shard whose optimizer has `slots` slots; it
// leaves them as they are. nullptr: the slice is frozen, and nothing is applied to it.
// INVALID_ARGUMENT: as CheckUpdateRule.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeSliceRule(const UpdateRule& rule, int slots,
                                                         absl::string_view path);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_OPTIMIZER_H_
