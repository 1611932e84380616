// Tensor cores: matrices that a warp multiplies together, as far as kernels here use them: factors
// of TF32 and bfloat16, sums of float32. Which element of a fragment which thread has follows no
// order that is of use, as on a GPU. Of a TF32 factor only what it has bits for is seen: one that
// was not rounded is cut off. Loading waits for nobody, and what is written holds garbage until all
// threads of a warp have come, so that a missing __syncwarp shows. A sum over a fragment's depth is
// in double precision and rounded once: a GPU's may differ in the last bits.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_MMA_H_
#define MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_MMA_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "testing/cuda_emulation/tensor_cores.h"

// NOLINTBEGIN(readability-identifier-naming): CUDA's names.
namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32;
}

// To the nearest, of two equally near ones the one further from 0.
inline float __float_to_tf32(float value) { return cuda_emulation::RoundToTf32(value); }

template <typename Use, int m, int n, int k, typename T, typename Layout = void>
class fragment;

template <typename Layout>
class fragment<matrix_a, 16, 16, 8, precision::tf32, Layout>
    : public cuda_emulation::Fragment<float, 16, 8> {};
template <typename Layout>
class fragment<matrix_b, 16, 16, 8, precision::tf32, Layout>
    : public cuda_emulation::Fragment<float, 8, 16> {};
template <>
class fragment<accumulator, 16, 16, 8, float> : public cuda_emulation::Fragment<float, 16, 16> {};

template <typename Layout>
class fragment<matrix_a, 16, 16, 16, __nv_bfloat16, Layout>
    : public cuda_emulation::Fragment<__nv_bfloat16, 16, 16> {};
template <typename Layout>
class fragment<matrix_b, 16, 16, 16, __nv_bfloat16, Layout>
    : public cuda_emulation::Fragment<__nv_bfloat16, 16, 16> {};
template <>
class fragment<accumulator, 16, 16, 16, float> : public cuda_emulation::Fragment<float, 16, 16> {};

template <typename T, int rows, int columns>
void fill_fragment(cuda_emulation::Fragment<T, rows, columns>& fragment, T value) {
  for (T& element : fragment.x) element = value;
}

// `leading`: elements from a row to the next (row_major), or from a column to the next.
template <typename Use, int m, int n, int k, typename T, typename Layout, typename Element>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& to, const Element* from, unsigned leading,
                      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  const bool row_major_order = std::is_same_v<Layout, row_major>;
  static_assert(std::is_same_v<Layout, row_major> || std::is_same_v<Layout, col_major>);
  cuda_emulation::LoadMatrix(from, leading, row_major_order, {file, line}, &to);
}

template <int m, int n, int k>
void store_matrix_sync(float* to, const fragment<accumulator, m, n, k, float>& from,
                       unsigned leading, layout_t layout, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  cuda_emulation::StoreMatrix(from, leading, layout == mem_row_major, {file, line}, to);
}

// d = a b + c; d may be c.
template <int k, typename T, typename LayoutOfA, typename LayoutOfB>
void mma_sync(fragment<accumulator, 16, 16, k, float>& d,
              const fragment<matrix_a, 16, 16, k, T, LayoutOfA>& a,
              const fragment<matrix_b, 16, 16, k, T, LayoutOfB>& b,
              const fragment<accumulator, 16, 16, k, float>& c, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  cuda_emulation::MultiplyMatrices(a, b, c, {file, line}, &d);
}

}  // namespace nvcuda::wmma
// NOLINTEND(readability-identifier-naming)

#endif  // MILLRACE_TESTING_CUDA_EMULATION_INCLUDE_MMA_H_
