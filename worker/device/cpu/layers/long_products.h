// The two products of the backward pass of a dense layer with many inputs. oneDNN's copy the
// layer's kernel, or its input, in another order before they multiply; these copy the gradient of
// the output, which is small, and take a tenth to a quarter less time. Each element is summed up as
// oneDNN does it, in order and with fused operations, so that the bits are the same.
#ifndef MILLRACE_WORKER_DEVICE_CPU_LAYERS_LONG_PRODUCTS_H_
#define MILLRACE_WORKER_DEVICE_CPU_LAYERS_LONG_PRODUCTS_H_

#include <cstddef>

#include "worker/device/cpu/buffer.h"

namespace millrace::worker {

// All matrices are row-major: x and dx are rows x inputs, dy rows x units, the kernel and its
// gradient inputs x units. Used by one thread at a time.
class LongProducts {
 public:
  // Parts of a kernel's gradient begin at multiples of this.
  static constexpr size_t kInputsAtOnce = 16;

  // Whether it is for such sizes, on this processor and with the threads that are set: otherwise
  // oneDNN is faster, or has other bits.
  static bool IsFor(size_t rows, size_t inputs, size_t units);

  // Takes all its memory. REQUIRES: IsFor these sizes.
  LongProducts(size_t rows, size_t inputs, size_t units);

  // What follows is for this one.
  void SetOutputGradient(const float* dy);

  // x^T dy, of which `gradient` is the part of the inputs from `begin` to `end`.
  void KernelGradient(const float* x, size_t begin, size_t end, float* gradient) const;

  // dx = dy kernel^T
  void InputGradient(const float* kernel, float* dx) const;

 private:
  const size_t rows_;
  const size_t inputs_;
  const size_t units_;
  CpuBuffer by_units_;  // dy, 32 units after the other: of each row.
  CpuBuffer by_rows_;   // dy, 32 rows after the other: of each unit.
};

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_CPU_LAYERS_LONG_PRODUCTS_H_
