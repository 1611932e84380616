#include "worker/device/cuda/kernels/testing/float64_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "glog/logging.h"
#include "worker/device/dropout_mask.h"
#include "worker/split_mix.h"

namespace millrace::worker {

Float64Values::Float64Values(const LayerCase& c) {
  for (const auto& input : c.x) {
    const auto& from = c.one_value ? c.x[0] : input;
    x.emplace_back(from.begin(), from.end());
  }
  for (const auto& values : c.parameters) parameters.emplace_back(values.begin(), values.end());
}

namespace {

double LogisticFunction(double x) { return 1 / (1 + std::exp(-x)); }

double GeluByTanh(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Of one number.
double Float64Function(Activation function, double negative_slope, double x) {
  switch (function) {
    case LINEAR:
      return x;
    case RELU:
      return x > 0 ? x : 0;
    case SIGMOID:
      return LogisticFunction(x);
    case TANH:
      return std::tanh(x);
    case RELU6:
      return std::min(std::max(x, 0.0), 6.0);
    case ELU:
      return x > 0 ? x : std::exp(x) - 1;
    case LEAKY_RELU:
      return x > 0 ? x : negative_slope * x;
    case SILU:
      return x * LogisticFunction(x);
    case GELU:
      return x / 2 * (1 + std::erf(x / std::sqrt(2)));
    case GELU_TANH:
      return GeluByTanh(x);
    default:
      LOG(FATAL) << "no function of one number: " << Activation_Name(function);
  }
}

Doubles SoftmaxOfRows(Doubles values, size_t width) {
  for (size_t row = 0; row < values.size(); row += width) {
    double sum = 0;
    for (size_t i = row; i < row + width; ++i) sum += values[i] = std::exp(values[i]);
    for (size_t i = row; i < row + width; ++i) values[i] /= sum;
  }
  return values;
}

Doubles Activated(const LayerCase& c, Activation function, Doubles values) {
  if (function == SOFTMAX) return SoftmaxOfRows(std::move(values), c.plan.output.back());
  const double slope = c.plan.spec.activation().negative_slope();
  for (double& value : values) value = Float64Function(function, slope, value);
  return values;
}

Doubles DenseRows(const LayerCase& c, const Float64Values& values) {
  const size_t inputs = c.plan.input().back(), units = c.plan.output.back();
  const double* const kernel = values.parameters[kKernel].data();
  Doubles y(c.dy.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double* const row = values.x[0].data() + i / units * inputs;
    y[i] = values.Parameter(kBias, i % units, 0);
    for (size_t k = 0; k < inputs; ++k) y[i] += row[k] * kernel[k * units + i % units];
  }
  return y;
}

// Along all positions of each channel.
template <typename Combine>
Doubles OverPositions(const LayerCase& c, const Doubles& x, const Combine& combine) {
  const size_t channels = c.plan.output.back();
  const size_t positions = ElementCount(c.plan.input()) / channels;
  Doubles y;
  for (size_t i = 0; i < c.batch * channels; ++i) {
    const double* const first = x.data() + i / channels * positions * channels + i % channels;
    double all = first[0];
    for (size_t k = 1; k < positions; ++k) all = combine(all, first[k * channels]);
    y.push_back(all);
  }
  return y;
}

Doubles MeansOfChannels(const LayerCase& c, const Doubles& x) {
  Doubles y = OverPositions(c, x, [](double a, double b) { return a + b; });
  for (double& value : y) value /= static_cast<double>(x.size() / y.size());
  return y;
}

Doubles LargestOfChannels(const LayerCase& c, const Doubles& x) {
  return OverPositions(c, x, [](double a, double b) { return std::max(a, b); });
}

uint32_t MixOf32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352d;
  x = (x ^ (x >> 15)) * 0x846ca68b;
  return x ^ (x >> 16);
}

// As docs/protocol.md has it.
Doubles Dropped(const LayerCase& c, const Doubles& x) {
  const double rate = c.plan.spec.dropout().rate();
  const size_t elements = x.size() / c.batch;
  Doubles y = x;
  for (size_t i = 0; c.training && i < x.size(); ++i) {
    const uint64_t key = SplitMix64(SplitMix64(SplitMix64(c.seed) + c.index) + i / elements);
    const auto place = static_cast<uint32_t>(i % elements + key % (uint64_t{1} << 32));
    const bool drops =
        MixOf32(MixOf32(place) ^ static_cast<uint32_t>(key >> 32)) < DropoutThreshold(rate);
    y[i] = drops ? 0 : x[i] / (1 - rate);
  }
  return y;
}

// The place in an input's example of what is at `place` in the output's, where dimensions of 1 and
// those that it lacks are repeated.
size_t PlaceInInput(const Shape& input, const Shape& output, size_t place) {
  size_t in_input = 0, stride = 1;
  for (size_t i = 1; i <= input.size(); ++i) {
    const size_t size = input[input.size() - i], whole = output[output.size() - i];
    if (size > 1) in_input += place % whole * stride;
    place /= whole;
    stride *= size;
  }
  return in_input;
}

double MergeTwo(const LayerSpec& spec, double a, double b) {
  switch (spec.kind_case()) {
    case LayerSpec::kSubtract:
      return a - b;
    case LayerSpec::kMultiply:
      return a * b;
    case LayerSpec::kMaximum:
      return std::max(a, b);
    default:
      return a + b;
  }
}

Doubles Merged(const LayerCase& c, const Float64Values& values) {
  const size_t elements = ElementCount(c.plan.output), count = values.x.size();
  Doubles y(c.dy.size());
  for (size_t k = 0; k < count; ++k) {
    const size_t of_input = values.x[k].size() / c.batch;
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t place = PlaceInInput(c.plan.inputs[k], c.plan.output, i % elements);
      const double x = values.x[k][i / elements * of_input + place];
      y[i] = k == 0 ? x : MergeTwo(c.plan.spec, y[i], x);
    }
  }
  if (!c.plan.spec.has_average()) return y;
  for (double& value : y) value /= static_cast<double>(count);
  return y;
}

Doubles SideBySide(const LayerCase& c, const Float64Values& values) {
  const auto axis = static_cast<ptrdiff_t>(c.plan.spec.concatenate().axis()) - 1;
  const size_t rows = c.batch * ElementCount({c.plan.output.begin(), c.plan.output.begin() + axis});
  Doubles y;
  for (size_t row = 0; row < rows; ++row) {
    for (const Doubles& x : values.x) {
      const auto columns = static_cast<ptrdiff_t>(x.size() / rows);
      const auto first = x.begin() + static_cast<ptrdiff_t>(row) * columns;
      y.insert(y.end(), first, first + columns);
    }
  }
  return y;
}

Doubles Permuted(const LayerCase& c, const Doubles& x) {
  const Shape& input = c.plan.input();
  const auto& dims = c.plan.spec.permute().dims();
  const size_t elements = ElementCount(input);
  Doubles y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    Shape at(input.size());  // In the input.
    size_t rest = i % elements;
    for (size_t k = input.size(); k-- > 0; rest /= c.plan.output[k]) {
      at[dims[static_cast<int>(k)] - 1] = rest % c.plan.output[k];
    }
    size_t place = 0;
    for (size_t k = 0; k < input.size(); ++k) place = place * input[k] + at[k];
    y[i] = x[i / elements * elements + place];
  }
  return y;
}

// Images of value(example, row, column, channel).
template <typename Value>
Doubles ImagesOf(const LayerCase& c, const Value& value) {
  const Shape& shape = c.plan.output;
  Doubles y(c.dy.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t pixel = i / shape[2];
    y[i] = value(pixel / (shape[0] * shape[1]), pixel / shape[1] % shape[0], pixel % shape[1],
                 i % shape[2]);
  }
  return y;
}

Doubles Padded(const LayerCase& c, const Doubles& x) {
  const Shape& input = c.plan.input();
  const auto& padding = c.plan.spec.zero_padding2d().padding();
  const size_t above = padding[0], left = padding[2];
  return ImagesOf(c, [&](size_t example, size_t row, size_t column, size_t channel) {
    if (row < above || row - above >= input[0]) return 0.0;
    if (column < left || column - left >= input[1]) return 0.0;
    const size_t place = (example * input[0] + row - above) * input[1] + column - left;
    return x[place * input[2] + channel];
  });
}

Doubles UpSampled(const LayerCase& c, const Doubles& x) {
  const Shape& input = c.plan.input();
  const auto& size = c.plan.spec.up_sampling2d().size();
  return ImagesOf(c, [&](size_t example, size_t row, size_t column, size_t channel) {
    const size_t place = (example * input[0] + row / size[0]) * input[1] + column / size[1];
    return x[place * input[2] + channel];
  });
}

Doubles Rescaled(const Rescaling& rescaling, Doubles values) {
  for (double& value : values) value = value * rescaling.scale() + rescaling.offset();
  return values;
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

// Of `count` values, `stride` apart.
Moments MomentsOf(const double* values, size_t stride, size_t count) {
  Moments moments;
  const auto n = static_cast<double>(count);
  for (size_t i = 0; i < count; ++i) moments.mean += values[i * stride] / n;
  for (size_t i = 0; i < count; ++i) {
    moments.variance += std::pow(values[i * stride] - moments.mean, 2) / n;
  }
  return moments;
}

Moments MomentsOfChannel(const Doubles& x, size_t channel, size_t channels) {
  return MomentsOf(x.data() + channel, channels, x.size() / channels);
}

double Standardized(double x, const Moments& moments, double epsilon) {
  return (x - moments.mean) / std::sqrt(moments.variance + epsilon);
}

Doubles NormalizedChannels(const LayerCase& c, const Float64Values& values) {
  const size_t channels = c.plan.output.back();
  const double epsilon = c.plan.spec.batch_normalization().epsilon();
  Doubles y(c.dy.size());
  for (size_t channel = 0; channel < channels; ++channel) {
    const bool of_batch = c.training && c.plan.trainable;
    const Moments moments = of_batch ? MomentsOfChannel(values.x[0], channel, channels)
                                     : Moments{values.parameters[kMovingMean][channel],
                                               values.parameters[kMovingVariance][channel]};
    for (size_t i = channel; i < y.size(); i += channels) {
      y[i] = Standardized(values.x[0][i], moments, epsilon) * values.Parameter(kGamma, channel, 1) +
             values.Parameter(kBeta, channel, 0);
    }
  }
  return y;
}

Doubles NormalizedRows(const LayerCase& c, const Float64Values& values) {
  const size_t columns = c.plan.output.back();
  const double epsilon = c.plan.spec.layer_normalization().epsilon();
  Doubles y(c.dy.size());
  for (size_t row = 0; row < y.size(); row += columns) {
    const Moments moments = MomentsOf(values.x[0].data() + row, 1, columns);
    for (size_t i = 0; i < columns; ++i) {
      y[row + i] =
          Standardized(values.x[0][row + i], moments, epsilon) * values.Parameter(kGamma, i, 1) +
          values.Parameter(kBeta, i, 0);
    }
  }
  return y;
}

// The first id of a row of the output, or of the one after it.
size_t FirstId(const LayerCase& c, size_t row) {
  const size_t rows = c.dy.size() / c.plan.output.back();
  if (!c.plan.ragged) return row * c.ids.ids.size() / rows;
  return row == 0 ? 0 : c.ids.ends[row - 1];
}

Doubles RowsOfTable(const LayerCase& c, const Float64Values& values) {
  const size_t dimension = c.plan.output.back();
  const bool mean = c.plan.spec.embedding().pooling() == Embedding::MEAN;
  Doubles y(c.dy.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t begin = FirstId(c, i / dimension), end = FirstId(c, i / dimension + 1);
    for (size_t k = begin; k < end; ++k) {
      const auto row = static_cast<size_t>(c.ids.ids[k]);
      y[i] += values.parameters[kEmbeddings][row * dimension + i % dimension];
    }
    if (mean && end > begin) y[i] /= static_cast<double>(end - begin);
  }
  return y;
}

// Before any activation.
Doubles Computed(const LayerCase& c, const Float64Values& values) {
  switch (c.plan.spec.kind_case()) {
    case LayerSpec::kDense:
      return DenseRows(c, values);
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalAveragePooling1D:
      return MeansOfChannels(c, values.x[0]);
    case LayerSpec::kGlobalMaxPooling2D:
    case LayerSpec::kGlobalMaxPooling1D:
      return LargestOfChannels(c, values.x[0]);
    case LayerSpec::kDropout:
      return Dropped(c, values.x[0]);
    case LayerSpec::kActivation:
      return values.x[0];
    case LayerSpec::kAdd:
    case LayerSpec::kSubtract:
    case LayerSpec::kMultiply:
    case LayerSpec::kAverage:
    case LayerSpec::kMaximum:
      return Merged(c, values);
    case LayerSpec::kConcatenate:
      return SideBySide(c, values);
    case LayerSpec::kPermute:
      return Permuted(c, values.x[0]);
    case LayerSpec::kZeroPadding2D:
      return Padded(c, values.x[0]);
    case LayerSpec::kUpSampling2D:
      return UpSampled(c, values.x[0]);
    case LayerSpec::kRescaling:
      return Rescaled(c.plan.spec.rescaling(), values.x[0]);
    case LayerSpec::kBatchNormalization:
      return NormalizedChannels(c, values);
    case LayerSpec::kLayerNormalization:
      return NormalizedRows(c, values);
    case LayerSpec::kEmbedding:
      return RowsOfTable(c, values);
    default:
      return Float64Windows(c, values);
  }
}

}  // namespace

Doubles Float64Forward(const LayerCase& c, const Float64Values& values) {
  return Activated(c, c.then, Activated(c, LastActivation(c.plan.spec), Computed(c, values)));
}

Doubles Float64Statistics(const LayerCase& c, const Float64Values& values, size_t role) {
  const size_t channels = c.plan.output.back();
  Doubles statistics;
  for (size_t channel = 0; channel < channels; ++channel) {
    const Moments moments = MomentsOfChannel(values.x[0], channel, channels);
    statistics.push_back(role == kMovingMean ? moments.mean : moments.variance);
  }
  return statistics;
}

}  // namespace millrace::worker
