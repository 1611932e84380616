#include "worker/device/cuda/describe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "glog/logging.h"
#include "worker/device/cuda/cuda_ids.h"
#include "worker/device/dropout_mask.h"
#include "worker/model/image_window.h"

namespace millrace::worker {
namespace {

int64_t Elements(const Shape& shape) { return static_cast<int64_t>(ElementCount(shape)); }

// Of an example, counting the last dimension as one.
int64_t Rows(const Shape& shape) { return Elements(shape) / static_cast<int64_t>(shape.back()); }

std::vector<int64_t> Dimensions(const Shape& shape) { return {shape.begin(), shape.end()}; }

template <size_t n>
std::array<int64_t, n> Dimensions(const Shape& shape) {
  std::array<int64_t, n> dimensions;
  std::copy_n(shape.begin(), n, dimensions.begin());
  return dimensions;
}

template <size_t n>
std::array<int, n> Variables(const LayerPlan& plan) {
  std::array<int, n> variables;
  for (size_t i = 0; i < n; ++i) variables[i] = plan.variable(i);
  return variables;
}

// REQUIRES: one that JobSpec's check knows.
cuda::Function FunctionOf(Activation activation) {
  switch (activation) {
    case LINEAR:
      return cuda::Function::kLinear;
    case RELU:
      return cuda::Function::kRelu;
    case SIGMOID:
      return cuda::Function::kSigmoid;
    case SOFTMAX:
      return cuda::Function::kSoftmax;
    case TANH:
      return cuda::Function::kTanh;
    case RELU6:
      return cuda::Function::kRelu6;
    case ELU:
      return cuda::Function::kElu;
    case LEAKY_RELU:
      return cuda::Function::kLeakyRelu;
    case SILU:
      return cuda::Function::kSilu;
    case GELU:
      return cuda::Function::kGelu;
    case GELU_TANH:
      return cuda::Function::kGeluTanh;
    default:
      LOG(FATAL) << "no function for the activation " << Activation_Name(activation);
  }
}

std::array<int64_t, 2> Pair(const std::array<uint64_t, 2>& pair) {
  return {static_cast<int64_t>(pair[0]), static_cast<int64_t>(pair[1])};
}

cuda::WindowDescription DescribeWindow(const LayerPlan& plan) {
  const ImageWindow window = ImageWindowOf(plan);
  cuda::WindowDescription description;
  description.input = Dimensions<3>(window.input);
  description.output = Dimensions<3>(window.output);
  description.size = Pair(window.size);
  description.strides = Pair(window.strides);
  description.dilation = Pair(window.dilation);
  for (size_t axis = 0; axis < 2; ++axis) {
    description.pad_before[axis] = static_cast<int64_t>(PlaceWindows(window, axis).pad_before);
  }
  description.groups = static_cast<int64_t>(window.groups);
  return description;
}

cuda::DenseDescription DescribeDense(const LayerPlan& plan, const ForwardStep& step,
                                     cuda::Precision precision) {
  cuda::DenseDescription description;
  description.rows = Rows(plan.input());
  description.inputs = static_cast<int64_t>(plan.input().back());
  description.units = static_cast<int64_t>(plan.output.back());
  description.function = FunctionOf(LastActivation(plan.spec));
  description.variables = Variables<2>(plan);
  description.trained = IsTrained(plan);
  description.precision = precision;
  description.narrow_input = step.narrow_input;
  description.narrow_output = step.narrow_output;
  return description;
}

cuda::ConvolutionDescription DescribeConvolution(const LayerPlan& plan, cuda::Precision precision) {
  cuda::ConvolutionDescription description;
  description.window = DescribeWindow(plan);
  description.function = FunctionOf(LastActivation(plan.spec));
  description.variables = Variables<2>(plan);
  description.trained = IsTrained(plan);
  description.precision = precision;
  return description;
}

cuda::GlobalPoolingDescription DescribeGlobalPooling(const LayerPlan& plan, bool largest) {
  return {Rows(plan.input()), static_cast<int64_t>(plan.input().back()), largest};
}

cuda::ActivationDescription DescribeActivation(const LayerPlan& plan) {
  cuda::ActivationDescription description;
  const ActivationLayer& activation = plan.spec.activation();
  description.function = FunctionOf(activation.function());
  description.negative_slope = static_cast<float>(activation.negative_slope());
  description.rows = Rows(plan.input());
  description.columns = static_cast<int64_t>(plan.input().back());
  return description;
}

cuda::DropoutDescription DescribeDropout(const LayerPlan& plan, size_t index) {
  const double rate = plan.spec.dropout().rate();
  return {index, DropoutThreshold(rate), DropoutScale(rate), Elements(plan.input())};
}

// For each dimension of the output; see Broadcasts. Inputs end with the output's last dimension.
std::vector<int64_t> MergeStrides(const Shape& input, const Shape& output, bool broadcasts) {
  const Shape& seen = broadcasts ? input : output;  // Or it has them in another shape.
  std::vector<int64_t> strides(output.size());
  int64_t stride = 1;
  for (size_t i = 1; i <= seen.size(); ++i) {
    const int64_t size = static_cast<int64_t>(seen[seen.size() - i]);
    const bool repeated = seen[seen.size() - i] != output[output.size() - i];
    strides[output.size() - i] = repeated ? 0 : stride;
    stride *= size;
  }
  return strides;
}

cuda::MergeDescription DescribeMerge(const LayerPlan& plan, cuda::MergeKind kind,
                                     bool relu = false) {
  cuda::MergeDescription description;
  description.relu = relu;
  description.kind = kind;
  description.output = Dimensions(plan.output);
  for (const Shape& input : plan.inputs) {
    description.strides.push_back(MergeStrides(input, plan.output, Broadcasts(plan)));
    description.elements.push_back(Elements(input));
  }
  return description;
}

cuda::ConcatenateDescription DescribeConcatenate(const LayerPlan& plan) {
  const auto axis = static_cast<ptrdiff_t>(plan.spec.concatenate().axis()) - 1;
  cuda::ConcatenateDescription description;
  description.rows = Elements({plan.output.begin(), plan.output.begin() + axis});
  for (const Shape& input : plan.inputs) {
    description.columns.push_back(Elements({input.begin() + axis, input.end()}));
  }
  return description;
}

cuda::PermuteDescription DescribePermute(const LayerPlan& plan) {
  cuda::PermuteDescription description;
  description.output = Dimensions(plan.output);
  const Shape& input = plan.input();
  for (const int32_t dim : plan.spec.permute().dims()) {
    description.strides.push_back(Elements({input.begin() + dim, input.end()}));
  }
  return description;
}

cuda::ZeroPaddingDescription DescribeZeroPadding(const LayerPlan& plan) {
  cuda::ZeroPaddingDescription description;
  description.input = Dimensions<3>(plan.input());
  description.output = Dimensions<3>(plan.output);
  description.above = plan.spec.zero_padding2d().padding(0);
  description.left = plan.spec.zero_padding2d().padding(2);
  return description;
}

cuda::UpSamplingDescription DescribeUpSampling(const LayerPlan& plan) {
  const auto& size = plan.spec.up_sampling2d().size();
  return {Dimensions<3>(plan.input()), {size[0], size[1]}};
}

cuda::RescalingDescription DescribeRescaling(const LayerPlan& plan) {
  const Rescaling& rescaling = plan.spec.rescaling();
  return {static_cast<float>(rescaling.scale()), static_cast<float>(rescaling.offset()),
          Elements(plan.input())};
}

cuda::BatchNormalizationDescription DescribeBatchNormalization(const LayerPlan& plan, bool relu) {
  cuda::BatchNormalizationDescription description;
  description.relu = relu;
  description.rows = Rows(plan.input());
  description.channels = static_cast<int64_t>(plan.input().back());
  description.epsilon = static_cast<float>(plan.spec.batch_normalization().epsilon());
  description.variables = Variables<4>(plan);
  description.trained = IsTrained(plan);
  return description;
}

cuda::LayerNormalizationDescription DescribeLayerNormalization(const LayerPlan& plan) {
  cuda::LayerNormalizationDescription description;
  description.rows = Rows(plan.input());
  description.columns = static_cast<int64_t>(plan.input().back());
  description.epsilon = static_cast<float>(plan.spec.layer_normalization().epsilon());
  description.variables = Variables<2>(plan);
  description.trained = IsTrained(plan);
  return description;
}

cuda::EmbeddingDescription DescribeEmbedding(const LayerPlan& plan) {
  const Embedding& embedding = plan.spec.embedding();
  const bool pooled = embedding.pooling() != Embedding::NONE;
  cuda::EmbeddingDescription description;
  description.feature = static_cast<int>(IdSlot(plan.sources.front().index, pooled));
  description.rows = Rows(plan.output);
  description.ids = pooled && !plan.ragged ? Elements(plan.input()) : 1;
  description.ragged = plan.ragged;
  description.mean = embedding.pooling() == Embedding::MEAN;
  description.dimension = embedding.output_dim();
  description.table_rows = embedding.input_dim();
  description.variable = plan.variable(kEmbeddings);
  description.trained = IsTrained(plan);
  return description;
}

cuda::LossKind LossKindOf(Loss loss) {
  switch (loss) {
    case SPARSE_CATEGORICAL_CROSSENTROPY:
      return cuda::LossKind::kSparseCategoricalCrossentropy;
    case CATEGORICAL_CROSSENTROPY:
      return cuda::LossKind::kCategoricalCrossentropy;
    case BINARY_CROSSENTROPY:
      return cuda::LossKind::kBinaryCrossentropy;
    case MEAN_SQUARED_ERROR:
      return cuda::LossKind::kMeanSquaredError;
    case MEAN_ABSOLUTE_ERROR:
      return cuda::LossKind::kMeanAbsoluteError;
    case HUBER:
      return cuda::LossKind::kHuber;
    default:
      break;
  }
  LOG(FATAL) << "A plan without a loss: " << static_cast<int>(loss);
  return cuda::LossKind::kHuber;
}

}  // namespace

cuda::Precision PrecisionOf(PrecisionSpec::Compute compute) {
  switch (compute) {
    case PrecisionSpec::TF32:
      return cuda::Precision::kTf32;
    case PrecisionSpec::BFLOAT16:
      return cuda::Precision::kBfloat16;
    default:
      return cuda::Precision::kFloat32;
  }
}

std::unique_ptr<cuda::Layer> MakeCudaLayer(cuda::Gpu* gpu, const LayerPlan& plan,
                                           const ForwardStep& step, cuda::Precision precision) {
  switch (plan.spec.kind_case()) {
    case LayerSpec::kDense:
      return gpu->Make(DescribeDense(plan, step, precision));
    case LayerSpec::kConv2D:
    case LayerSpec::kDepthwiseConv2D:
    case LayerSpec::kConv1D:
      return gpu->Make(DescribeConvolution(plan, precision));
    case LayerSpec::kMaxPool2D:
    case LayerSpec::kMaxPool1D:
      return gpu->Make(cuda::MaxPoolingDescription{DescribeWindow(plan)});
    case LayerSpec::kAveragePooling2D:
    case LayerSpec::kAveragePooling1D:
      return gpu->Make(cuda::AveragePoolingDescription{DescribeWindow(plan)});
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalAveragePooling1D:
      return gpu->Make(DescribeGlobalPooling(plan, /*largest=*/false));
    case LayerSpec::kGlobalMaxPooling2D:
    case LayerSpec::kGlobalMaxPooling1D:
      return gpu->Make(DescribeGlobalPooling(plan, /*largest=*/true));
    case LayerSpec::kDropout:
      return gpu->Make(DescribeDropout(plan, step.layer));
    case LayerSpec::kActivation:
      return gpu->Make(DescribeActivation(plan));
    case LayerSpec::kAdd:
      return gpu->Make(DescribeMerge(plan, cuda::MergeKind::kAdd, step.then == RELU));
    case LayerSpec::kSubtract:
      return gpu->Make(DescribeMerge(plan, cuda::MergeKind::kSubtract));
    case LayerSpec::kMultiply:
      return gpu->Make(DescribeMerge(plan, cuda::MergeKind::kMultiply));
    case LayerSpec::kAverage:
      return gpu->Make(DescribeMerge(plan, cuda::MergeKind::kAverage));
    case LayerSpec::kMaximum:
      return gpu->Make(DescribeMerge(plan, cuda::MergeKind::kMaximum));
    case LayerSpec::kConcatenate:
      return gpu->Make(DescribeConcatenate(plan));
    case LayerSpec::kPermute:
      return gpu->Make(DescribePermute(plan));
    case LayerSpec::kZeroPadding2D:
      return gpu->Make(DescribeZeroPadding(plan));
    case LayerSpec::kUpSampling2D:
      return gpu->Make(DescribeUpSampling(plan));
    case LayerSpec::kRescaling:
      return gpu->Make(DescribeRescaling(plan));
    case LayerSpec::kBatchNormalization:
      return gpu->Make(DescribeBatchNormalization(plan, step.then == RELU));
    case LayerSpec::kLayerNormalization:
      return gpu->Make(DescribeLayerNormalization(plan));
    case LayerSpec::kEmbedding:
      return gpu->Make(DescribeEmbedding(plan));
    case LayerSpec::kFlatten:
    case LayerSpec::kReshape:
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "Nothing computes " << plan.spec.ShortDebugString();
  return nullptr;
}

std::unique_ptr<cuda::Loss> MakeCudaLoss(cuda::Gpu* gpu, const OutputPlan& output) {
  cuda::LossDescription description;
  description.kind = LossKindOf(output.loss);
  description.label_smoothing = output.label_smoothing;
  description.huber_delta = output.huber_delta;
  description.width = static_cast<int64_t>(output.width);
  description.scale = output.weight;
  return gpu->Make(description);
}

}  // namespace millrace::worker
