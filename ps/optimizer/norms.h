// Norms of variables, the same bits whoever sums them up.
//
// A sum of many numbers depends on its order. Here the order is fixed: squares of float32 numbers
// are exact in float64; those of a block go to a few sums in turn, by their places in the block,
// which are then added from the first to the last; and the sums of a variable's blocks are added
// in the order of the blocks. So a norm depends neither on the processor and its width (see
// kernel.h), nor on the pieces in which the numbers came, nor on the threads that summed them up.
#ifndef MILLRACE_PS_OPTIMIZER_NORMS_H_
#define MILLRACE_PS_OPTIMIZER_NORMS_H_

#include <array>
#include <cstddef>

namespace millrace::ps {

// The sum of the squares of a block's numbers.
class SquareSum {
 public:
  static constexpr size_t kLanes = 16;

  // Takes the next `count` floats of the block, not necessarily aligned. REQUIRES: all calls but
  // the last take a multiple of kLanes.
  void Add(const char* floats, size_t count);

  double Total() const;

 private:
  std::array<double, kLanes> lanes_ = {};
};

// Squares of norms, as far as an optimizer measures them.
struct SquaredNorms {
  double gradient = 0;
  double value = 0;  // Of the values before the update.
  double step = 0;   // Of what an optimizer would take from the values if it knew no norms.

  void Add(const SquaredNorms& other) {
    gradient += other.gradient;
    value += other.value;
    step += other.step;
  }
};

// The same while a block is measured.
struct NormSums {
  SquareSum gradient;
  SquareSum value;
  SquareSum step;

  SquaredNorms Totals() const { return {gradient.Total(), value.Total(), step.Total()}; }
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_NORMS_H_
