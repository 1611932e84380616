#include "worker/model/model_plan.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/job_spec.h"
#include "common/plain_name.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"

namespace millrace::worker {
namespace {

constexpr size_t kMaxNameLength = 100;

// "model.layers[2] 'dense'".
std::string LayerPath(size_t index, absl::string_view name) {
  return absl::StrCat("model.layers[", index, "] '", name, "'");
}

std::string LastLayerPath(const ModelPlan& plan) {
  return LayerPath(plan.layers.size() - 1, plan.layers.back().spec.name());
}

absl::Status CheckName(absl::string_view name) {
  if (name.size() <= kMaxNameLength && IsPlainName(name)) return absl::OkStatus();
  return Invalid("a name has letters, digits, '_', '-' and '.', at most ", kMaxNameLength);
}

// Fills in absent names; no two are the same afterwards.
absl::Status NameLayers(ModelSpec* spec) {
  absl::flat_hash_map<std::string, int> index_of;
  for (int i = 0; i < spec->layers_size(); ++i) {
    LayerSpec* layer = spec->mutable_layers(i);
    // One without a kind is refused when it is planned.
    if (layer->kind_case() != LayerSpec::KIND_NOT_SET) layer->set_name(LayerName(*spec, i));
    if (absl::Status status = CheckName(layer->name()); !status.ok()) {
      return Invalid(LayerPath(i, layer->name()), ": ", status.message());
    }
    const auto [other, inserted] = index_of.emplace(layer->name(), i);
    if (!inserted) {
      return Invalid(LayerPath(i, layer->name()), ": model.layers[", other->second,
                     "] has that name too; give each layer a name of its own");
    }
  }
  return absl::OkStatus();
}

absl::Status PlanLayers(ModelSpec spec, const Shape& input, ModelPlan* plan) {
  MILLRACE_RETURN_IF_ERROR(NameLayers(&spec));
  Shape shape = input;
  for (int i = 0; i < spec.layers_size(); ++i) {
    LayerPlan layer;
    layer.spec = std::move(*spec.mutable_layers(i));
    layer.input = shape;
    if (absl::Status status = PlanLayer(&layer, &plan->variables); !status.ok()) {
      return Invalid(LayerPath(i, layer.spec.name()), ": ", status.message());
    }
    shape = layer.output;
    plan->layers.push_back(std::move(layer));
  }
  if (plan->variables.empty()) {
    return Invalid("model.layers: no layer has variables to train; add a dense or conv2d layer");
  }
  return absl::OkStatus();
}

// The activation that ends the layer; LINEAR where it has none.
Activation LastActivation(const LayerSpec& layer) {
  switch (layer.kind_case()) {
    case LayerSpec::kDense:
      return layer.dense().activation();
    case LayerSpec::kConv2D:
      return layer.conv2d().activation();
    case LayerSpec::kActivation:
      return layer.activation().function();
    default:
      return LINEAR;
  }
}

// Whether the layer's values come out as they went in, up to shape and dropout.
bool PassesValuesOn(const LayerSpec& layer) {
  return layer.has_flatten() || layer.has_dropout() ||
         (layer.has_activation() && layer.activation().function() == LINEAR);
}

// Refuses probabilities as the loss's input.
absl::Status CheckLogits(const ModelPlan& plan) {
  size_t last = plan.layers.size() - 1;
  while (last > 0 && PassesValuesOn(plan.layers[last].spec)) --last;
  const LayerSpec& layer = plan.layers[last].spec;
  const Activation activation = LastActivation(layer);
  if (activation != SIGMOID && activation != SOFTMAX) return absl::OkStatus();
  return Invalid(LayerPath(last, layer.name()), ": its activation is ", Activation_Name(activation),
                 "; the loss takes logits: remove it");
}

absl::Status CheckLossShape(const ModelPlan& plan) {
  const Shape& output = plan.layers.back().output;
  switch (plan.loss) {
    case SPARSE_CATEGORICAL_CROSSENTROPY:
      if (output.size() == 1) return absl::OkStatus();
      return Invalid(LastLayerPath(plan), ": SPARSE_CATEGORICAL_CROSSENTROPY takes [classes], the ",
                     "last output is ", ShapeString(output),
                     "; end the model with a flatten layer and a dense layer");
    case BINARY_CROSSENTROPY:
      if (output == Shape{1}) return absl::OkStatus();
      return Invalid(LastLayerPath(plan), ": BINARY_CROSSENTROPY takes [1], the last output is ",
                     ShapeString(output), "; end the model with a dense layer of 1 unit");
    default:
      return Invalid("model.loss is ", static_cast<int>(plan.loss),
                     "; use SPARSE_CATEGORICAL_CROSSENTROPY or BINARY_CROSSENTROPY");
  }
}

absl::Status PlanMetrics(const ModelSpec& spec, ModelPlan* plan) {
  for (int i = 0; i < spec.metrics_size(); ++i) {
    switch (spec.metrics(i)) {
      case ACCURACY:
        plan->accuracy = true;
        break;
      case AUC:
        if (plan->loss != BINARY_CROSSENTROPY) {
          return Invalid("model.metrics[", i, "]: AUC needs the loss BINARY_CROSSENTROPY, it is ",
                         Loss_Name(plan->loss));
        }
        plan->auc = true;
        break;
      default:
        return Invalid("model.metrics[", i, "] is ", static_cast<int>(spec.metrics(i)),
                       "; use ACCURACY or AUC");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const ExampleSpec& examples) {
  if (examples.features.size() == 1 && examples.features[0].type == ElementType::kFloat) {
    return absl::OkStatus();
  }
  return Invalid("model.layers: examples have ", examples.features.size(),
                 " features; models take one, of floats");
}

absl::Status CheckInput(const ModelSpec& spec, const Shape& input) {
  if (spec.layers().empty())
    return Invalid("model.layers is empty; a model has at least one layer");
  if (spec.layers_size() > kMaxLayers) {
    return Invalid("model.layers: ", spec.layers_size(), " layers; a model has at most ",
                   kMaxLayers);
  }
  if (HasAtMost(input, kMaxExampleElements) && ElementCount(input) >= 1) return absl::OkStatus();
  return Invalid("examples have the shape ", ShapeString(input), "; models take 1 to ",
                 kMaxExampleElements, " features");
}

}  // namespace

absl::Status CheckLabels(const ModelPlan& plan, const ExampleSpec& examples) {
  if (examples.labels.size() != 1 || examples.labels[0].type != ElementType::kId ||
      ElementCount(examples.labels[0].shape) != 1) {
    return Invalid("model.loss: ", Loss_Name(plan.loss), " takes one class for each example");
  }
  const TensorSpec& label = examples.labels[0];
  const int64_t label_count = label.limit;
  const std::string where =
      label.largest_id.empty() ? "" : absl::StrCat(" (", label.largest_id, ")");
  if (plan.loss == BINARY_CROSSENTROPY) {
    if (label_count <= 2) return absl::OkStatus();
    return Invalid("model.loss: BINARY_CROSSENTROPY takes labels 0 and 1, the labels go up to ",
                   label_count - 1, where, "; use SPARSE_CATEGORICAL_CROSSENTROPY");
  }
  const uint64_t classes = plan.layers.back().output[0];
  if (static_cast<uint64_t>(label_count) <= classes) return absl::OkStatus();
  return Invalid(LastLayerPath(plan), ": the last layer has ", classes,
                 classes == 1 ? " unit" : " units", ", the labels go up to ", label_count - 1,
                 where, "; give it at least ", label_count, " units");
}

absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec, const ExampleSpec& examples) {
  MILLRACE_RETURN_IF_ERROR(CheckFeatures(examples));
  const Shape& input = examples.features[0].shape;
  MILLRACE_RETURN_IF_ERROR(CheckInput(spec, input));
  ModelPlan plan;
  plan.loss = spec.loss();
  MILLRACE_RETURN_IF_ERROR(PlanLayers(spec, input, &plan));
  MILLRACE_RETURN_IF_ERROR(CheckLossShape(plan));
  MILLRACE_RETURN_IF_ERROR(CheckLogits(plan));
  MILLRACE_RETURN_IF_ERROR(PlanMetrics(spec, &plan));
  MILLRACE_RETURN_IF_ERROR(CheckLabels(plan, examples));
  return plan;
}

}  // namespace millrace::worker
