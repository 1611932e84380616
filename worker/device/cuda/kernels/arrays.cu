#include "worker/device/cuda/kernels/arrays.h"
#include "worker/device/cuda/kernels/fours.h"
#include "worker/device/cuda/kernels/launch.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {
namespace {

// `part` may be `sum`.
__global__ void AddKernel(const float* part, size_t count, float* sum) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) sum[i] += part[i];
}

// The same of four at a time; at last what is left over.
__global__ void AddFoursKernel(const float* part, size_t count, float* sum) {
  const size_t fours = count / 4;
  for (size_t i = FirstElement(); i < fours; i += ElementStride()) {
    const FourFloats more = reinterpret_cast<const FourFloats*>(part)[i];
    FourFloats all = reinterpret_cast<FourFloats*>(sum)[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) all.values[k] += more.values[k];
    reinterpret_cast<FourFloats*>(sum)[i] = all;
  }
  const size_t last = 4 * fours + FirstElement();
  if (last < count) sum[last] += part[last];
}

struct SumParts {
  const float* part[kMostGpus];
  size_t count = 0;
};

// A thread reads an element of all parts before it writes it, since one of them may be `sum`.
__global__ void SumKernel(SumParts parts, size_t count, float* sum) {
  for (size_t i = FirstElement(); i < count; i += ElementStride()) {
    float all = parts.part[0][i];
    for (size_t k = 1; k < parts.count; ++k) all += parts.part[k][i];
    sum[i] = all;
  }
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
  if (!AlignedForFours(part, sum)) return LaunchFor(stream, count, AddKernel, part, count, sum);
  if (count > 0) Launch(stream, BlocksFor(count / 4), kThreads, AddFoursKernel, part, count, sum);
}

void AddUp(cudaStream_t stream, const std::vector<const float*>& parts, size_t count, float* sum) {
  SumParts all;
  all.count = parts.size();
  for (size_t i = 0; i < parts.size(); ++i) all.part[i] = parts[i];
  LaunchFor(stream, count, SumKernel, all, count, sum);
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
