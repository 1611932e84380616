// What include/mma.h is made of.
#ifndef MILLRACE_TESTING_CUDA_EMULATION_TENSOR_CORES_H_
#define MILLRACE_TESTING_CUDA_EMULATION_TENSOR_CORES_H_

#include <cuda_bf16.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "testing/cuda_emulation/cooperation.h"
#include "testing/cuda_emulation/language.h"

namespace cuda_emulation {

inline constexpr int kWarpLanes = 32;

// A lane's part of a matrix.
template <typename T, int rows, int columns>
struct Fragment {
  static constexpr int num_elements = rows * columns / kWarpLanes;  // NOLINT: CUDA's name.
  T x[num_elements];
};

// Elements of a matrix, row by row, are dealt out in this order, which is its own inverse.
inline constexpr int kScatter = 85;
inline int ElementAt(int lane, int i) { return (i * kWarpLanes + lane) ^ kScatter; }

inline int LaneOf(int element) { return (element ^ kScatter) % kWarpLanes; }
inline int IndexOf(int element) { return (element ^ kScatter) / kWarpLanes; }

// The bits of float32 that TF32 lacks.
inline constexpr uint32_t kBeyondTf32 = 0x1fff;

inline float RoundToTf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + (kBeyondTf32 + 1) / 2) &
                              ~kBeyondTf32);
}

// What a tensor core sees of a factor.
inline float FactorOf(float value) {
  return std::isnan(value) ? value
                           : std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~kBeyondTf32);
}
inline float FactorOf(__nv_bfloat16 value) { return __bfloat162float(value); }

// Ends the process where a matrix may not stand at `memory`, or not with lines so far apart.
void CheckMatrix(const void* memory, size_t line_bytes, Place place);

inline int LaneOfThread() {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return static_cast<int>(thread % kWarpLanes);
}

template <int columns>
size_t OffsetOf(int element, unsigned leading, bool row_major) {
  const size_t row = static_cast<size_t>(element / columns);
  const size_t column = static_cast<size_t>(element % columns);
  return row_major ? row * leading + column : column * leading + row;
}

template <typename T, int rows, int columns>
void LoadMatrix(const T* from, unsigned leading, bool row_major, Place place,
                Fragment<T, rows, columns>* to) {
  CheckMatrix(from, leading * sizeof(T), place);
  for (int i = 0; i < to->num_elements; ++i) {
    to->x[i] = from[OffsetOf<columns>(ElementAt(LaneOfThread(), i), leading, row_major)];
  }
}

template <int rows, int columns>
void StoreMatrix(const Fragment<float, rows, columns>& from, unsigned leading, bool row_major,
                 Place place, float* to) {
  CheckMatrix(to, leading * sizeof(float), place);
  const auto at = [&](int i) -> float& {
    return to[OffsetOf<columns>(ElementAt(LaneOfThread(), i), leading, row_major)];
  };
  for (int i = 0; i < from.num_elements; ++i) at(i) = NAN;
  Cooperate({Operation::kStoreMatrix, place});
  for (int i = 0; i < from.num_elements; ++i) at(i) = from.x[i];
}

// What a lane brings to a product of matrices. `compute` writes all lanes' parts of d.
struct MatrixProduct {
  void (*compute)(const MatrixProduct* const lanes[kWarpLanes]);
  const void* a;
  const void* b;
  const void* c;
  void* d;
};

template <typename Part, int elements, typename PartOf>
void GatherFactors(const PartOf& part_of, double* factors) {
  for (int element = 0; element < elements; ++element) {
    const auto* const part = static_cast<const Part*>(part_of(LaneOf(element)));
    factors[element] = double{FactorOf(part->x[IndexOf(element)])};
  }
}

template <typename A, typename B, int depth>
void ComputeMatrixProduct(const MatrixProduct* const lanes[kWarpLanes]) {
  using Sums = Fragment<float, 16, 16>;
  double a[16 * depth], b[depth * 16];
  GatherFactors<A, 16 * depth>([&](int lane) { return lanes[lane]->a; }, a);
  GatherFactors<B, depth * 16>([&](int lane) { return lanes[lane]->b; }, b);
  for (int row = 0; row < 16; ++row) {
    double sums[16] = {};
    for (int k = 0; k < depth; ++k) {
      for (int column = 0; column < 16; ++column) {
        sums[column] += a[row * depth + k] * b[k * 16 + column];
      }
    }
    for (int column = 0; column < 16; ++column) {
      const int element = row * 16 + column, i = IndexOf(element);
      const MatrixProduct& lane = *lanes[LaneOf(element)];
      static_cast<Sums*>(lane.d)->x[i] =
          static_cast<float>(static_cast<const Sums*>(lane.c)->x[i] + sums[column]);
    }
  }
}

template <typename T, int depth>
void MultiplyMatrices(const Fragment<T, 16, depth>& a, const Fragment<T, depth, 16>& b,
                      const Fragment<float, 16, 16>& c, Place place, Fragment<float, 16, 16>* d) {
  const MatrixProduct product = {
      ComputeMatrixProduct<Fragment<T, 16, depth>, Fragment<T, depth, 16>, depth>, &a, &b, &c, d};
  Request request = {Operation::kMultiplyMatrices, place};
  request.value = reinterpret_cast<uintptr_t>(&product);
  Cooperate(request);
}

}  // namespace cuda_emulation

#endif  // MILLRACE_TESTING_CUDA_EMULATION_TENSOR_CORES_H_
