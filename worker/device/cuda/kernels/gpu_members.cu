// The layers and losses that a GPU makes: they make its device the thread's own before they
// enqueue.
#include <utility>
#include <variant>

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
  size_t CarriedBytes(size_t batch) const override {
    Check(cudaSetDevice(gpu_), "cudaSetDevice");
    return layer_->CarriedBytes(batch);
  }
  void Prepare(size_t batch, bool training) override {
    Check(cudaSetDevice(gpu_), "cudaSetDevice");
    layer_->Prepare(batch, training);
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

}  // namespace

std::unique_ptr<Layer> CudaGpu::Make(const LayerDescription& description) {
  Use();
  return std::make_unique<LayerOnGpu>(
      index_, std::visit([this](const auto& of) { return MakeLayer(context(), of); }, description));
}

std::unique_ptr<Loss> CudaGpu::Make(const LossDescription& description) {
  Use();
  return std::make_unique<LossOnGpu>(index_, MakeLoss(context(), description));
}

}  // namespace millrace::cuda
