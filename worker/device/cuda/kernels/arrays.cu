#include "worker/device/cuda/kernels/arrays.h"
#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {
namespace {

// Sums may be of an array and itself.
__global__ void AddKernel(const float* part, size_t count, float* sum) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) sum[i] += part[i];
}

__global__ void DivideKernel(float by, size_t count, float* values) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) values[i] /= by;
}

__global__ void ToFloatsKernel(const uint8_t* __restrict__ bytes, size_t count,
                               float* __restrict__ floats) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    floats[i] = static_cast<float>(bytes[i]);
  }
}

__global__ void AddRegularizerKernel(const float* __restrict__ values, float l1, float twice_l2,
                                     size_t count, float* __restrict__ gradient) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    const float value = values[i];
    const float sign = static_cast<float>(value > 0) - static_cast<float>(value < 0);
    gradient[i] += l1 * sign + twice_l2 * value;
  }
}

}  // namespace

void Add(cudaStream_t stream, const float* part, size_t count, float* sum) {
  LaunchFor(stream, count, AddKernel, part, count, sum);
}

void Divide(cudaStream_t stream, float by, size_t count, float* values) {
  LaunchFor(stream, count, DivideKernel, by, count, values);
}

void ToFloats(cudaStream_t stream, const uint8_t* bytes, size_t count, float* floats) {
  LaunchFor(stream, count, ToFloatsKernel, bytes, count, floats);
}

void AddRegularizer(cudaStream_t stream, const float* values, float l1, float twice_l2,
                    size_t count, float* gradient) {
  LaunchFor(stream, count, AddRegularizerKernel, values, l1, twice_l2, count, gradient);
}

}  // namespace millrace::cuda
