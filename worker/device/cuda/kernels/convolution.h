// The products that convolutions are made of. All enqueue work; images have their channels last,
// kernels are [height, width, channels / groups, filters]. Temporary memory is given in bytes for a
// batch of so many images.
//
// Convolutions in which each channel is a group go through kernels of their own: a tile of a
// product would have one channel's filters alone. These compute in float32, whatever the precision.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CONVOLUTION_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CONVOLUTION_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/kernels/windows.h"

namespace millrace::cuda {

// y = x convolved with the kernel, plus bias unless that is null, and of that what is below 0
// becomes 0, if `relu`.
struct ConvolutionForward {
  int64_t batch = 0;
  const float* x = nullptr;
  const float* kernel = nullptr;
  const float* bias = nullptr;
  bool relu = false;
  float* y = nullptr;
  Precision precision = Precision::kFloat32;
};
void Convolve(cudaStream_t stream, const Windows& windows, const ConvolutionForward& forward);
void ConvolveDepthwise(cudaStream_t stream, const Windows& windows,
                       const ConvolutionForward& forward);

// dx from dy.
struct InputGradient {
  int64_t batch = 0;
  const float* dy = nullptr;
  const float* kernel = nullptr;
  float* dx = nullptr;
  Precision precision = Precision::kFloat32;
};
void ConvolveBack(cudaStream_t stream, const Windows& windows, const InputGradient& gradient);
void ConvolveDepthwiseBack(cudaStream_t stream, const Windows& windows,
                           const InputGradient& gradient);

// The same of shapes that convolution_images.cu has kernels for: the functions above ask these
// first. Others: false, and nothing is enqueued. REQUIRES: the batch is not empty.
bool ConvolveImages(cudaStream_t stream, const Windows& windows, const ConvolutionForward& forward);
bool ConvolveImagesBack(cudaStream_t stream, const Windows& windows, const InputGradient& gradient);

// The kernel's gradient from x and dy. The sum over the positions of all images is cut into as many
// parts as the shapes say; they are summed up one by one in the workspace, and then with each
// other.
struct KernelGradient {
  int64_t batch = 0;
  const float* x = nullptr;
  const float* dy = nullptr;
  float* kernel = nullptr;
  void* workspace = nullptr;
  Precision precision = Precision::kFloat32;
};
size_t KernelGradientBytes(const Windows& windows, int64_t batch);
void SumKernelGradient(cudaStream_t stream, const Windows& windows, const KernelGradient& gradient);
size_t DepthwiseKernelGradientBytes(const Windows& windows, int64_t batch);
void SumDepthwiseKernelGradient(cudaStream_t stream, const Windows& windows,
                                const KernelGradient& gradient);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_CONVOLUTION_H_
