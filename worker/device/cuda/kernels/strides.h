// Where elements stand in arrays whose dimensions stand in another order, or are repeated.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_STRIDES_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_STRIDES_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// Some dimension through several arrays at once.
struct Dimension {
  int64_t size = 0;              // 0: the batch, of any size.
  std::vector<int64_t> strides;  // In each array, from one to the next; 0: they are one.
};

// The same elements in the same order, in fewer dimensions: those of size 1 are left out,
// neighbours that are like one in all arrays become one. The first dimension is the batch, and
// stays.
std::vector<Dimension> Joined(const std::vector<Dimension>& dimensions);

// Those after the batch are longer than 1, and an example has at most 2^28 elements
// (kMaxExampleElements in worker/model/layer_plan.h): there are no more of them.
inline constexpr unsigned kMostDimensions = 29;

// The same for kernels, of some of the arrays.
template <unsigned kArrays>
struct Strides {
  // Appends a dimension; the one that is added last goes fastest.
  void Add(const Dimension& dimension) {
    sizes[dimensions] = static_cast<uint32_t>(dimension.size);
    ++dimensions;
  }
  // Of the dimension that was added last.
  void SetStride(unsigned array, int64_t stride) {
    apart[dimensions - 1][array] = static_cast<uint32_t>(stride);
  }

  unsigned dimensions = 0;
  uint32_t sizes[kMostDimensions] = {};
  uint32_t apart[kMostDimensions][kArrays] = {};
};

// a / by, which costs much more in 64 bits than in 32.
MILLRACE_DEVICE size_t Quotient(size_t a, uint32_t by) {
  return a >> 32 == 0 ? static_cast<uint32_t>(a) / by : a / by;
}

template <unsigned kArrays>
struct Offsets {
  size_t of[kArrays];
};

// Adds to `offsets` where the element that is the `index`th through all dimensions stands.
template <unsigned kArrays>
MILLRACE_DEVICE void AddOffsets(const Strides<kArrays>& strides, size_t index,
                                Offsets<kArrays>* offsets) {
  for (unsigned i = strides.dimensions; i-- > 0;) {
    size_t place = index;
    if (i > 0) {
      index = Quotient(index, strides.sizes[i]);
      place -= index * strides.sizes[i];
    }
    for (unsigned k = 0; k < kArrays; ++k) offsets->of[k] += place * strides.apart[i][k];
  }
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_STRIDES_H_
