// The layers and losses of the CUDA library, a file for each kind.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_KERNELS_MEMBERS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_KERNELS_MEMBERS_H_

#include <cuda_runtime.h>

#include <memory>

#include "worker/device/cuda/descriptions.h"
#include "worker/device/cuda/library.h"

namespace millrace::cuda {

class Products;

// What the layers of one GPU share; outlives them.
struct Context {
  cudaStream_t stream = nullptr;  // The compute stream.
  Products* products = nullptr;   // Matrix products.
  bool deterministic = true;      // As GpuOptions.
};

std::unique_ptr<Layer> MakeLayer(const Context& context, const DenseDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const ConvolutionDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const MaxPoolingDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const AveragePoolingDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const GlobalPoolingDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const ActivationDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const DropoutDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const MergeDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const ConcatenateDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const PermuteDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const ZeroPaddingDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const UpSamplingDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const RescalingDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const BatchNormalizationDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context,
                                 const LayerNormalizationDescription& description);
std::unique_ptr<Layer> MakeLayer(const Context& context, const EmbeddingDescription& description);
std::unique_ptr<Loss> MakeLoss(const Context& context, const LossDescription& description);

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_KERNELS_MEMBERS_H_
