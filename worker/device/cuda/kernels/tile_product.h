// The inner part of products whose factors are gathered from elsewhere: a block of threads computes
// a tile of the result, [kRows, kColumns], as a sum over a depth, of which kDepth at a time stand
// in shared memory. While one piece is multiplied, the next one is on its way to registers.
//
// Each element of the result is added up in the order of the depth, whatever the tile, so tiles may
// be chosen by speed alone.
//
// Where the factors come from is a loader's business, and how tiles are multiplied a product's:
// FloatProduct here, or one that uses tensor cores (tensor_product.h).
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TILE_PRODUCT_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TILE_PRODUCT_H_

#include <cstdint>

#include "worker/device/cuda/kernels/fours.h"
#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {

// What stands `offset` behind `from` is read if `inside`; otherwise zeros. The offset may be
// anything then: one that the caller chose by `inside` would cost several instructions more.
template <int kWidth>
MILLRACE_DEVICE void LoadOrZero(bool inside, const float* from, int64_t offset, float* to) {
  static_assert(kWidth == 1 || kWidth == 4);
  if constexpr (kWidth == 4) {
    const FourFloats four =
        inside ? *reinterpret_cast<const FourFloats*>(from + offset) : FourFloats{};
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = four.values[i];
  } else {
    *to = inside ? from[offset] : 0.0f;
  }
}

// kThreads threads, each of which has kThreadRows x kThreadColumns elements of the result.
template <int kRows_, int kColumns_, int kThreadRows_, int kThreadColumns_>
struct ProductTile {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kThreadRows = kThreadRows_;
  static constexpr int kThreadColumns = kThreadColumns_;
  static constexpr int kDepth = 16;
  static constexpr int kThreads = kRows / kThreadRows * (kColumns / kThreadColumns);
};

// For many columns, and for few.
using LargeTile = ProductTile<128, 64, 8, 8>;
using MediumTile = ProductTile<128, 32, 8, 4>;
using NarrowTile = ProductTile<128, 16, 8, 4>;
// Where there are few rows: more blocks, and more threads for what there is to do.
using SmallTile = ProductTile<64, 32, 4, 4>;
using SmallNarrowTile = ProductTile<64, 16, 4, 4>;

template <typename Tile>
int64_t TilesOf(int64_t rows, int64_t columns) {
  return (rows + Tile::kRows - 1) / Tile::kRows * ((columns + Tile::kColumns - 1) / Tile::kColumns);
}

// Whether so many products of this shape have a tile for each multiprocessor of a GPU, roughly.
template <typename Tile>
bool TilesFill(int64_t rows, int64_t columns, int64_t products) {
  constexpr int64_t kEnoughTiles = 128;
  return TilesOf<Tile>(rows, columns) * products >= kEnoughTiles;
}

// In shared memory: kExtent rows or columns of a factor, kDepth deep. Lines go along the depth
// where the loader's values do and the product can take them so: what a thread has loaded at once
// is then stored at once. Otherwise they go along the extent. A product has
//   Tile: which it computes,
//   kBlocks: so many a multiprocessor is to have room for (__launch_bounds__); 0: nvcc chooses,
//   Element, Round(float): what it takes factors as,
//   kTakesDepthLines: whether lines may go along the depth,
//   Gap(depth_lines): so much longer lines are than they need be, so that stores and loads of
//     several lines meet in fewer banks,
//   Add(a, b): adds the product of two pieces,
//   Store(target): calls target->Columns(column), then target->Put(row, values) for this thread's
//     rows, for each four columns that it has.
template <typename Product, typename Loader, int kExtent>
struct FactorPiece {
  static constexpr bool kDepthLines = Product::kTakesDepthLines && Loader::kAlongDepth;
  static constexpr int kLines = kDepthLines ? kExtent : Product::Tile::kDepth;
  static constexpr int kPitch =
      (kDepthLines ? Product::Tile::kDepth : kExtent) + Product::Gap(kDepthLines);

  alignas(32) typename Product::Element lines[kLines][kPitch];

  MILLRACE_DEVICE const typename Product::Element* At(int depth, int across) const {
    return kDepthLines ? &lines[across][depth] : &lines[depth][across];
  }
};

// What of kExtent rows or columns of a factor, kDepth deep, one thread brings. A loader has
//   kWidth: how many floats it loads at once, one after the other in memory,
//   kAlongDepth: whether these follow along the depth; otherwise along the extent,
//   Load(across, values): those at the place that the loader was made for along one direction, and
//     at `across` in the other; zeros outside of the factor,
//   Next(): moves on by kDepth.
template <typename Tile, typename Loader, int kExtent>
class LoadShare {
 public:
  // The place that this thread's loader is for.
  static MILLRACE_DEVICE int Along() {
    return static_cast<int>(threadIdx.x) % kLine * Loader::kWidth;
  }

  MILLRACE_DEVICE void Fetch(Loader* loader) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) loader->Load(Across(i), values_[i]);
    loader->Next();
  }

  // As the product takes them.
  template <typename Product>
  MILLRACE_DEVICE void Store(FactorPiece<Product, Loader, kExtent>* piece) const {
    constexpr bool kDepthLines = FactorPiece<Product, Loader, kExtent>::kDepthLines;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int k = 0; k < Loader::kWidth; ++k) {
        if constexpr (Loader::kAlongDepth != kDepthLines) {
          piece->lines[Along() + k][Across(i)] = Product::Round(values_[i][k]);
        } else {
          piece->lines[Across(i)][Along() + k] = Product::Round(values_[i][k]);
        }
      }
    }
  }

 private:
  // Threads side by side, and lines of them.
  static constexpr int kLine = (Loader::kAlongDepth ? Tile::kDepth : kExtent) / Loader::kWidth;
  static constexpr int kLines = Tile::kThreads / kLine;
  static constexpr int kCount = (Loader::kAlongDepth ? kExtent : Tile::kDepth) / kLines;
  static_assert(kLine * kLines == Tile::kThreads &&
                kCount * Tile::kThreads * Loader::kWidth == Tile::kDepth * kExtent);

  static MILLRACE_DEVICE int Across(int i) {
    return static_cast<int>(threadIdx.x) / kLine + i * kLines;
  }

  float values_[kCount][Loader::kWidth];
};

// Sums of products in float32. A thread's rows and columns come in groups of four, so that a warp
// reads and writes memory without gaps.
template <typename Tile_>
class FloatProduct {
 public:
  using Tile = Tile_;
  using Element = float;
  static constexpr int kBlocks = 0;
  static constexpr bool kTakesDepthLines = false;
  static constexpr int Gap(bool /*depth_lines*/) { return 4; }
  static MILLRACE_DEVICE float Round(float value) { return value; }

  template <typename A, typename B>
  MILLRACE_DEVICE void Add(const A& a, const B& b) {
#pragma unroll
    for (int depth = 0; depth < Tile::kDepth; ++depth) {
      float rows[Tile::kThreadRows];
      float columns[Tile::kThreadColumns];
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; i += 4) {
        LoadOrZero<4>(/*inside=*/true, a.At(depth, Row(i)), /*offset=*/0, rows + i);
      }
#pragma unroll
      for (int j = 0; j < Tile::kThreadColumns; j += 4) {
        LoadOrZero<4>(/*inside=*/true, b.At(depth, Column(j)), /*offset=*/0, columns + j);
      }
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kThreadColumns; ++j) sums_[i][j] += rows[i] * columns[j];
      }
    }
  }

  template <typename Target>
  MILLRACE_DEVICE void Store(Target* target) const {
#pragma unroll
    for (int j = 0; j < Tile::kThreadColumns; j += 4) {
      target->Columns(Column(j));
#pragma unroll
      for (int i = 0; i < Tile::kThreadRows; ++i) target->Put(Row(i), sums_[i] + j);
    }
  }

 private:
  static constexpr int kLine = Tile::kColumns / Tile::kThreadColumns;  // Threads side by side.

  static MILLRACE_DEVICE int Row(int i) {
    return i / 4 * (Tile::kRows / (Tile::kThreadRows / 4)) +
           static_cast<int>(threadIdx.x) / kLine * 4 + i % 4;
  }
  static MILLRACE_DEVICE int Column(int j) {
    return j / 4 * (Tile::kColumns / (Tile::kThreadColumns / 4)) +
           static_cast<int>(threadIdx.x) % kLine * 4 + j % 4;
  }

  float sums_[Tile::kThreadRows][Tile::kThreadColumns] = {};
};

// Adds a * b to the product, of as many pieces of kDepth as are said. Called by all threads of a
// block, of Tile::kThreads; shared memory that they wrote before is seen by the loaders.
template <typename A, typename B, typename Product>
MILLRACE_DEVICE void MultiplyTiles(int64_t pieces, A* a, B* b, Product* product) {
  using Tile = typename Product::Tile;
  __shared__ FactorPiece<Product, A, Tile::kRows> a_pieces[2];
  __shared__ FactorPiece<Product, B, Tile::kColumns> b_pieces[2];
  LoadShare<Tile, A, Tile::kRows> share_of_a;
  LoadShare<Tile, B, Tile::kColumns> share_of_b;
  __syncthreads();
  for (int64_t piece = -1; piece < pieces; ++piece) {
    const int ready = static_cast<int>(piece & 1);
    const bool more = piece + 1 < pieces;
    if (more) {
      share_of_a.Fetch(a);
      share_of_b.Fetch(b);
    }
    if (piece >= 0) product->Add(a_pieces[ready], b_pieces[ready]);
    if (more) {
      share_of_a.template Store<Product>(&a_pieces[1 - ready]);
      share_of_b.template Store<Product>(&b_pieces[1 - ready]);
    }
    __syncthreads();
  }
}

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_TILE_PRODUCT_H_
