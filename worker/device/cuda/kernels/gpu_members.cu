// The layers and losses that a GPU makes: they make its device the thread's own before they
// enqueue.
#include <utility>

#include "worker/device/cuda/kernels/gpu.h"
#include "worker/device/cuda/kernels/launch.h"

namespace millrace::cuda {
namespace {

class LayerOnGpu final : public Layer {
 public:
  LayerOnGpu(int gpu, std::unique_ptr<Layer> layer) : gpu_(gpu), layer_(std::move(layer)) {}

  size_t WorkspaceBytes(size_t batch) const override {
    Check(cudaSetDevice(gpu_), "cudaSetDevice");
    return layer_->WorkspaceBytes(batch);
  }
  void Forward(const Pass& pass, const float* const* x, float* y) override {
    Check(cudaSetDevice(gpu_), "cudaSetDevice");
    layer_->Forward(pass, x, y);
  }
  void Backward(const Pass& pass, const float* const* x, const float* y, float* dy,
                float* const* dx) override {
    Check(cudaSetDevice(gpu_), "cudaSetDevice");
    layer_->Backward(pass, x, y, dy, dx);
  }

 private:
  const int gpu_;
  const std::unique_ptr<Layer> layer_;
};

class LossOnGpu final : public Loss {
 public:
  LossOnGpu(int gpu, std::unique_ptr<Loss> loss) : gpu_(gpu), loss_(std::move(loss)) {}

  void Compute(const LossPass& pass) override {
    Check(cudaSetDevice(gpu_), "cudaSetDevice");
    loss_->Compute(pass);
  }

 private:
  const int gpu_;
  const std::unique_ptr<Loss> loss_;
};

template <typename Description>
std::unique_ptr<Layer> MakeOnGpu(int gpu, const Context& context, const Description& description,
                                 std::unique_ptr<Layer> (*make)(const Context&,
                                                                const Description&)) {
  Check(cudaSetDevice(gpu), "cudaSetDevice");
  return std::make_unique<LayerOnGpu>(gpu, make(context, description));
}

}  // namespace

std::unique_ptr<Layer> CudaGpu::Make(const DenseDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeDense);
}

std::unique_ptr<Layer> CudaGpu::Make(const ConvolutionDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeConvolution);
}

std::unique_ptr<Layer> CudaGpu::Make(const MaxPoolingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeMaxPooling);
}

std::unique_ptr<Layer> CudaGpu::Make(const AveragePoolingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeAveragePooling);
}

std::unique_ptr<Layer> CudaGpu::Make(const GlobalPoolingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeGlobalPooling);
}

std::unique_ptr<Layer> CudaGpu::Make(const ActivationDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeActivation);
}

std::unique_ptr<Layer> CudaGpu::Make(const DropoutDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeDropout);
}

std::unique_ptr<Layer> CudaGpu::Make(const MergeDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeMerge);
}

std::unique_ptr<Layer> CudaGpu::Make(const ConcatenateDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeConcatenate);
}

std::unique_ptr<Layer> CudaGpu::Make(const PermuteDescription& description) {
  return MakeOnGpu(index_, context(), description, MakePermute);
}

std::unique_ptr<Layer> CudaGpu::Make(const ZeroPaddingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeZeroPadding);
}

std::unique_ptr<Layer> CudaGpu::Make(const UpSamplingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeUpSampling);
}

std::unique_ptr<Layer> CudaGpu::Make(const RescalingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeRescaling);
}

std::unique_ptr<Layer> CudaGpu::Make(const BatchNormalizationDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeBatchNormalization);
}

std::unique_ptr<Layer> CudaGpu::Make(const LayerNormalizationDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeLayerNormalization);
}

std::unique_ptr<Layer> CudaGpu::Make(const EmbeddingDescription& description) {
  return MakeOnGpu(index_, context(), description, MakeEmbedding);
}

std::unique_ptr<Loss> CudaGpu::Make(const LossDescription& description) {
  Use();
  return std::make_unique<LossOnGpu>(index_, MakeLoss(context(), description));
}

}  // namespace millrace::cuda
