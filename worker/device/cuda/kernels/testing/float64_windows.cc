#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "glog/logging.h"
#include "worker/device/cuda/kernels/testing/float64_layers.h"

namespace millrace::worker {
namespace {

// Height and width, or, of sequences, 1 and the steps.
using Extent = std::array<size_t, 2>;

struct Sliding {
  Extent size;
  Extent strides;
  Extent dilation;
  Padding padding;
};

template <typename Numbers>
Extent ExtentOf(const Numbers& numbers) {
  return {numbers[0], numbers[1]};
}

template <typename Images>
Sliding OverImages(const Images& layer) {
  return {ExtentOf(layer.kernel_size()), ExtentOf(layer.strides()), ExtentOf(layer.dilation_rate()),
          layer.padding()};
}

template <typename Images>
Sliding PoolOfImages(const Images& layer) {
  return {ExtentOf(layer.pool_size()), ExtentOf(layer.strides()), {1, 1}, layer.padding()};
}

template <typename Sequences>
Sliding PoolOfSequences(const Sequences& layer) {
  return {{1, layer.pool_size()}, {1, layer.strides()}, {1, 1}, layer.padding()};
}

Sliding SlidingOf(const LayerSpec& spec) {
  const Conv1D& conv = spec.conv1d();
  switch (spec.kind_case()) {
    case LayerSpec::kConv2D:
      return OverImages(spec.conv2d());
    case LayerSpec::kDepthwiseConv2D:
      return OverImages(spec.depthwise_conv2d());
    case LayerSpec::kConv1D:
      return {
          {1, conv.kernel_size()}, {1, conv.strides()}, {1, conv.dilation_rate()}, conv.padding()};
    case LayerSpec::kMaxPool2D:
      return PoolOfImages(spec.max_pool2d());
    case LayerSpec::kAveragePooling2D:
      return PoolOfImages(spec.average_pooling2d());
    case LayerSpec::kMaxPool1D:
      return PoolOfSequences(spec.max_pool1d());
    case LayerSpec::kAveragePooling1D:
      return PoolOfSequences(spec.average_pooling1d());
    default:
      LOG(FATAL) << "nothing slides in " << spec.ShortDebugString();
  }
}

Extent ExtentOfImage(const Shape& shape) {
  return {shape.size() == 2 ? 1 : shape[0], shape[shape.size() - 2]};
}

// How far before the first position the first window begins.
size_t PaddingBefore(const Sliding& sliding, size_t axis, size_t input, size_t output) {
  const size_t reach = (sliding.size[axis] - 1) * sliding.dilation[axis] + 1;
  if (sliding.padding == VALID) return 0;
  if (sliding.padding == CAUSAL) return reach - 1;  // 0 along the only row of a sequence.
  const size_t covered = (output - 1) * sliding.strides[axis] + reach;
  return covered > input ? (covered - input) / 2 : 0;
}

// Calls `visit` with the pixel of the output, that of the input and the element of the window,
// each counted row by row, for all that see each other. Pixels count on from example to example.
template <typename Visit>
void ForEachMeeting(const LayerCase& c, const Visit& visit) {
  const Sliding sliding = SlidingOf(c.plan.spec);
  const Extent in = ExtentOfImage(c.plan.input()), out = ExtentOfImage(c.plan.output);
  const size_t above = PaddingBefore(sliding, 0, in[0], out[0]);
  const size_t left = PaddingBefore(sliding, 1, in[1], out[1]);
  for (size_t pixel = 0; pixel < c.batch * out[0] * out[1]; ++pixel) {
    const size_t example = pixel / (out[0] * out[1]);
    const size_t row = pixel / out[1] % out[0], column = pixel % out[1];
    for (size_t tap = 0; tap < sliding.size[0] * sliding.size[1]; ++tap) {
      const size_t down = tap / sliding.size[1], right = tap % sliding.size[1];
      const size_t y = row * sliding.strides[0] + down * sliding.dilation[0];
      const size_t x = column * sliding.strides[1] + right * sliding.dilation[1];
      if (y < above || y - above >= in[0] || x < left || x - left >= in[1]) continue;
      visit(pixel, (example * in[0] + y - above) * in[1] + x - left, tap);
    }
  }
}

// Starts with the bias.
Doubles Biases(const LayerCase& c, const Float64Values& values) {
  Doubles y(c.dy.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = values.Parameter(kBias, i % c.plan.output.back(), 0);
  return y;
}

// Kernel [taps, channels / groups, filters].
Doubles Convolved(const LayerCase& c, const Float64Values& values, size_t groups) {
  const size_t channels = c.plan.input().back(), filters = c.plan.output.back();
  const size_t seen = channels / groups;
  Doubles y = Biases(c, values);
  ForEachMeeting(c, [&](size_t to, size_t from, size_t tap) {
    for (size_t filter = 0; filter < filters; ++filter) {
      const size_t first = filter / (filters / groups) * seen;
      for (size_t i = 0; i < seen; ++i) {
        y[to * filters + filter] += values.x[0][from * channels + first + i] *
                                    values.parameters[kKernel][(tap * seen + i) * filters + filter];
      }
    }
  });
  return y;
}

// Kernel [taps, channels, multiplier].
Doubles ConvolvedByChannel(const LayerCase& c, const Float64Values& values) {
  const size_t channels = c.plan.input().back();
  const size_t multiplier = c.plan.output.back() / channels;
  Doubles y = Biases(c, values);
  ForEachMeeting(c, [&](size_t to, size_t from, size_t tap) {
    for (size_t channel = 0; channel < channels; ++channel) {
      for (size_t i = 0; i < multiplier; ++i) {
        y[(to * channels + channel) * multiplier + i] +=
            values.x[0][from * channels + channel] *
            values.parameters[kKernel][(tap * channels + channel) * multiplier + i];
      }
    }
  });
  return y;
}

Doubles LargestOfWindows(const LayerCase& c, const Doubles& x) {
  const size_t channels = c.plan.input().back();
  Doubles y(c.dy.size(), -std::numeric_limits<double>::infinity());
  ForEachMeeting(c, [&](size_t to, size_t from, size_t /*tap*/) {
    for (size_t i = 0; i < channels; ++i) {
      y[to * channels + i] = std::max(y[to * channels + i], x[from * channels + i]);
    }
  });
  return y;
}

Doubles MeansOfWindows(const LayerCase& c, const Doubles& x) {
  const size_t channels = c.plan.input().back();
  Doubles y(c.dy.size()), counts(c.dy.size());
  ForEachMeeting(c, [&](size_t to, size_t from, size_t /*tap*/) {
    for (size_t i = 0; i < channels; ++i) {
      y[to * channels + i] += x[from * channels + i];
      counts[to * channels + i] += 1;
    }
  });
  for (size_t i = 0; i < y.size(); ++i) y[i] /= counts[i];
  return y;
}

}  // namespace

Doubles Float64Windows(const LayerCase& c, const Float64Values& values) {
  switch (c.plan.spec.kind_case()) {
    case LayerSpec::kConv2D:
      return Convolved(c, values, c.plan.spec.conv2d().groups());
    case LayerSpec::kConv1D:
      return Convolved(c, values, c.plan.spec.conv1d().groups());
    case LayerSpec::kDepthwiseConv2D:
      return ConvolvedByChannel(c, values);
    case LayerSpec::kMaxPool2D:
    case LayerSpec::kMaxPool1D:
      return LargestOfWindows(c, values.x[0]);
    default:
      return MeansOfWindows(c, values.x[0]);
  }
}

}  // namespace millrace::worker
