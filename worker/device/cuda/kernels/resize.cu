// Zero padding and up sampling. Images are matrices here: each row has the floats of all its
// pixels.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/kernels/members.h"
#include "worker/device/cuda/kernels/strides.h"

namespace millrace::cuda {
namespace {

struct Padding {
  uint32_t height = 0;  // Of the input.
  uint32_t row = 0;     // Its floats in a row.
  uint32_t padded_height = 0;
  uint32_t padded_row = 0;
  uint32_t above = 0;
  uint32_t left = 0;  // Floats.
};

__global__ void PadKernel(Padding padding, size_t count, const float* x, float* y) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const size_t row = Quotient(i, padding.padded_row);
    const size_t example = Quotient(row, padding.padded_height);
    // Before the first one wraps around, and so is beyond the last.
    const size_t from_row = row - example * padding.padded_height - padding.above;
    const size_t place = i - row * padding.padded_row - padding.left;
    const bool inside = from_row < padding.height && place < padding.row;
    y[i] = inside ? x[(example * padding.height + from_row) * padding.row + place] : 0;
  }
}

__global__ void PadGradientKernel(Padding padding, size_t count, const float* dy, float* dx) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const size_t row = Quotient(i, padding.row);
    const size_t example = Quotient(row, padding.height);
    const size_t to_row =
        example * padding.padded_height + padding.above + (row - example * padding.height);
    dx[i] = dy[to_row * padding.padded_row + padding.left + (i - row * padding.row)];
  }
}

class ZeroPaddingLayer final : public Layer {
 public:
  ZeroPaddingLayer(const Context& context, const ZeroPaddingDescription& description)
      : stream_(context.stream) {
    const auto& [height, width, channels] = description.input;
    padding_.height = static_cast<uint32_t>(height);
    padding_.row = static_cast<uint32_t>(width * channels);
    padding_.padded_height = static_cast<uint32_t>(description.output[0]);
    padding_.padded_row = static_cast<uint32_t>(description.output[1] * description.output[2]);
    padding_.above = static_cast<uint32_t>(description.above);
    padding_.left = static_cast<uint32_t>(description.left * channels);
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    const size_t count = pass.batch * padding_.padded_height * padding_.padded_row;
    LaunchFor(stream_, count, PadKernel, padding_, count, x[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] == nullptr) return;
    const size_t count = pass.batch * padding_.height * padding_.row;
    LaunchFor(stream_, count, PadGradientKernel, padding_, count, dy, dx[0]);
  }

 private:
  const cudaStream_t stream_;
  Padding padding_;
};

struct Repeats {
  uint32_t width = 0;  // Of the input.
  uint32_t channels = 0;
  uint32_t rows = 0;     // Of the output, for each of the input.
  uint32_t columns = 0;  // Likewise.
};

__global__ void RepeatKernel(Repeats repeats, size_t count, const float* x, float* y) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const size_t pixel = Quotient(i, repeats.channels);
    const size_t row = Quotient(pixel, repeats.width * repeats.columns);
    const size_t column = pixel - row * repeats.width * repeats.columns;
    const size_t from =
        Quotient(row, repeats.rows) * repeats.width + Quotient(column, repeats.columns);
    y[i] = x[from * repeats.channels + (i - pixel * repeats.channels)];
  }
}

// Adds up in the order of the output.
__global__ void RepeatGradientKernel(Repeats repeats, size_t count, const float* dy, float* dx) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const size_t pixel = Quotient(i, repeats.channels);
    const size_t row = Quotient(pixel, repeats.width);
    const size_t first = row * repeats.rows * repeats.width * repeats.columns +
                         (pixel - row * repeats.width) * repeats.columns;
    float sum = 0;
    for (uint32_t r = 0; r < repeats.rows; ++r) {
      const size_t from = first + size_t{r} * repeats.width * repeats.columns;
      for (uint32_t c = 0; c < repeats.columns; ++c) {
        sum += dy[(from + c) * repeats.channels + (i - pixel * repeats.channels)];
      }
    }
    dx[i] = sum;
  }
}

class UpSamplingLayer final : public Layer {
 public:
  UpSamplingLayer(const Context& context, const UpSamplingDescription& description)
      : stream_(context.stream) {
    const auto& [height, width, channels] = description.input;
    elements_ = static_cast<size_t>(height * width * channels);
    repeats_.width = static_cast<uint32_t>(width);
    repeats_.channels = static_cast<uint32_t>(channels);
    repeats_.rows = static_cast<uint32_t>(description.size[0]);
    repeats_.columns = static_cast<uint32_t>(description.size[1]);
  }

  void Forward(const Pass& pass, const float* const* x, float* y) override {
    const size_t count = pass.batch * elements_ * repeats_.rows * repeats_.columns;
    LaunchFor(stream_, count, RepeatKernel, repeats_, count, x[0], y);
  }

  void Backward(const Pass& pass, const float* const* /*x*/, const float* /*y*/, float* dy,
                float* const* dx) override {
    if (dx[0] == nullptr) return;
    const size_t count = pass.batch * elements_;
    LaunchFor(stream_, count, RepeatGradientKernel, repeats_, count, dy, dx[0]);
  }

 private:
  const cudaStream_t stream_;
  size_t elements_ = 0;  // Of an example of the input.
  Repeats repeats_;
};

}  // namespace

std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const ZeroPaddingDescription& description) {
  return std::make_unique<ZeroPaddingLayer>(context, description);
}

std::unique_ptr<Layer> MakeLayer(const Context& context, const UpSamplingDescription& description) {
  return std::make_unique<UpSamplingLayer>(context, description);
}

}  // namespace millrace::cuda
