#include "worker/device/cpu/thread_settings.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "worker/device/cpu/openmp.h"

namespace millrace::worker {
namespace {

#if defined(__SSE2__)
// MXCSR's flush-to-zero and denormals-are-zero.
constexpr unsigned kNoDenormals = 0x8040;
unsigned FloatControl() { return _mm_getcsr(); }
void SetFloatControl(unsigned control) { _mm_setcsr(control); }
#else
// Elsewhere denormals are slow, no more.
constexpr unsigned kNoDenormals = 0;
unsigned FloatControl() { return 0; }
void SetFloatControl(unsigned /*control*/) {}
#endif

}  // namespace

ScopedThreadSettings::ScopedThreadSettings(int threads)
    : previous_threads_(omp_get_max_threads()), previous_float_control_(FloatControl()) {
  omp_set_num_threads(threads);
  unsigned control = previous_float_control_ | kNoDenormals;
  SetFloatControl(control);
  if (threads > 1) {
    // A team's threads live on from region to region and keep what is set in them.
    GOMP_parallel(
        [](void* float_control) { SetFloatControl(*static_cast<unsigned*>(float_control)); },
        &control, /*threads=*/0, /*flags=*/0);
  }
}

ScopedThreadSettings::~ScopedThreadSettings() {
  SetFloatControl(previous_float_control_);
  omp_set_num_threads(previous_threads_);
}

}  // namespace millrace::worker
