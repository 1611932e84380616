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
  for (const OutputPlan& output : plan.outputs) {
    MILLRACE_RETURN_IF_ERROR(CheckLabel(output, plan.layers, examples));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec, const ExampleSpec& examples) {
  MILLRACE_RETURN_IF_ERROR(CheckFeatures(examples));
  const Shape& input = examples.features[0].shape;
  MILLRACE_RETURN_IF_ERROR(CheckInput(spec, input));
  ModelPlan plan;
  MILLRACE_RETURN_IF_ERROR(PlanLayers(spec, input, &plan));
  MILLRACE_ASSIGN_OR_RETURN(plan.outputs, PlanOutputs(spec, plan.layers, examples));
  return plan;
}

}  // namespace millrace::worker
