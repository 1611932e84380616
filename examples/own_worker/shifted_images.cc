#include "examples/own_worker/shifted_images.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/split_mix.h"

namespace millrace::examples {
namespace {

using worker::Batch;
using worker::BatchResult;
using worker::EvaluationSums;
using worker::GradientSink;
using worker::Model;

constexpr char kShiftedImages[] = "shifted_images";

// Hands a model of layers shifted images to train on, and everything else as it is.
class ShiftedModel final : public Model {
 public:
  ShiftedModel(std::unique_ptr<Model> layers, const std::vector<uint64_t>& shape, int most)
      : layers_(std::move(layers)), columns_(shape[1]), pixels_(shape[0] * shape[1]), most_(most) {}

  const std::vector<VariableSpec>& variables() const override { return layers_->variables(); }
  std::string numerics() const override { return layers_->numerics(); }
  absl::Span<float> values(size_t variable) override { return layers_->values(variable); }
  bool has_next_values() const override { return layers_->has_next_values(); }
  absl::Span<float> next_values(size_t variable) override { return layers_->next_values(variable); }
  void TakeNextValues() override { layers_->TakeNextValues(); }
  void Arrived(size_t variable, size_t first, size_t count) override {
    layers_->Arrived(variable, first, count);
  }
  std::shared_ptr<worker::HostMemory> host_memory() const override {
    return layers_->host_memory();
  }

  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t seed,
                                    GradientSink* gradients) override {
    shifted_ = batch;
    const auto images = absl::MakeConstSpan(batch.features[0].floats);
    const auto shifted = absl::MakeSpan(shifted_.features[0].floats);
    for (size_t row = 0; row < batch.size; ++row) {
      ShiftImage(images.subspan(row * pixels_, pixels_), columns_, ShiftOf(seed, row, most_),
                 shifted.subspan(row * pixels_, pixels_));
    }
    return layers_->Train(shifted_, seed, gradients);
  }

  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override {
    return layers_->Evaluate(batch, sums);
  }

 private:
  const std::unique_ptr<Model> layers_;
  const size_t columns_;
  const size_t pixels_;
  const int most_;
  Batch shifted_;
};

// Gray images of floats.
absl::Status CheckImages(const worker::ExampleSpec& spec) {
  const worker::TensorSpec& images = spec.features[0];
  if (spec.features.size() == 1 && images.type == worker::ElementType::kFloat &&
      images.shape.size() == 3 && images.shape[2] == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("data.train: model.custom '", kShiftedImages,
                                                 "' takes images [rows, columns, 1]"));
}

// The job with the layers that its options ask for.
absl::StatusOr<JobSpec> WithLayers(const JobSpec& spec) {
  if (spec.model().layers_size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.layers: must be left out; model.custom '",
                                                   kShiftedImages, "' makes them"));
  }
  const CustomModel& custom = spec.model().custom();
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t hidden,
                            worker::NumberOption(custom, "layers", /*unset=*/1, 1, 16));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t units,
                            worker::NumberOption(custom, "units", /*unset=*/32, 1, 4096));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t classes,
                            worker::NumberOption(custom, "classes", /*unset=*/10, 2, 1000));
  JobSpec layered = spec;
  ModelSpec& model = *layered.mutable_model();
  model.clear_custom();
  model.set_loss(SPARSE_CATEGORICAL_CROSSENTROPY);
  model.add_layers()->mutable_flatten();
  for (uint64_t i = 0; i < hidden; ++i) {
    Dense& dense = *model.add_layers()->mutable_dense();
    dense.set_units(static_cast<uint32_t>(units));
    dense.set_activation(RELU);
  }
  model.add_layers()->mutable_dense()->set_units(static_cast<uint32_t>(classes));
  return layered;
}

absl::StatusOr<std::unique_ptr<Model>> MakeShifted(const JobSpec& spec,
                                                   const worker::Dataset& train,
                                                   const worker::Dataset* evaluate,
                                                   const worker::ModelFactory& layers) {
  MILLRACE_RETURN_IF_ERROR(CheckImages(train.example()));
  const CustomModel& custom = spec.model().custom();
  MILLRACE_RETURN_IF_ERROR(
      worker::CheckOptionNames(custom, {"layers", "units", "classes", "shift"}));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t most,
                            worker::NumberOption(custom, "shift", /*unset=*/2, 0, 8));
  MILLRACE_ASSIGN_OR_RETURN(const JobSpec layered, WithLayers(spec));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, layers(layered, train, evaluate));
  return std::make_unique<ShiftedModel>(std::move(model), train.example().features[0].shape,
                                        static_cast<int>(most));
}

}  // namespace

Shift ShiftOf(uint64_t step_seed, size_t row, int most) {
  const uint64_t random = worker::SplitMix64(step_seed + row);
  const uint64_t choices = 2 * static_cast<uint64_t>(most) + 1;
  return {static_cast<int>(random % choices) - most,
          static_cast<int>((random >> 32) % choices) - most};
}

void ShiftImage(absl::Span<const float> image, size_t columns, Shift shift,
                absl::Span<float> shifted) {
  const int width = static_cast<int>(columns);
  const int height = static_cast<int>(image.size() / columns);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int from_y = y - shift.down;
      const int from_x = x - shift.right;
      const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
      shifted[static_cast<size_t>(y * width + x)] =
          inside ? image[static_cast<size_t>(from_y * width + from_x)] : 0;
    }
  }
}

worker::OwnModel ShiftedImages() { return {kShiftedImages, MakeShifted}; }

}  // namespace millrace::examples
