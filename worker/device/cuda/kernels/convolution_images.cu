// Convolutions of 3x3 pixels in float32, forwards and back to their inputs, for images of the
// widths that small ones have: a block takes some rows of an image, whole ones, with the border
// that its taps see. Of these it has some channels at a time in shared memory, where each pixel is
// loaded once. The products of convolution_products.cu gather it once for each of the nine taps,
// and compute its address each time.
//
// A thread has neighbouring pixels of a row, for four channels of the target. For each of the
// source's channels and each row of taps it loads those pixels and the two beside them once for
// three taps. Nothing is asked in that loop: what lies outside of the image is zeros in shared
// memory.
//
// Back to the input it is the same with the kernel mirrored, and its channels and filters
// exchanged, while it is brought to shared memory.
//
// The shapes alone say whether this kernel is taken, and not the batch or where memory is aligned:
// it sums up in another order, and an image's bits are to be the same in every batch.
#include "worker/device/cuda/kernels/convolution.h"
#include "worker/device/cuda/kernels/convolution_loaders.h"
#include "worker/device/cuda/kernels/fours.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/tile_product.h"

namespace millrace::cuda {
namespace {

constexpr int kSide = 3;  // Of the kernel.
constexpr int kImageTaps = kSide * kSide;

// What a block computes: kRows rows of an image of kWidth pixels, for kTargets channels of the
// target; a thread has kPixels x 4 of that. It goes over kSources channels of the source at a time.
template <int kWidth_, int kPixels_, int kTargets_>
struct ImageTile {
  static constexpr int kWidth = kWidth_;
  static constexpr int kPixels = kPixels_;
  static constexpr int kTargets = kTargets_;
  static constexpr int kRows = 8;
  static constexpr int kSources = 16;
  static constexpr int kSegments = kWidth / kPixels;
  static constexpr int kFours = kTargets / 4;
  static constexpr int kThreads = kRows * kSegments * kFours;
  // With the border, where fours are aligned. Neighbouring rows and channels do not begin in the
  // same bank.
  static constexpr int kPitch = kWidth + 4;
  static constexpr int kPlane = (kRows + 2) * kPitch + 4;
};

// In shared memory.
template <typename Tile>
struct ImagePiece {
  alignas(16) float source[Tile::kSources][Tile::kPlane];
  alignas(16) float kernel[kImageTaps][Tile::kSources][Tile::kTargets];
};

struct ImageWork {
  int height = 0;
  int sources = 0;  // Channels of a pixel.
  int targets = 0;
  int row_tiles = 0;
  int target_tiles = 0;
  const float* source = nullptr;
  const float* kernel = nullptr;
  const float* bias = nullptr;
  bool relu = false;
  float* target = nullptr;
};

// One block's part of the work.
struct ImagePlace {
  int64_t image;
  int first_row;
  int first_target;
};

template <typename Tile>
MILLRACE_DEVICE ImagePlace PlaceOf(const ImageWork& work) {
  const int64_t rows = blockIdx.x / work.target_tiles;
  ImagePlace place;
  place.first_target = static_cast<int>(blockIdx.x % work.target_tiles) * Tile::kTargets;
  place.first_row = static_cast<int>(rows % work.row_tiles) * Tile::kRows;
  place.image = rows / work.row_tiles;
  return place;
}

// What one instruction loads.
struct alignas(8) TwoFloats {
  float values[2];
};

// Four floats, kBy at once.
template <int kBy>
MILLRACE_DEVICE void LoadFour(bool inside, const float* from, int64_t offset, float* to) {
#pragma unroll
  for (int i = 0; i < 4; i += kBy) LoadOrZero<kBy>(inside, from, offset + i, to + i);
}

template <typename Tile, int kBy>
MILLRACE_DEVICE void FillSource(const ImageWork& work, const ImagePlace& place, int first_source,
                                ImagePiece<Tile>* piece) {
  constexpr int kLine = Tile::kWidth + 2;
  constexpr int kFours = Tile::kSources / 4;
  const float* const from =
      work.source + place.image * work.height * Tile::kWidth * work.sources + first_source;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < (Tile::kRows + 2) * kLine * kFours;
       i += Tile::kThreads) {
    const int four = i % kFours * 4;
    const int x = i / kFours % kLine;
    const int y = i / kFours / kLine;
    const int row = place.first_row + y - 1;
    const bool inside = Within(row, work.height) && Within(x - 1, Tile::kWidth);
    float values[4];
    LoadFour<kBy>(inside, from, (int64_t{row} * Tile::kWidth + x - 1) * work.sources + four,
                  values);
#pragma unroll
    for (int j = 0; j < 4; ++j) piece->source[four + j][y * Tile::kPitch + x] = values[j];
  }
}

template <typename Tile, int kBy, bool kBack>
MILLRACE_DEVICE void FillKernel(const ImageWork& work, const ImagePlace& place, int first_source,
                                ImagePiece<Tile>* piece) {
  // Fours go along the filters, and threads along the target's channels.
  constexpr int kAcross = kBack ? Tile::kTargets : Tile::kFours;
  constexpr int kAlong = kBack ? Tile::kSources / 4 : Tile::kSources;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kImageTaps * kAlong * kAcross;
       i += Tile::kThreads) {
    const int target = i % kAcross * (kBack ? 1 : 4);
    const int source = i / kAcross % kAlong * (kBack ? 4 : 1);
    const int tap = i / kAcross / kAlong;
    const int64_t filters = kBack ? work.sources : work.targets;
    const int64_t line =
        kBack ? int64_t{kImageTaps - 1 - tap} * work.targets + place.first_target + target
              : int64_t{tap} * work.sources + first_source + source;
    const int filter = kBack ? first_source + source : place.first_target + target;
    float values[4];
    LoadFour<kBy>(/*inside=*/true, work.kernel, line * filters + filter, values);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      piece->kernel[tap][source + (kBack ? j : 0)][target + (kBack ? 0 : j)] = values[j];
    }
  }
}

// This thread's part of the tile.
template <typename Tile>
class ImageSums {
 public:
  MILLRACE_DEVICE void Add(const ImagePiece<Tile>& piece) {
#pragma unroll 1
    for (int source = 0; source < Tile::kSources; ++source) {
#pragma unroll
      for (int tap = 0; tap < kImageTaps; tap += kSide) {
        const int row = row_ + tap / kSide;
        AddRow(piece.source[source] + row * Tile::kPitch + column_,
               &piece.kernel[tap][source][target_]);
      }
    }
  }

  template <int kBy>
  MILLRACE_DEVICE void Store(const ImageWork& work, const ImagePlace& place) const {
    const int row = place.first_row + row_;
    if (row >= work.height) return;
    const int target = place.first_target + target_;
    float added[4] = {};
    if (work.bias != nullptr) LoadFour<1>(/*inside=*/true, work.bias, target, added);
    const int64_t pixel = (place.image * work.height + row) * Tile::kWidth + column_;
    float* const to = work.target + pixel * work.targets + target;
#pragma unroll
    for (int i = 0; i < Tile::kPixels; ++i) {
      FourFloats four;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float sum = work.bias == nullptr ? sums_[i][j] : sums_[i][j] + added[j];
        four.values[j] = work.relu && sum < 0 ? 0.0f : sum;
      }
      StoreFour<kBy>(four, to + int64_t{i} * work.targets);
    }
  }

 private:
  // One row of taps: the kernel's next tap is kTap further on.
  MILLRACE_DEVICE void AddRow(const float* source, const float* kernel) {
    constexpr int kTap = Tile::kSources * Tile::kTargets;
    float pixels[Tile::kPixels + 2];
#pragma unroll
    for (int i = 0; i < Tile::kPixels; i += 4) LoadFour<4>(true, source, i, pixels + i);
    const TwoFloats last = *reinterpret_cast<const TwoFloats*>(source + Tile::kPixels);
    pixels[Tile::kPixels] = last.values[0];
    pixels[Tile::kPixels + 1] = last.values[1];
#pragma unroll
    for (int tap = 0; tap < kSide; ++tap) {
      float factors[4];
      LoadFour<4>(/*inside=*/true, kernel, int64_t{tap} * kTap, factors);
#pragma unroll
      for (int i = 0; i < Tile::kPixels; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums_[i][j] += pixels[i + tap] * factors[j];
      }
    }
  }

  template <int kBy>
  static MILLRACE_DEVICE void StoreFour(const FourFloats& four, float* to) {
    if constexpr (kBy == 4) {
      *reinterpret_cast<FourFloats*>(to) = four;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) to[j] = four.values[j];
    }
  }

  const int target_ = static_cast<int>(threadIdx.x) % Tile::kFours * 4;
  const int column_ =
      static_cast<int>(threadIdx.x) / Tile::kFours % Tile::kSegments * Tile::kPixels;
  const int row_ = static_cast<int>(threadIdx.x) / Tile::kFours / Tile::kSegments;
  float sums_[Tile::kPixels][4] = {};
};

template <typename Tile, int kBy, bool kBack>
__global__ void __launch_bounds__(Tile::kThreads) ImageProducts(ImageWork work) {
  __shared__ ImagePiece<Tile> piece;
  const ImagePlace place = PlaceOf<Tile>(work);
  ImageSums<Tile> sums;
  for (int source = 0; source < work.sources; source += Tile::kSources) {
    if (source > 0) __syncthreads();
    FillSource<Tile, kBy>(work, place, source, &piece);
    FillKernel<Tile, kBy, kBack>(work, place, source, &piece);
    __syncthreads();
    sums.Add(piece);
  }
  sums.template Store<kBy>(work, place);
}

// Whether each position of the input has an output, which sees it and its neighbours.
bool SeesNeighbours(const WindowAxis& axis) {
  return axis.size == kSide && axis.stride == 1 && axis.dilation == 1 && axis.pad_before == 1 &&
         axis.output == axis.input;
}

template <typename Tile>
bool Fits(const Windows& windows, Precision precision, const ImageWork& work) {
  return precision == Precision::kFloat32 && windows.groups == 1 && SeesNeighbours(windows.rows) &&
         SeesNeighbours(windows.columns) && windows.columns.input == Tile::kWidth &&
         work.sources % Tile::kSources == 0 && work.targets % Tile::kTargets == 0;
}

// Whether it was launched.
template <typename Tile, bool kBack>
bool LaunchIfFits(cudaStream_t stream, const Windows& windows, Precision precision, int64_t batch,
                  ImageWork work) {
  if (!Fits<Tile>(windows, precision, work)) return false;
  work.height = windows.rows.input;
  work.row_tiles = (work.height + Tile::kRows - 1) / Tile::kRows;
  work.target_tiles = work.targets / Tile::kTargets;
  const dim3 blocks(static_cast<unsigned>(batch * work.row_tiles * work.target_tiles));
  const auto kernel = AlignedForFours(work.source, work.kernel, work.target)
                          ? ImageProducts<Tile, 4, kBack>
                          : ImageProducts<Tile, 1, kBack>;
  Launch(stream, blocks, dim3(Tile::kThreads), kernel, work);
  return true;
}

// Each has 128 threads: narrower images have more channels in a tile for it, and the narrowest
// fewer pixels for each thread.
template <bool kBack, typename... Arguments>
bool LaunchImages(const Arguments&... arguments) {
  return LaunchIfFits<ImageTile<32, 8, 16>, kBack>(arguments...) ||
         LaunchIfFits<ImageTile<16, 8, 32>, kBack>(arguments...) ||
         LaunchIfFits<ImageTile<8, 4, 32>, kBack>(arguments...);
}

}  // namespace

bool ConvolveImages(cudaStream_t stream, const Windows& windows,
                    const ConvolutionForward& forward) {
  ImageWork work;
  work.sources = windows.channels;
  work.targets = windows.filters;
  work.source = forward.x;
  work.kernel = forward.kernel;
  work.bias = forward.bias;
  work.relu = forward.relu;
  work.target = forward.y;
  return LaunchImages</*kBack=*/false>(stream, windows, forward.precision, forward.batch, work);
}

bool ConvolveImagesBack(cudaStream_t stream, const Windows& windows,
                        const InputGradient& gradient) {
  ImageWork work;
  work.sources = windows.filters;
  work.targets = windows.channels;
  work.source = gradient.dy;
  work.kernel = gradient.kernel;
  work.target = gradient.dx;
  return LaunchImages</*kBack=*/true>(stream, windows, gradient.precision, gradient.batch, work);
}

}  // namespace millrace::cuda
