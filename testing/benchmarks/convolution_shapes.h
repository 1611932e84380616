// The convolutions that convolution_benchmark and cudnn_benchmark measure.
#ifndef MILLRACE_TESTING_BENCHMARKS_CONVOLUTION_SHAPES_H_
#define MILLRACE_TESTING_BENCHMARKS_CONVOLUTION_SHAPES_H_

#include <utility>

#include "worker/device/cuda/descriptions.h"

namespace millrace::testing {

struct ConvolutionShape {
  int images = 1;
  int side = 1;  // Of the input, which is padded as SAME.
  int channels = 1;
  int filters = 1;
  int kernel = 1;
  int stride = 1;

  int pad() const { return kernel / 2; }
  int output_side() const { return (side + stride - 1) / stride; }
};

// Seconds of one convolution each; below 0: there is none for the shape.
struct ConvolutionSeconds {
  double forward = -1;
  double data = -1;     // Back to the input.
  double weights = -1;  // The kernel's gradient.
};

// Of ResNets for CIFAR-10 (examples/resnet.py).
struct NamedConvolution {
  const char* name;
  int side, channels, filters, kernel, stride;

  ConvolutionShape Of(int images) const {
    return {images, side, channels, filters, kernel, stride};
  }
};

inline constexpr NamedConvolution kConvolutions[] = {
    {"stem", 32, 3, 16, 3, 1},          {"group 1", 32, 16, 16, 3, 1},
    {"into group 2", 32, 16, 32, 3, 2}, {"shortcut 2", 32, 16, 32, 1, 2},
    {"group 2", 16, 32, 32, 3, 1},      {"into group 3", 16, 32, 64, 3, 2},
    {"shortcut 3", 16, 32, 64, 1, 2},   {"group 3", 8, 64, 64, 3, 1},
};

struct NamedPrecision {
  cuda::Precision precision;
  const char* name;
};

inline constexpr NamedPrecision kPrecisions[] = {
    {cuda::Precision::kFloat32, "float32"},
    {cuda::Precision::kTf32, "tf32"},
    {cuda::Precision::kBfloat16, "bfloat16"},
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_BENCHMARKS_CONVOLUTION_SHAPES_H_
