// Fragments of tensor cores from shared memory. nvcc compiles nvcuda::wmma::load_matrix_sync to
// loads from anywhere, even where it knows that a matrix stands in shared memory: four for each
// fragment, and in bfloat16 as many transpositions where the matrix's lines are not the tensor
// cores' own. From shared memory it is one instruction in bfloat16. Elements come to the same
// registers, so that results have the same bits.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_SHARED_FRAGMENTS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_SHARED_FRAGMENTS_H_

#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// As load_matrix_sync(*to, from, kPitch), with its demands on alignment. REQUIRES: `from` is in
// shared memory.
#ifdef __CUDACC__
#define MILLRACE_SHARED_FRAGMENT(Use, Order, Type, Element, depth, instruction)                  \
  template <int kPitch>                                                                          \
  MILLRACE_DEVICE void LoadShared(                                                               \
      const Element* from,                                                                       \
      nvcuda::wmma::fragment<nvcuda::wmma::Use, 16, 16, depth, Type, nvcuda::wmma::Order>* to) { \
    static_assert(sizeof(to->x) == 4 * sizeof(uint32_t));                                        \
    uint32_t* const x = reinterpret_cast<uint32_t*>(to->x);                                      \
    asm volatile("wmma.load." instruction " {%0, %1, %2, %3}, [%4], %5;"                         \
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])                                \
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "n"(kPitch)       \
                 : "memory");                                                                    \
  }
#define MILLRACE_SHARED_FRAGMENTS(Type, Element, depth, shape, type)    \
  MILLRACE_SHARED_FRAGMENT(matrix_a, row_major, Type, Element, depth,   \
                           "a.sync.aligned.row." shape ".shared." type) \
  MILLRACE_SHARED_FRAGMENT(matrix_a, col_major, Type, Element, depth,   \
                           "a.sync.aligned.col." shape ".shared." type) \
  MILLRACE_SHARED_FRAGMENT(matrix_b, row_major, Type, Element, depth,   \
                           "b.sync.aligned.row." shape ".shared." type) \
  MILLRACE_SHARED_FRAGMENT(matrix_b, col_major, Type, Element, depth,   \
                           "b.sync.aligned.col." shape ".shared." type)

MILLRACE_SHARED_FRAGMENTS(nvcuda::wmma::precision::tf32, float, 8, "m16n16k8", "tf32")
MILLRACE_SHARED_FRAGMENTS(__nv_bfloat16, __nv_bfloat16, 16, "m16n16k16", "bf16")

#undef MILLRACE_SHARED_FRAGMENTS
#undef MILLRACE_SHARED_FRAGMENT
#else
template <int kPitch, typename Element, typename Fragment>
void LoadShared(const Element* from, Fragment* to) {
  nvcuda::wmma::load_matrix_sync(*to, from, kPitch);
}
#endif

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_SHARED_FRAGMENTS_H_
