#include "worker/device/cpu/members.h"

#include "glog/logging.h"
#include "worker/device/cpu/layers/activation.h"
#include "worker/device/cpu/layers/conv2d.h"
#include "worker/device/cpu/layers/dense.h"
#include "worker/device/cpu/layers/dropout.h"
#include "worker/device/cpu/layers/flatten.h"
#include "worker/device/cpu/layers/max_pool2d.h"
#include "worker/device/cpu/losses/binary_crossentropy.h"
#include "worker/device/cpu/losses/categorical_crossentropy.h"
#include "worker/device/cpu/losses/regression.h"
#include "worker/device/cpu/losses/sparse_categorical_crossentropy.h"

namespace millrace::worker {

std::unique_ptr<CpuLayer> MakeCpuLayer(CpuContext* context, const LayerPlan& plan, size_t index,
                                       const CpuParameters& parameters, bool input_gradient) {
  switch (plan.spec.kind_case()) {
    case LayerSpec::kDense:
      return std::make_unique<DenseLayer>(context, plan, parameters);
    case LayerSpec::kConv2D:
      return std::make_unique<Conv2DLayer>(context, plan, parameters, input_gradient);
    case LayerSpec::kMaxPool2D:
      return std::make_unique<MaxPool2DLayer>(plan);
    case LayerSpec::kFlatten:
      return std::make_unique<FlattenLayer>();
    case LayerSpec::kDropout:
      return std::make_unique<DropoutLayer>(plan, index);
    case LayerSpec::kActivation:
      return std::make_unique<ActivationLayer>(context, plan);
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "A plan without a kind: " << plan.spec.ShortDebugString();
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
