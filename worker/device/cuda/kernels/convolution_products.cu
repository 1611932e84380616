// Convolutions forwards and back to their inputs, as products: a row for each position of the
// target, a column for each channel, and the depth goes over the taps and the source's channels.
//
// Back to the input with strides, an input position has the taps alone that hit it: those of one
// residue modulo the stride. Positions of one residue have the same taps, evenly apart, so each
// residue is a product of its own, and nothing is multiplied by the zeros between the strides.
#include <numeric>

#include "worker/device/cuda/kernels/convolution.h"
#include "worker/device/cuda/kernels/convolution_loaders.h"
#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/tensor_product.h"
#include "worker/device/cuda/kernels/tile_product.h"

namespace millrace::cuda {
namespace {

// Which taps hit a residue: `tap * dilation` is equal to `residue + pad_before` modulo the stride.
struct ResidueAxis {
  int residues = 1;
  int common = 1;       // Greatest common divisor of stride and dilation.
  int between = 1;      // Taps: stride / common.
  int64_t inverse = 0;  // Of dilation / common, modulo `between`.
};

ResidueAxis ResiduesOf(const WindowAxis& axis) {
  ResidueAxis result;
  result.residues = std::min(axis.stride, axis.input);
  result.common = std::gcd(axis.stride, axis.dilation);
  result.between = axis.stride / result.common;
  const int64_t dilation = axis.dilation / result.common;
  while (result.inverse * dilation % result.between != 1 % result.between) ++result.inverse;
  return result;
}

struct GatherWork {
  Windows windows;
  int64_t batch = 0;
  ResidueAxis row_residues;  // Back to the input; forwards all positions have all taps.
  ResidueAxis column_residues;
  Divisor area;  // Targets of a residue in an image, and in a row of it.
  Divisor width;
  int64_t row_tiles = 0;
  int64_t column_tiles = 0;
  const float* source = nullptr;
  const float* kernel = nullptr;
  const float* bias = nullptr;
  bool relu = false;
  float* target = nullptr;
};

MILLRACE_DEVICE GatherAxis ForwardAxis(const WindowAxis& axis) {
  GatherAxis result;
  result.target = axis.output;
  result.stride = axis.stride;
  result.origin = -axis.pad_before;
  result.step = axis.dilation;
  result.source = axis.input;
  result.taps = axis.size;
  return result;
}

MILLRACE_DEVICE GatherAxis BackAxis(const WindowAxis& axis, const ResidueAxis& residues,
                                    int residue) {
  GatherAxis result;
  result.first_target = residue;
  result.target_step = axis.stride;
  result.target = axis.input;
  result.source = axis.output;
  const int64_t padded = int64_t{residue} + axis.pad_before;
  if (padded % residues.common != 0) return result;
  const int64_t first_tap = padded / residues.common * residues.inverse % residues.between;
  if (first_tap >= axis.size) return result;
  result.first_tap = static_cast<int>(first_tap);
  result.tap_step = residues.between;
  result.taps = (axis.size - 1 - result.first_tap) / residues.between + 1;
  result.origin = static_cast<int>((padded - first_tap * axis.dilation) / axis.stride);
  result.step = -(axis.dilation / residues.common);
  return result;
}

// One block's part of the work.
struct GatherTile {
  int64_t first_row;
  int first_column;
  int group;
  GatherAxis rows;  // Of images.
  GatherAxis columns;
};

template <typename Tile, bool kBack>
MILLRACE_DEVICE GatherTile TileOf(const GatherWork& work) {
  int64_t index = blockIdx.x;
  GatherTile tile;
  tile.first_column = static_cast<int>(index % work.column_tiles) * Tile::kColumns;
  index /= work.column_tiles;
  tile.first_row = index % work.row_tiles * Tile::kRows;
  index /= work.row_tiles;
  if constexpr (kBack) {
    const int of_rows = work.row_residues.residues;
    const int of_columns = work.column_residues.residues;
    tile.columns =
        BackAxis(work.windows.columns, work.column_residues, static_cast<int>(index % of_columns));
    index /= of_columns;
    tile.rows = BackAxis(work.windows.rows, work.row_residues, static_cast<int>(index % of_rows));
    index /= of_rows;
  } else {
    tile.rows = ForwardAxis(work.windows.rows);
    tile.columns = ForwardAxis(work.windows.columns);
  }
  tile.group = static_cast<int>(index);
  return tile;
}

// Of the tile's rows, whose images' pixels have so many elements.
template <typename Tile>
MILLRACE_DEVICE void FindPlaces(const GatherWork& work, const GatherTile& tile,
                                int64_t source_pixel, int64_t target_pixel, GatherPlace* places) {
  const GatherAxis& rows = tile.rows;
  const GatherAxis& columns = tile.columns;
  const int64_t first_image = tile.first_row / work.area.divisor();
  const uint32_t first = static_cast<uint32_t>(tile.first_row - first_image * work.area.divisor());
  for (int i = static_cast<int>(threadIdx.x); i < Tile::kRows; i += Tile::kThreads) {
    const uint32_t images = work.area.Quotient(first + i);
    const uint32_t rest = first + i - images * work.area.divisor();
    const int row = static_cast<int>(work.width.Quotient(rest));
    const int column = static_cast<int>(rest) - row * static_cast<int>(work.width.divisor());
    const int64_t image = first_image + images;
    const int target_row = rows.first_target + row * rows.target_step;
    const int target_column = columns.first_target + column * columns.target_step;
    const bool is_one =
        image < work.batch && target_row < rows.target && target_column < columns.target;
    GatherPlace place;
    place.y = is_one ? row * rows.stride + rows.origin : kNowhere;
    place.x = column * columns.stride + columns.origin;
    place.source = ((image * rows.source + place.y) * columns.source + place.x) * source_pixel;
    place.target = is_one ? ((image * rows.target + target_row) * columns.target + target_column) *
                                target_pixel
                          : -1;
    places[i] = place;
  }
}

// Where a tile's results go.
template <int kWidth>
struct GatherTarget {
  const GatherPlace* places;
  int columns;  // Of the group, from the tile's first one on.
  const float* bias;
  bool relu;
  float* target;

  int column = 0;
  float added[4] = {};

  MILLRACE_DEVICE void Columns(int first) {
    column = first;
    if (bias == nullptr) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) added[j] = column + j < columns ? bias[column + j] : 0.0f;
  }

  MILLRACE_DEVICE void Put(int row, const float* sums) const {
    if (places[row].target < 0) return;
    FourFloats four;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float sum = bias == nullptr ? sums[j] : sums[j] + added[j];
      four.values[j] = relu && sum < 0 ? 0.0f : sum;
    }
    float* const to = target + places[row].target + column;
    if constexpr (kWidth == 4) {
      if (column < columns) *reinterpret_cast<FourFloats*>(to) = four;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (column + j < columns) to[j] = four.values[j];
      }
    }
  }
};

// The tile's rows times the kernel's columns from `tile` on, of which there are so many.
template <int kWidth, bool kBack, typename Rows, typename Product>
MILLRACE_DEVICE void MultiplyByKernel(const GatherWork& work, const GatherTile& tile, int columns,
                                      int64_t depth, Rows* rows, Product* product) {
  using Tile = typename Product::Tile;
  const int64_t pieces = (depth + Tile::kDepth - 1) / Tile::kDepth;
  const int64_t pitch = work.windows.filters;
  const int filters = work.windows.filters / work.windows.groups;
  const float* const group = work.kernel + int64_t{tile.group} * filters;
  if constexpr (kBack) {
    using Columns = KernelColumns<kWidth>;
    Columns kernel(group + tile.first_column * pitch, work.windows, tile.rows, tile.columns,
                   columns, LoadShare<Tile, Columns, Tile::kColumns>::Along());
    MultiplyTiles(pieces, rows, &kernel, product);
  } else {
    using Columns = MatrixRows<kWidth>;
    const int along = LoadShare<Tile, Columns, Tile::kColumns>::Along();
    Columns kernel(group + tile.first_column + along, depth, work.windows.filters, along < columns);
    MultiplyTiles(pieces, rows, &kernel, product);
  }
}

template <typename Product, int kWidth, bool kBack>
__global__ void __launch_bounds__(Product::Tile::kThreads, Product::kBlocks)
    GatherProducts(GatherWork work) {
  using Tile = typename Product::Tile;
  __shared__ GatherPlace places[Tile::kRows];
  const GatherTile tile = TileOf<Tile, kBack>(work);
  const Windows& windows = work.windows;
  const int source_pixel = kBack ? windows.filters : windows.channels;
  const int target_pixel = kBack ? windows.channels : windows.filters;
  const int source_channels = source_pixel / windows.groups;
  const int target_channels = target_pixel / windows.groups;
  FindPlaces<Tile>(work, tile, source_pixel, target_pixel, places);
  using Rows = GatheredRows<kWidth>;
  Rows rows(work.source + int64_t{tile.group} * source_channels, places, tile.rows, tile.columns,
            source_channels, source_pixel, LoadShare<Tile, Rows, Tile::kRows>::Along());
  const int64_t depth = int64_t{tile.rows.taps} * tile.columns.taps * source_channels;
  const int columns = target_channels - tile.first_column;
  Product product;
  MultiplyByKernel<kWidth, kBack>(work, tile, columns, depth, &rows, &product);
  const int64_t first = int64_t{tile.group} * target_channels + tile.first_column;
  GatherTarget<kWidth> target = {places, columns,
                                 work.bias == nullptr ? nullptr : work.bias + first, work.relu,
                                 work.target + first};
  product.Store(&target);
}

template <typename Product, bool kBack>
void LaunchTiles(cudaStream_t stream, GatherWork work, int64_t rows, int64_t columns) {
  using Tile = typename Product::Tile;
  work.row_tiles = (rows + Tile::kRows - 1) / Tile::kRows;
  work.column_tiles = (columns + Tile::kColumns - 1) / Tile::kColumns;
  const int64_t residues = int64_t{work.row_residues.residues} * work.column_residues.residues;
  const dim3 blocks(
      static_cast<unsigned>(work.row_tiles * work.column_tiles * residues * work.windows.groups));
  const bool by_fours = work.windows.channels / work.windows.groups % 4 == 0 &&
                        work.windows.filters / work.windows.groups % 4 == 0 &&
                        AlignedForFours(work.source, work.kernel, work.target);
  const auto kernel =
      by_fours ? GatherProducts<Product, 4, kBack> : GatherProducts<Product, 1, kBack>;
  Launch(stream, blocks, dim3(Tile::kThreads), kernel, work);
}

// Rows and columns of each product, of which there are so many.
template <bool kBack>
void LaunchGather(cudaStream_t stream, Precision precision, const GatherWork& work, int64_t rows,
                  int64_t columns, int64_t products) {
  const auto launch = [&](auto tile) {
    WithProduct<decltype(tile)>(precision, [&](auto product) {
      LaunchTiles<typename decltype(product)::Type, kBack>(stream, work, rows, columns);
    });
  };
  if (columns <= NarrowTile::kColumns && TilesFill<NarrowTile>(rows, columns, products)) {
    launch(NarrowTile());
  } else if (columns <= MediumTile::kColumns && TilesFill<MediumTile>(rows, columns, products)) {
    launch(MediumTile());
  } else if (columns > MediumTile::kColumns && TilesFill<LargeTile>(rows, columns, products)) {
    launch(LargeTile());
  } else {
    launch(SmallTile());
  }
}

}  // namespace

void Convolve(cudaStream_t stream, const Windows& windows, const ConvolutionForward& forward) {
  if (forward.batch == 0 || ConvolveImages(stream, windows, forward)) return;
  const int64_t area = windows.output_positions();
  GatherWork work;
  work.windows = windows;
  work.batch = forward.batch;
  work.area = Divisor(static_cast<uint32_t>(area));
  work.width = Divisor(static_cast<uint32_t>(windows.columns.output));
  work.source = forward.x;
  work.kernel = forward.kernel;
  work.bias = forward.bias;
  work.relu = forward.relu;
  work.target = forward.y;
  LaunchGather</*kBack=*/false>(stream, forward.precision, work, forward.batch * area,
                                windows.filters / windows.groups, windows.groups);
}

void ConvolveBack(cudaStream_t stream, const Windows& windows, const InputGradient& gradient) {
  if (gradient.batch == 0 || ConvolveImagesBack(stream, windows, gradient)) return;
  const int64_t width = (windows.columns.input - 1) / windows.columns.stride + 1;
  const int64_t area = ((windows.rows.input - 1) / windows.rows.stride + 1) * width;
  GatherWork work;
  work.windows = windows;
  work.batch = gradient.batch;
  work.row_residues = ResiduesOf(windows.rows);
  work.column_residues = ResiduesOf(windows.columns);
  work.area = Divisor(static_cast<uint32_t>(area));
  work.width = Divisor(static_cast<uint32_t>(width));
  work.source = gradient.dy;
  work.kernel = gradient.kernel;
  work.target = gradient.dx;
  const int64_t residues = int64_t{work.row_residues.residues} * work.column_residues.residues;
  LaunchGather</*kBack=*/true>(stream, gradient.precision, work, gradient.batch * area,
                               windows.channels / windows.groups, residues * windows.groups);
}

}  // namespace millrace::cuda
