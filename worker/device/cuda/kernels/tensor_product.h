// Products of tiles by tensor cores: as FloatProduct (tile_product.h), but factors are rounded, and
// a warp computes a part of the tile together. Products of rounded factors are exact, and added up
// in float32, in an order that is the tensor cores' own within a fragment's depth.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TENSOR_PRODUCT_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TENSOR_PRODUCT_H_

#include <cuda_bf16.h>
#include <mma.h>

#include <type_traits>

#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/shared_fragments.h"
#include "worker/device/cuda/kernels/tile_product.h"

namespace millrace::cuda {

// What factors are in shared memory and in fragments, and how deep fragments are.
struct Tf32Factors {
  using Element = float;
  using InFragment = nvcuda::wmma::precision::tf32;
  static constexpr int kDepth = 8;
  static MILLRACE_DEVICE float Round(float value) { return nvcuda::wmma::__float_to_tf32(value); }
};

struct Bfloat16Factors {
  using Element = __nv_bfloat16;
  using InFragment = __nv_bfloat16;
  static constexpr int kDepth = 16;
  static MILLRACE_DEVICE __nv_bfloat16 Round(float value) { return __float2bfloat16_rn(value); }
};

// Warps have equal parts of the tile, in fragments of kSide x kSide.
template <typename Tile>
struct WarpPart {
  static constexpr int kSide = 16;
  static constexpr int kWarps = Tile::kThreads / 32;
  static constexpr int kWarpsAlong = Tile::kColumns > kSide ? 2 : 1;  // Side by side.
  static constexpr int kRows = Tile::kRows * kWarpsAlong / kWarps;
  static constexpr int kColumns = Tile::kColumns / kWarpsAlong;
  static constexpr int kAcross = kRows / kSide;
  static constexpr int kAlong = kColumns / kSide;
  static constexpr int kFragments = kAcross * kAlong;
  // For these, and what else a thread has, a multiprocessor's registers suffice.
  static constexpr int kBlocks = (kFragments > 4 ? 8 : kFragments > 2 ? 12 : 16) / kWarps;
  static_assert(kFragments * kWarps * kSide * kSide == Tile::kRows * Tile::kColumns);
};

template <typename Tile_, typename Factors>
class TensorProduct {
 public:
  using Tile = Tile_;
  using Element = typename Factors::Element;
  // By itself nvcc wants more blocks than registers suffice for.
  static constexpr int kBlocks = WarpPart<Tile>::kBlocks;
  static constexpr bool kTakesDepthLines = true;
  // Fragments begin at 32 bytes, and what is loaded together stands in different banks.
  static constexpr int Gap(bool depth_lines) {
    return depth_lines ? 16 / static_cast<int>(sizeof(Element)) : 8;
  }
  static MILLRACE_DEVICE Element Round(float value) { return Factors::Round(value); }

  MILLRACE_DEVICE TensorProduct() {
#pragma unroll
    for (int i = 0; i < kAcross; ++i) {
#pragma unroll
      for (int j = 0; j < kAlong; ++j) nvcuda::wmma::fill_fragment(sums_[i][j], 0.0f);
    }
  }

  template <typename A, typename B>
  MILLRACE_DEVICE void Add(const A& a, const B& b) {
#pragma unroll
    for (int depth = 0; depth < Tile::kDepth; depth += Factors::kDepth) {
      Rows<A::kDepthLines> rows[kAcross];
#pragma unroll
      for (int i = 0; i < kAcross; ++i) {
        LoadShared<A::kPitch>(a.At(depth, Row(i)), &rows[i]);
      }
#pragma unroll
      for (int j = 0; j < kAlong; ++j) {
        Columns<B::kDepthLines> columns;
        LoadShared<B::kPitch>(b.At(depth, Column(j)), &columns);
#pragma unroll
        for (int i = 0; i < kAcross; ++i) {
          nvcuda::wmma::mma_sync(sums_[i][j], rows[i], columns, sums_[i][j]);
        }
      }
    }
  }

  // Which elements of a fragment a thread has is not said: they go through shared memory.
  template <typename Target>
  MILLRACE_DEVICE void Store(Target* target) const {
    constexpr int kPitch = kSide + 4;
    alignas(32) __shared__ float patches[Part::kWarps][kSide][kPitch];
    float(&patch)[kSide][kPitch] = patches[threadIdx.x / 32];
    const int row = static_cast<int>(threadIdx.x) % 32 / 4;
    const int column = static_cast<int>(threadIdx.x) % 4 * 4;
#pragma unroll
    for (int j = 0; j < kAlong; ++j) {
      target->Columns(Column(j) + column);
#pragma unroll
      for (int i = 0; i < kAcross; ++i) {
        nvcuda::wmma::store_matrix_sync(&patch[0][0], sums_[i][j], kPitch,
                                        nvcuda::wmma::mem_row_major);
        __syncwarp();
#pragma unroll
        for (int below = 0; below < kSide; below += 8) {
          float values[4];
          LoadOrZero<4>(/*inside=*/true, &patch[row + below][column], /*offset=*/0, values);
          target->Put(Row(i) + row + below, values);
        }
        __syncwarp();
      }
    }
  }

 private:
  using Part = WarpPart<Tile>;
  static constexpr int kSide = Part::kSide;
  static constexpr int kAcross = Part::kAcross;
  static constexpr int kAlong = Part::kAlong;
  static_assert(Tile::kDepth % Factors::kDepth == 0);

  template <typename Use, bool kRowMajor>
  using Factor = nvcuda::wmma::fragment<
      Use, kSide, kSide, Factors::kDepth, typename Factors::InFragment,
      std::conditional_t<kRowMajor, nvcuda::wmma::row_major, nvcuda::wmma::col_major>>;
  // A line of a piece along the depth is a row of the first factor, and a column of the second.
  template <bool kDepthLines>
  using Rows = Factor<nvcuda::wmma::matrix_a, kDepthLines>;
  template <bool kDepthLines>
  using Columns = Factor<nvcuda::wmma::matrix_b, !kDepthLines>;
  using Sums =
      nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kSide, kSide, Factors::kDepth, float>;

  static MILLRACE_DEVICE int Row(int i) {
    return static_cast<int>(threadIdx.x) / 32 / Part::kWarpsAlong * Part::kRows + i * kSide;
  }
  static MILLRACE_DEVICE int Column(int j) {
    return static_cast<int>(threadIdx.x) / 32 % Part::kWarpsAlong * Part::kColumns + j * kSide;
  }

  Sums sums_[kAcross][kAlong];
};

template <typename T>
struct TypeOf {
  using Type = T;
};

// Calls call(TypeOf<P>()) for the product P of such factors.
template <typename Tile, typename Call>
void WithProduct(Precision precision, const Call& call) {
  switch (precision) {
    case Precision::kFloat32:
      return call(TypeOf<FloatProduct<Tile>>());
    case Precision::kTf32:
      return call(TypeOf<TensorProduct<Tile, Tf32Factors>>());
    case Precision::kBfloat16:
      return call(TypeOf<TensorProduct<Tile, Bfloat16Factors>>());
  }
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TENSOR_PRODUCT_H_
