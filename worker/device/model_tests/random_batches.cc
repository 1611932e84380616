// DrawValues and DrawBatch of random_models.h.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "worker/device/model_tests/random_models.h"
#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

class Drawer {
 public:
  explicit Drawer(const Drawing& drawing)
      : drawing_(drawing), choices_(drawing.seed), shakes_(drawing.seed + 1) {}

  // In [-1, 1].
  float Number() {
    const float whole = static_cast<float>(choices_.From(0, 8)) / 4 - 1;
    const float number = drawing_.coarse ? whole : choices_.Uniform();
    return Shaken(number);
  }

  float Shaken(float number) {
    const double factor = 1 + drawing_.shake * shakes_.Uniform();
    return static_cast<float>(number * factor);
  }

  std::vector<float> Numbers(size_t count) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = Number();
    return numbers;
  }

  std::vector<float> ValuesOf(const VariableSpec& variable) {
    const Shape shape(variable.shape().begin(), variable.shape().end());
    std::vector<float> values = Numbers(ElementCount(shape));
    const bool is_table = absl::EndsWith(variable.name(), "/embeddings");
    const double inputs =
        static_cast<double>(ElementCount(shape)) / static_cast<double>(shape.back());
    const bool is_kernel = shape.size() > 1 && !is_table;
    // A power of 2, so that coarse ones stay few.
    const double scale = is_kernel ? std::exp2(std::round(std::log2(std::sqrt(3 / inputs)))) : 0.5;
    for (float& value : values) value *= static_cast<float>(scale);
    if (absl::EndsWith(variable.name(), "/gamma")) {
      for (float& value : values) value += 1;
    }
    if (absl::EndsWith(variable.name(), "/moving_variance")) {
      for (float& value : values) value = std::abs(value) + 0.5f;
    }
    return values;
  }

  Tensor FeatureOf(const TensorSpec& feature, size_t size) {
    const size_t count = size * ElementCount(feature.shape);
    Tensor tensor;
    switch (feature.type) {
      case ElementType::kFloat:
        tensor.floats = Numbers(count);
        break;
      case ElementType::kByte: {
        // Large ones make what is behind them large, too, and hide what is wrong there.
        const size_t most = choices_.OneIn(3) ? 255 : 3;
        for (size_t i = 0; i < count; ++i) {
          tensor.bytes.push_back(static_cast<uint8_t>(choices_.From(0, most)));
        }
        break;
      }
      case ElementType::kId:
        feature.ragged ? AddLists(feature, size, &tensor) : AddIds(feature, count, &tensor);
        break;
    }
    return tensor;
  }

  Tensor LabelOf(const TensorSpec& label, const OutputPlan* output, size_t size) {
    const size_t count = size * ElementCount(label.shape);
    Tensor tensor;
    if (label.type == ElementType::kId) {
      AddIds(label, count, &tensor);
      return tensor;
    }
    const Loss loss = output == nullptr ? MEAN_SQUARED_ERROR : output->loss;
    for (size_t i = 0; i < count; ++i) {
      const float number = static_cast<float>(choices_.From(0, 8)) / 4 - 1;
      const float chance = choices_.OneIn(2) ? (number > 0 ? 1.0f : 0.0f) : std::abs(number);
      tensor.floats.push_back(loss == BINARY_CROSSENTROPY ? chance : 2 * Number());
    }
    if (loss == CATEGORICAL_CROSSENTROPY) MakeProbabilities(output->width, &tensor.floats);
    return tensor;
  }

  std::vector<float> Weights(size_t size) {
    if (!choices_.OneIn(3)) return {};
    std::vector<float> weights(size);
    for (float& weight : weights) weight = static_cast<float>(choices_.From(0, 3)) / 2;
    return weights;
  }

 private:
  // Few of them, so that many are there several times.
  int64_t Id(const TensorSpec& spec) {
    const auto most = static_cast<size_t>(spec.limit - 1);
    return static_cast<int64_t>(
        choices_.From(0, choices_.OneIn(2) ? most : std::min<size_t>(most, 2)));
  }

  void AddIds(const TensorSpec& spec, size_t count, Tensor* tensor) {
    for (size_t i = 0; i < count; ++i) tensor->ids.push_back(Id(spec));
  }

  void AddLists(const TensorSpec& spec, size_t size, Tensor* tensor) {
    const size_t most = choices_.OneIn(5) ? 40 : choices_.From(0, 6);
    for (size_t i = 0; i < size; ++i) {
      AddIds(spec, choices_.OneIn(5) ? 0 : choices_.From(0, most), tensor);
      tensor->ends.push_back(tensor->ids.size());
    }
  }

  void MakeProbabilities(size_t width, std::vector<float>* floats) {
    for (size_t begin = 0; begin < floats->size(); begin += width) {
      const bool one = choices_.OneIn(2);
      const size_t place = choices_.From(0, width - 1);
      for (size_t i = 0; i < width; ++i) {
        (*floats)[begin + i] = i == place ? 1.0f : one ? 0.0f : 0.125f;
      }
      const float sum = one ? 1.0f : 1 + 0.125f * static_cast<float>(width - 1);
      for (size_t i = 0; i < width; ++i) (*floats)[begin + i] /= sum;
    }
  }

  const Drawing drawing_;
  Choices choices_;
  Choices shakes_;
};

}  // namespace

std::vector<std::vector<float>> DrawValues(const ModelPlan& plan, const Drawing& drawing) {
  Drawer drawer(drawing);
  std::vector<std::vector<float>> values;
  for (const VariableSpec& variable : plan.variables) values.push_back(drawer.ValuesOf(variable));
  return values;
}

Batch DrawBatch(const ModelPlan& plan, size_t size, const Drawing& drawing) {
  Drawer drawer(drawing);
  Batch batch;
  batch.size = size;
  for (const TensorSpec& feature : plan.features) {
    batch.features.push_back(drawer.FeatureOf(feature, size));
  }
  for (size_t i = 0; i < plan.labels.size(); ++i) {
    const auto output = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                     [&](const OutputPlan& o) { return o.label == i; });
    batch.labels.push_back(
        drawer.LabelOf(plan.labels[i], output == plan.outputs.end() ? nullptr : &*output, size));
  }
  batch.weights = drawer.Weights(size);
  return batch;
}

}  // namespace millrace::worker
