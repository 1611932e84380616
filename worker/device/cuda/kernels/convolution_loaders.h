// What the products of convolutions load (see tile_product.h).
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CONVOLUTION_LOADERS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CONVOLUTION_LOADERS_H_

#include <cstdint>

#include "worker/device/cuda/kernels/divisor.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/tile_product.h"
#include "worker/device/cuda/kernels/windows.h"

namespace millrace::cuda {

inline constexpr int kPieceDepth = LargeTile::kDepth;
static_assert(SmallTile::kDepth == kPieceDepth);

// Which elements of a source each of a run of targets takes, along one axis of images. The target
// at first_target + i * target_step, unless that is beyond `target`, takes the source's i * stride
// + origin + tap * step for each tap, where that is inside; there the factor is the kernel's
// first_tap + tap * tap_step.
struct GatherAxis {
  int first_target = 0;
  int target_step = 1;
  int target = 0;
  int stride = 1;
  int origin = 0;
  int step = 1;
  int source = 0;
  int taps = 0;
  int first_tap = 0;
  int tap_step = 1;
};

// A place along the depth: taps row by row, and channels within each.
struct DepthPlace {
  int row = 0;
  int column = 0;
  int channel = 0;

  MILLRACE_DEVICE void Advance(int by, int channels, int columns) {
    channel += by;
    while (channel >= channels) {
      channel -= channels;
      if (++column == columns) {
        column = 0;
        ++row;
      }
    }
  }
};

// Where a row of a product takes its elements from and where its result goes: offsets of the first
// channel, and the position in the source that the first tap sees.
struct GatherPlace {
  int64_t source;
  int64_t target;  // Below 0: there is none.
  int y;
  int x;
};

// Whether the position is one of `size` from 0 on, by one comparison.
MILLRACE_DEVICE bool Within(int position, int size) {
  return static_cast<uint32_t>(position) < static_cast<uint32_t>(size);
}

// Far enough outside for every tap.
inline constexpr int kNowhere = -(1 << 30);

// Rows of images' elements that the taps see; along the depth.
template <int kWidth_>
class GatheredRows {
 public:
  static constexpr int kWidth = kWidth_;
  static constexpr bool kAlongDepth = true;

  // Of `channels` among those of a pixel, which has `pixel`.
  MILLRACE_DEVICE GatheredRows(const float* source, const GatherPlace* places,
                               const GatherAxis& rows, const GatherAxis& columns, int channels,
                               int pixel, int along)
      : source_(source),
        places_(places),
        rows_(rows),
        columns_(columns),
        channels_(channels),
        pixel_(pixel) {
    MoveBy(along);
  }

  MILLRACE_DEVICE void Load(int row, float* values) const {
    const GatherPlace& place = places_[row];
    const int y = place.y + depth_.row * rows_.step;
    const int x = place.x + depth_.column * columns_.step;
    const bool inside =
        depth_.row < rows_.taps && Within(y, rows_.source) && Within(x, columns_.source);
    LoadOrZero<kWidth>(inside, source_, place.source + offset_, values);
  }

  MILLRACE_DEVICE void Next() { MoveBy(kPieceDepth); }

 private:
  MILLRACE_DEVICE void MoveBy(int elements) {
    depth_.Advance(elements, channels_, columns_.taps);
    const int64_t pixels =
        int64_t{depth_.row} * rows_.step * columns_.source + int64_t{depth_.column} * columns_.step;
    offset_ = pixels * pixel_ + depth_.channel;
  }

  const float* const source_;
  const GatherPlace* const places_;
  const GatherAxis rows_;
  const GatherAxis columns_;
  const int channels_;
  const int pixel_;
  DepthPlace depth_;
  int64_t offset_ = 0;
};

// A row-major matrix whose rows are the depth.
template <int kWidth_>
class MatrixRows {
 public:
  static constexpr int kWidth = kWidth_;
  static constexpr bool kAlongDepth = false;

  // `inside`: whether the matrix has the columns from `along` on, which is where `matrix` points.
  MILLRACE_DEVICE MatrixRows(const float* matrix, int64_t rows, int pitch, bool inside)
      : matrix_(matrix), rows_(inside ? rows : 0), pitch_(pitch) {}

  MILLRACE_DEVICE void Load(int row, float* values) const {
    const bool inside = first_ + row < rows_;
    LoadOrZero<kWidth>(inside, matrix_, (first_ + row) * pitch_, values);
  }

  MILLRACE_DEVICE void Next() { first_ += kPieceDepth; }

 private:
  const float* const matrix_;
  const int64_t rows_;
  const int64_t pitch_;
  int64_t first_ = 0;
};

// The kernel, its filters along the depth and its channels across.
template <int kWidth_>
class KernelColumns {
 public:
  static constexpr int kWidth = kWidth_;
  static constexpr bool kAlongDepth = true;

  // `kernel`: at the first filter of the group and the first channel of the tile, which has
  // `channels`. `columns`: taps of a row of the kernel.
  MILLRACE_DEVICE KernelColumns(const float* kernel, const Windows& windows, const GatherAxis& rows,
                                const GatherAxis& columns, int channels, int along)
      : kernel_(kernel),
        rows_(rows),
        columns_(columns),
        row_of_taps_(windows.columns.size),
        tap_(int64_t{windows.channels / windows.groups} * windows.filters),
        filters_(windows.filters / windows.groups),
        pitch_(windows.filters),
        channels_(channels) {
    MoveBy(along);
  }

  MILLRACE_DEVICE void Load(int channel, float* values) const {
    const bool inside = depth_.row < rows_.taps && channel < channels_;
    LoadOrZero<kWidth>(inside, kernel_, offset_ + channel * pitch_, values);
  }

  MILLRACE_DEVICE void Next() { MoveBy(kPieceDepth); }

 private:
  MILLRACE_DEVICE void MoveBy(int elements) {
    depth_.Advance(elements, filters_, columns_.taps);
    const int64_t row = rows_.first_tap + int64_t{depth_.row} * rows_.tap_step;
    const int64_t column = columns_.first_tap + int64_t{depth_.column} * columns_.tap_step;
    offset_ = (row * row_of_taps_ + column) * tap_ + depth_.channel;
  }

  const float* const kernel_;
  const GatherAxis rows_;
  const GatherAxis columns_;
  const int row_of_taps_;
  const int64_t tap_;
  const int filters_;
  const int64_t pitch_;
  const int channels_;
  DepthPlace depth_;
  int64_t offset_ = 0;
};

// Of a tap and channels from `place` on, what each position of the output takes; positions are the
// depth.
template <int kWidth_>
class GatheredTaps {
 public:
  static constexpr int kWidth = kWidth_;
  static constexpr bool kAlongDepth = false;

  // `x`: at the first channel of the group, in the image of the first position. Positions are
  // counted from there; the first one is `first`, the last one before `end`.
  MILLRACE_DEVICE GatheredTaps(const float* x, const Windows& windows, const DepthPlace& place,
                               const Divisor& area, const Divisor& width, uint32_t first,
                               uint32_t end)
      : x_(x + place.channel),
        row_(place.row * windows.rows.dilation - windows.rows.pad_before),
        column_(place.column * windows.columns.dilation - windows.columns.pad_before),
        rows_(windows.rows),
        columns_(windows.columns),
        pixel_(windows.channels),
        image_(static_cast<uint32_t>(windows.input_elements())),
        area_(area),
        width_(width),
        first_(first),
        end_(place.row < windows.rows.size ? end : first) {}

  MILLRACE_DEVICE void Load(int row, float* values) const {
    const uint32_t position = first_ + row;
    const uint32_t image = area_.Quotient(position);
    const uint32_t rest = position - image * area_.divisor();
    const uint32_t window = width_.Quotient(rest);
    const int y = static_cast<int>(window) * rows_.stride + row_;
    const int x = static_cast<int>(rest - window * width_.divisor()) * columns_.stride + column_;
    const bool inside = position < end_ && Within(y, rows_.input) && Within(x, columns_.input);
    // 32 bits do for an image (MakeWindows); outside of it they overflow, and are not used.
    const uint32_t of_image =
        (static_cast<uint32_t>(y) * columns_.input + static_cast<uint32_t>(x)) * pixel_;
    LoadOrZero<kWidth>(inside, x_, int64_t{image} * image_ + of_image, values);
  }

  MILLRACE_DEVICE void Next() { first_ += kPieceDepth; }

 private:
  const float* const x_;
  const int row_;
  const int column_;
  const WindowAxis rows_;
  const WindowAxis columns_;
  const uint32_t pixel_;  // Elements of one, and of an image.
  const uint32_t image_;
  const Divisor area_;
  const Divisor width_;
  uint32_t first_;
  const uint32_t end_;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CONVOLUTION_LOADERS_H_
