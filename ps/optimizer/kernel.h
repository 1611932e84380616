// What the optimizers' inner loops share.
//
// A kernel is a plain loop over floats that the compiler vectorises, for each of a few instruction
// sets (common/kernel_clones.h). Every clone gives the same bits: addition, multiplication,
// division and square root are correctly rounded in each of them, and -ffp-contract=off keeps the
// compiler from fusing any two. A kernel's loop carries "#pragma GCC ivdep": arrays are the same or
// apart (see Optimizer::Apply), so no iteration reads what another one writes.
#ifndef MILLRACE_PS_OPTIMIZER_KERNEL_H_
#define MILLRACE_PS_OPTIMIZER_KERNEL_H_

#include <cstddef>
#include <cstring>

#include "common/kernel_clones.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace millrace::ps {

// Float `i` of an array that need not be aligned.
inline float LoadFloat(const char* bytes, size_t i) {
  float value;
  std::memcpy(&value, bytes + i * sizeof(float), sizeof(float));
  return value;
}

// While it lives, this thread's float operations take numbers below the smallest normal one
// (1.2e-38) for 0. A slot that decays towards 0 would otherwise stay among them for ever, and each
// operation on them costs a hundred others.
class FlushDenormals {
 public:
  FlushDenormals() {
#if defined(__SSE2__)
    constexpr unsigned kFlushToZero = 0x8000;
    constexpr unsigned kDenormalsAreZero = 0x0040;
    _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
#endif
  }
  ~FlushDenormals() {
#if defined(__SSE2__)
    _mm_setcsr(saved_);
#endif
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  const unsigned saved_ = _mm_getcsr();
#endif
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_OPTIMIZER_KERNEL_H_
