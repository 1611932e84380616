// The gradient of a convolution's kernel, as products: a row for each tap and channel, a column for
// each filter, and the depth goes over the positions of all images.
#include "worker/device/cuda/kernels/convolution.h"
#include "worker/device/cuda/kernels/convolution_loaders.h"
#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/position_parts.h"
#include "worker/device/cuda/kernels/tensor_product.h"
#include "worker/device/cuda/kernels/tile_product.h"

namespace millrace::cuda {
namespace {

// Positions that are worth a part.
constexpr int64_t kPositionsOfPart = 512;

struct WeightsWork {
  Windows windows;
  int64_t positions = 0;  // Of all images.
  PositionParts parts;
  Divisor area;  // Positions of an image, and of a row of it.
  Divisor width;
  int64_t row_tiles = 0;
  int64_t column_tiles = 0;
  const float* x = nullptr;
  const float* dy = nullptr;
  float* sums = nullptr;  // A kernel for each part.
};

// One block's part of the work.
struct WeightsTile {
  int64_t first_row;
  int first_column;
  int group;
  int64_t part;
};

template <typename Tile>
MILLRACE_DEVICE WeightsTile WeightsTileOf(const WeightsWork& work) {
  int64_t index = blockIdx.x;
  WeightsTile tile;
  tile.first_row = index % work.row_tiles * Tile::kRows;
  index /= work.row_tiles;
  tile.first_column = static_cast<int>(index % work.column_tiles) * Tile::kColumns;
  index /= work.column_tiles;
  tile.group = static_cast<int>(index % work.windows.groups);
  tile.part = index / work.windows.groups;
  return tile;
}

// Where a tile's results go: rows of the kernel.
template <int kWidth>
struct WeightsTarget {
  float* target;  // At the tile's first element.
  int64_t pitch;
  int64_t rows;  // From there on.
  int columns;

  int column = 0;

  MILLRACE_DEVICE void Columns(int first) { column = first; }

  MILLRACE_DEVICE void Put(int row, const float* sums) const {
    if (row >= rows) return;
    float* const to = target + row * pitch + column;
    if constexpr (kWidth == 4) {
      if (column >= columns) return;
      FourFloats four;
#pragma unroll
      for (int j = 0; j < 4; ++j) four.values[j] = sums[j];
      *reinterpret_cast<FourFloats*>(to) = four;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (column + j < columns) to[j] = sums[j];
      }
    }
  }
};

MILLRACE_DEVICE DepthPlace PlaceOf(int64_t row, int channels, int columns) {
  DepthPlace place;
  place.channel = static_cast<int>(row % channels);
  place.column = static_cast<int>(row / channels % columns);
  place.row = static_cast<int>(row / channels / columns);
  return place;
}

template <typename Product, int kWidth>
__global__ void __launch_bounds__(Product::Tile::kThreads, Product::kBlocks)
    WeightsProducts(WeightsWork work) {
  using Tile = typename Product::Tile;
  const Windows& windows = work.windows;
  const WeightsTile tile = WeightsTileOf<Tile>(work);
  const int channels = windows.channels / windows.groups;
  const int filters = windows.filters / windows.groups;
  const int64_t begin = tile.part * work.parts.length;
  const int64_t left = work.positions - begin;
  const int64_t count = left < work.parts.length ? left : work.parts.length;
  const int64_t first_image = begin / work.area.divisor();
  const auto first = static_cast<uint32_t>(begin - first_image * work.area.divisor());
  using Taps = GatheredTaps<kWidth>;
  const int64_t row = tile.first_row + LoadShare<Tile, Taps, Tile::kRows>::Along();
  Taps taps(work.x + first_image * windows.input_elements() + int64_t{tile.group} * channels,
            windows, PlaceOf(row, channels, windows.columns.size), work.area, work.width, first,
            first + static_cast<uint32_t>(count));
  using Matrix = MatrixRows<kWidth>;
  const int along = LoadShare<Tile, Matrix, Tile::kColumns>::Along();
  const int columns = filters - tile.first_column;
  const int64_t first_filter = int64_t{tile.group} * filters + tile.first_column;
  Matrix matrix(work.dy + begin * windows.filters + first_filter + along, count, windows.filters,
                along < columns);
  Product product;
  MultiplyTiles((count + Tile::kDepth - 1) / Tile::kDepth, &taps, &matrix, &product);
  const int64_t rows = windows.taps() * channels;
  WeightsTarget<kWidth> target = {
      work.sums + (tile.part * rows + tile.first_row) * windows.filters + first_filter,
      windows.filters, rows - tile.first_row, columns};
  product.Store(&target);
}

int64_t RowsOf(const Windows& windows) {
  return windows.taps() * (windows.channels / windows.groups);
}

template <typename Product>
void LaunchWeights(cudaStream_t stream, WeightsWork work) {
  using Tile = typename Product::Tile;
  const Windows& windows = work.windows;
  work.row_tiles = (RowsOf(windows) + Tile::kRows - 1) / Tile::kRows;
  work.column_tiles = (windows.filters / windows.groups + Tile::kColumns - 1) / Tile::kColumns;
  const dim3 blocks(static_cast<unsigned>(work.row_tiles * work.column_tiles * windows.groups *
                                          work.parts.count));
  const bool by_fours = windows.channels / windows.groups % 4 == 0 &&
                        windows.filters / windows.groups % 4 == 0 &&
                        AlignedForFours(work.x, work.dy, work.sums);
  const auto kernel = by_fours ? WeightsProducts<Product, 4> : WeightsProducts<Product, 1>;
  Launch(stream, blocks, dim3(Tile::kThreads), kernel, work);
}

// Calls use(tile) with a tile of the kind that suits the shape. Parts make up for few tiles.
template <typename Use>
auto WithWeightsTile(const Windows& windows, const Use& use) {
  const int filters = windows.filters / windows.groups;
  if (filters <= SmallNarrowTile::kColumns) return use(SmallNarrowTile());
  if (RowsOf(windows) <= SmallTile::kRows) return use(SmallTile());
  return filters <= MediumTile::kColumns ? use(MediumTile()) : use(LargeTile());
}

PositionParts PartsOf(const Windows& windows, int64_t batch) {
  const int64_t tiles = WithWeightsTile(windows, [&](auto tile) {
    return TilesOf<decltype(tile)>(RowsOf(windows), windows.filters / windows.groups);
  });
  return CutPositions(batch * windows.output_positions(), tiles * windows.groups, kPositionsOfPart);
}

}  // namespace

size_t KernelGradientBytes(const Windows& windows, int64_t batch) {
  return PartialSumsBytes(PartsOf(windows, batch), RowsOf(windows) * windows.filters);
}

void SumKernelGradient(cudaStream_t stream, const Windows& windows,
                       const KernelGradient& gradient) {
  WeightsWork work;
  work.windows = windows;
  work.positions = gradient.batch * windows.output_positions();
  work.parts = PartsOf(windows, gradient.batch);
  work.area = Divisor(static_cast<uint32_t>(windows.output_positions()));
  work.width = Divisor(static_cast<uint32_t>(windows.columns.output));
  work.x = gradient.x;
  work.dy = gradient.dy;
  work.sums = PartialSums(work.parts, gradient);
  WithWeightsTile(windows, [&](auto tile) {
    WithProduct<decltype(tile)>(gradient.precision, [&](auto product) {
      LaunchWeights<typename decltype(product)::Type>(stream, work);
    });
  });
  AddPartialSums(stream, work.parts, RowsOf(windows) * windows.filters, gradient);
}

}  // namespace millrace::cuda
