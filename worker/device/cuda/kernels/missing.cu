// Layers and losses that have no kernels yet.
#include "worker/device/cuda/kernels/members.h"

namespace millrace::cuda {
namespace {

[[noreturn]] void ThrowMissing(const char* name) {
  throw Error(Error::kOther, std::string(name) + ": there are no kernels of it");
}

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const Context&, const ConvolutionDescription&) {
  ThrowMissing("convolution");
}
std::unique_ptr<Layer> MakeMaxPooling(const Context&, const MaxPoolingDescription&) {
  ThrowMissing("max pooling");
}
std::unique_ptr<Layer> MakeAveragePooling(const Context&, const AveragePoolingDescription&) {
  ThrowMissing("average pooling");
}
std::unique_ptr<Layer> MakeGlobalPooling(const Context&, const GlobalPoolingDescription&) {
  ThrowMissing("global pooling");
}
std::unique_ptr<Layer> MakeBatchNormalization(const Context&,
                                              const BatchNormalizationDescription&) {
  ThrowMissing("batch normalization");
}
std::unique_ptr<Layer> MakeLayerNormalization(const Context&,
                                              const LayerNormalizationDescription&) {
  ThrowMissing("layer normalization");
}

}  // namespace millrace::cuda
