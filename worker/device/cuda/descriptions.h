// Layers and losses as the CUDA library takes them: sizes and numbers alone, since the library
// shares no code with the worker (see library.h). worker/device/cuda/describe.h makes them of
// plans.
//
// Values are dense and row-major, the batch first and channels last, as on the CPU; sizes are of
// one example. `variables` are indices into ModelPlan::variables by role
// (worker/model/layer_plan.h), -1 where the layer has none, and name the gradients that it
// finishes.
#ifndef MILLRACE_WORKER_DEVICE_CUDA_DESCRIPTIONS_H_
#define MILLRACE_WORKER_DEVICE_CUDA_DESCRIPTIONS_H_

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

namespace millrace::cuda {

// What factors of products are rounded to; as PrecisionSpec in protos/job.proto.
enum class Precision { kFloat32, kTf32, kBfloat16 };

// As Activation in protos/model.proto.
enum class Function {
  kLinear,
  kRelu,
  kSigmoid,
  kSoftmax,
  kTanh,
  kRelu6,
  kElu,
  kLeakyRelu,
  kSilu,
  kGelu,
  kGeluTanh,
};

// y = function(x kernel + bias), of each row along the last dimension of x. Kernel [inputs, units].
struct DenseDescription {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t units = 0;
  Function function = Function::kLinear;  // One whose gradient follows from y.
  std::array<int, 2> variables = {-1, -1};
  bool trained = false;
  Precision precision = Precision::kFloat32;
  bool narrow_input = false;   // x and dx are of bfloat16. REQUIRES: kBfloat16.
  bool narrow_output = false;  // y and dy are. REQUIRES: kBfloat16, and kLinear or kRelu.
};

// What slides over images in a convolution or a pooling. Pairs are height and width.
struct WindowDescription {
  std::array<int64_t, 3> input = {};  // [height, width, channels]
  std::array<int64_t, 3> output = {};
  std::array<int64_t, 2> size = {};
  std::array<int64_t, 2> strides = {};
  std::array<int64_t, 2> dilation = {};
  std::array<int64_t, 2> pad_before = {};  // Positions outside the image that the first one covers.
  int64_t groups = 1;                      // Of the channels, for a convolution.
};

// Kernel [height, width, input channels / groups, output channels]. A depthwise convolution has as
// many groups as channels; its kernel [height, width, channels, multiplier] stands in memory as
// [height, width, 1, channels * multiplier], and its factors are not rounded.
struct ConvolutionDescription {
  WindowDescription window;
  Function function = Function::kLinear;  // One whose gradient follows from y.
  std::array<int, 2> variables = {-1, -1};
  bool trained = false;
  Precision precision = Precision::kFloat32;
};

struct MaxPoolingDescription {
  WindowDescription window;
};

// Padding does not count.
struct AveragePoolingDescription {
  WindowDescription window;
};

// Over all positions of each channel.
struct GlobalPoolingDescription {
  int64_t positions = 0;
  int64_t channels = 0;
  bool largest = false;  // Otherwise the mean.
};

struct ActivationDescription {
  Function function = Function::kLinear;
  float negative_slope = 0;  // Of kLeakyRelu.
  int64_t rows = 0;
  int64_t columns = 0;  // The last dimension.
};

struct DropoutDescription {
  uint64_t layer = 0;      // Its index in the model.
  uint32_t threshold = 0;  // Hashes below it are dropped.
  float scale = 1;         // Of what is kept.
  int64_t elements = 0;
};

enum class MergeKind { kAdd, kSubtract, kMultiply, kAverage, kMaximum };

struct MergeDescription {
  MergeKind kind = MergeKind::kAdd;
  std::vector<int64_t> output;  // Its dimensions, without the batch.
  // Of each input, for each of these dimensions: how far apart two neighbours are in the input, in
  // elements; 0: they are one, which is repeated.
  std::vector<std::vector<int64_t>> strides;
  std::vector<int64_t> elements;  // Of each input.
  bool relu = false;              // Of a sum of two of one shape: what is below 0 becomes 0.
};

// Inputs one after the other in each row.
struct ConcatenateDescription {
  int64_t rows = 0;
  std::vector<int64_t> columns;  // Of each input.
};

// y[i0, i1, ...] = x[i0 * strides[0] + i1 * strides[1] + ...].
struct PermuteDescription {
  std::vector<int64_t> output;
  std::vector<int64_t> strides;
};

struct ZeroPaddingDescription {
  std::array<int64_t, 3> input = {};  // [height, width, channels]
  std::array<int64_t, 3> output = {};
  int64_t above = 0;
  int64_t left = 0;
};

struct UpSamplingDescription {
  std::array<int64_t, 3> input = {};
  std::array<int64_t, 2> size = {};  // Times.
};

// x * scale + offset.
struct RescalingDescription {
  float scale = 1;
  float offset = 0;
  int64_t elements = 0;
};

struct BatchNormalizationDescription {
  int64_t rows = 0;
  int64_t channels = 0;
  float epsilon = 0;
  bool relu = false;  // Of what comes out, what is below 0 becomes 0.
  std::array<int, 4> variables = {-1, -1, -1, -1};
  bool trained = false;
};

struct LayerNormalizationDescription {
  int64_t rows = 0;
  int64_t columns = 0;
  float epsilon = 0;
  std::array<int, 2> variables = {-1, -1};
  bool trained = false;
};

// Rows of a table. Each of the output is one row of it, or the sum or mean of several.
struct EmbeddingDescription {
  int feature = 0;      // Which of Pass::ids.
  int64_t rows = 0;     // Of the output.
  int64_t ids = 1;      // For each row, if not ragged.
  bool ragged = false;  // The feature says how many.
  bool mean = false;    // Otherwise the sum; of no ids 0.
  int64_t dimension = 0;
  int64_t table_rows = 0;
  int variable = -1;
  bool trained = false;
};

using LayerDescription =
    std::variant<DenseDescription, ConvolutionDescription, MaxPoolingDescription,
                 AveragePoolingDescription, GlobalPoolingDescription, ActivationDescription,
                 DropoutDescription, MergeDescription, ConcatenateDescription, PermuteDescription,
                 ZeroPaddingDescription, UpSamplingDescription, RescalingDescription,
                 BatchNormalizationDescription, LayerNormalizationDescription,
                 EmbeddingDescription>;

enum class LossKind {
  kSparseCategoricalCrossentropy,
  kCategoricalCrossentropy,
  kBinaryCrossentropy,
  kMeanSquaredError,
  kMeanAbsoluteError,
  kHuber,
};

struct LossDescription {
  LossKind kind = LossKind::kSparseCategoricalCrossentropy;
  double label_smoothing = 0;
  double huber_delta = 1;
  int64_t width = 0;  // Numbers of the output for each example.
  double scale = 1;   // What the gradient is multiplied by.
};

}  // namespace millrace::cuda

#endif  // MILLRACE_WORKER_DEVICE_CUDA_DESCRIPTIONS_H_
