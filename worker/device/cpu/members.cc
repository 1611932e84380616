#include "worker/device/cpu/members.h"

#include "glog/logging.h"
#include "worker/device/cpu/layers/activation.h"
#include "worker/device/cpu/layers/add.h"
#include "worker/device/cpu/layers/average_pooling2d.h"
#include "worker/device/cpu/layers/batch_normalization.h"
#include "worker/device/cpu/layers/broadcast.h"
#include "worker/device/cpu/layers/concatenate.h"
#include "worker/device/cpu/layers/conv2d.h"
#include "worker/device/cpu/layers/dense.h"
#include "worker/device/cpu/layers/dropout.h"
#include "worker/device/cpu/layers/embedding.h"
#include "worker/device/cpu/layers/global_average_pooling2d.h"
#include "worker/device/cpu/layers/global_max_pooling2d.h"
#include "worker/device/cpu/layers/layer_normalization.h"
#include "worker/device/cpu/layers/max_pool2d.h"
#include "worker/device/cpu/layers/merge.h"
#include "worker/device/cpu/layers/permute.h"
#include "worker/device/cpu/layers/rescaling.h"
#include "worker/device/cpu/layers/resize.h"
#include "worker/device/cpu/losses/binary_crossentropy.h"
#include "worker/device/cpu/losses/categorical_crossentropy.h"
#include "worker/device/cpu/losses/regression.h"
#include "worker/device/cpu/losses/sparse_categorical_crossentropy.h"
#include "worker/model/image_window.h"
#include "worker/model/layer_traits.h"

namespace millrace::worker {
namespace {

template <typename Merge>
std::unique_ptr<CpuLayer> MakeMerge(const LayerPlan& plan) {
  if (!Broadcasts(plan)) return std::make_unique<Merge>(ElementCount(plan.output));
  return std::make_unique<BroadcastLayer>(plan, std::make_unique<Merge>(/*elements=*/1));
}

}  // namespace

std::unique_ptr<CpuLayer> MakeCpuLayer(CpuContext* context, const LayerPlan& plan, size_t index,
                                       const CpuParameters& parameters, bool input_gradient) {
  switch (plan.spec.kind_case()) {
    case LayerSpec::kDense:
      return std::make_unique<DenseLayer>(context, plan, parameters);
    case LayerSpec::kConv2D:
    case LayerSpec::kDepthwiseConv2D:
    case LayerSpec::kConv1D:
      return std::make_unique<Conv2DLayer>(context, plan, parameters, input_gradient);
    case LayerSpec::kMaxPool2D:
    case LayerSpec::kMaxPool1D:
      return std::make_unique<MaxPool2DLayer>(ImageWindowOf(plan));
    case LayerSpec::kDropout:
      return std::make_unique<DropoutLayer>(plan, index);
    case LayerSpec::kActivation:
      if (TraitsOf(plan).keeps_inputs) return std::make_unique<SmoothActivationLayer>(plan);
      return std::make_unique<ActivationLayer>(context, plan);
    case LayerSpec::kAdd:
      return MakeMerge<AddLayer>(plan);
    case LayerSpec::kConcatenate:
      return std::make_unique<ConcatenateLayer>(plan);
    case LayerSpec::kBatchNormalization:
      return std::make_unique<BatchNormalizationLayer>(context, plan, parameters);
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalAveragePooling1D:
      return std::make_unique<GlobalAveragePooling2DLayer>(plan);
    case LayerSpec::kAveragePooling2D:
    case LayerSpec::kAveragePooling1D:
      return std::make_unique<AveragePooling2DLayer>(ImageWindowOf(plan));
    case LayerSpec::kGlobalMaxPooling2D:
    case LayerSpec::kGlobalMaxPooling1D:
      return std::make_unique<GlobalMaxPooling2DLayer>(plan);
    case LayerSpec::kZeroPadding2D:
      return std::make_unique<ZeroPadding2DLayer>(plan);
    case LayerSpec::kUpSampling2D:
      return std::make_unique<UpSampling2DLayer>(plan);
    case LayerSpec::kSubtract:
      return MakeMerge<SubtractLayer>(plan);
    case LayerSpec::kMultiply:
      return MakeMerge<MultiplyLayer>(plan);
    case LayerSpec::kAverage:
      return MakeMerge<AverageLayer>(plan);
    case LayerSpec::kMaximum:
      return MakeMerge<MaximumLayer>(plan);
    case LayerSpec::kPermute:
      return std::make_unique<PermuteLayer>(plan);
    case LayerSpec::kRescaling:
      return std::make_unique<RescalingLayer>(plan);
    case LayerSpec::kLayerNormalization:
      return std::make_unique<LayerNormalizationLayer>(plan, parameters);
    case LayerSpec::kEmbedding:
      return std::make_unique<EmbeddingLayer>(plan, parameters);
    case LayerSpec::kFlatten:
    case LayerSpec::kReshape:
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "Nothing computes " << plan.spec.ShortDebugString();
  return nullptr;
}

std::unique_ptr<CpuLoss> MakeCpuLoss(const OutputPlan& output) {
  switch (output.loss) {
    case SPARSE_CATEGORICAL_CROSSENTROPY:
      return std::make_unique<SparseCategoricalCrossentropyLoss>();
    case CATEGORICAL_CROSSENTROPY:
      return std::make_unique<CategoricalCrossentropyLoss>(output.label_smoothing);
    case BINARY_CROSSENTROPY:
      return std::make_unique<BinaryCrossentropyLoss>(output.label_smoothing);
    case MEAN_SQUARED_ERROR:
      return std::make_unique<MeanSquaredErrorLoss>();
    case MEAN_ABSOLUTE_ERROR:
      return std::make_unique<MeanAbsoluteErrorLoss>();
    case HUBER:
      return std::make_unique<HuberLoss>(output.huber_delta);
    default:
      break;
  }
  LOG(FATAL) << "A plan without a loss: " << static_cast<int>(output.loss);
  return nullptr;
}

}  // namespace millrace::worker
