#include "worker/model/model_plan.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/job_spec.h"
#include "common/plain_name.h"
#include "common/status_macros.h"
#include "worker/model/graph.h"
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

// What layers take that comes from the data: one number is taken as a list of one.
Shape FeatureShape(const TensorSpec& feature) {
  return feature.shape.empty() ? Shape{1} : feature.shape;
}

absl::Status CheckIds(const Embedding& embedding, const TensorSpec& feature) {
  if (feature.limit <= static_cast<int64_t>(embedding.input_dim())) return absl::OkStatus();
  const std::string where =
      feature.largest_id.empty() ? "" : absl::StrCat(" (", feature.largest_id, ")");
  return Invalid("input_dim is ", embedding.input_dim(), ", the ids of '", feature.name,
                 "' go up to ", feature.limit - 1, where, "; it must be at least ", feature.limit);
}

// A layer whose sources and those before it are planned.
absl::Status FillInputs(LayerPlan* layer, const ModelPlan& plan) {
  layer->spec.clear_inputs();
  for (const Source& source : layer->sources) {
    if (source.kind == Source::kLayer) {
      layer->spec.add_inputs(plan.layers[source.index].spec.name());
      layer->inputs.push_back(plan.layers[source.index].output);
      continue;
    }
    const TensorSpec& feature = plan.features[source.index];
    layer->takes_ids = feature.type == ElementType::kId;
    layer->ragged = feature.ragged;
    if (layer->takes_ids && layer->spec.has_embedding()) {
      MILLRACE_RETURN_IF_ERROR(CheckIds(layer->spec.embedding(), feature));
      layer->spec.add_inputs(feature.name);
      layer->inputs.push_back(feature.shape);
      continue;
    }
    if (layer->takes_ids) {
      return Invalid("it takes numbers, and the feature '", feature.name,
                     "' is of ids; put an embedding layer between",
                     feature.ragged ? ""
                                    : absl::StrCat(", or have whole numbers as floats (",
                                                   kWholeNumbersAsFloats, ", csv without as_id)"));
    }
    layer->spec.add_inputs(feature.name);
    layer->inputs.push_back(FeatureShape(feature));
  }
  return absl::OkStatus();
}

Shape VariableShape(const VariableSpec& variable) {
  return {variable.shape().begin(), variable.shape().end()};
}

// Gives `layer`, the one at `index`, which is planned with variables of its own, those of `owner`.
absl::Status ShareVariables(const LayerPlan& owner, const std::vector<VariableSpec>& own,
                            const std::vector<VariableSpec>& variables, size_t index,
                            LayerPlan* layer) {
  for (size_t i = 0; i < layer->variables.size() || i < owner.variables.size(); ++i) {
    const int mine = layer->variable(i);
    const int shared = owner.variable(i);
    if (mine < 0 && shared < 0) continue;
    const std::string has = mine < 0 ? "none" : ShapeString(VariableShape(own[mine]));
    const std::string needs = shared < 0 ? "none" : ShapeString(VariableShape(variables[shared]));
    if (has == needs) continue;
    const std::string name = mine < 0 ? variables[shared].name() : own[mine].name();
    return Invalid(LayerPath(index, layer->spec.name()), ": variables_of is '", owner.spec.name(),
                   "', whose ", name.substr(name.rfind('/') + 1), " is ", needs,
                   "; this layer takes ", has);
  }
  layer->variables = owner.variables;
  return absl::OkStatus();
}

absl::Status PlanLayerAt(size_t index, ModelSpec* spec, ModelPlan* plan,
                         std::vector<VariableSpec>* variables) {
  LayerPlan* layer = &plan->layers[index];
  layer->spec = std::move(*spec->mutable_layers(static_cast<int>(index)));
  absl::Status status = FillInputs(layer, *plan);
  if (status.ok()) status = PlanLayer(layer, variables);
  if (status.ok()) return status;
  return Invalid(LayerPath(index, layer->spec.name()), ": ", status.message());
}

absl::Status CheckAnyTrained(const std::vector<VariableSpec>& variables) {
  for (const VariableSpec& variable : variables) {
    if (variable.update().kind_case() == UpdateRule::KIND_NOT_SET) return absl::OkStatus();
  }
  return Invalid("model.layers: no layer has variables to train; add a dense or conv2d layer");
}

bool IsTrainable(const LayerSpec& layer) { return !layer.has_trainable() || layer.trainable(); }

// Of the variables that are trained.
void FillRegularizers(const std::vector<size_t>& owners, ModelPlan* plan) {
  plan->regularizers.resize(plan->variables.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    const LayerPlan& layer = plan->layers[i];
    if (owners[i] != i || !layer.trainable) continue;
    for (size_t k = 0; k < layer.regularizers.size() && k < layer.variables.size(); ++k) {
      if (layer.variables[k] < 0) continue;
      plan->regularizers[layer.variables[k]] = layer.regularizers[k];
    }
  }
}

absl::Status PlanLayers(ModelSpec spec, ModelPlan* plan) {
  MILLRACE_RETURN_IF_ERROR(NameLayers(&spec));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<size_t> outputs, FindOutputLayers(spec));
  MILLRACE_ASSIGN_OR_RETURN(ModelGraph graph, ResolveGraph(spec, plan->features, outputs));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<size_t> owners, ResolveSharing(spec));
  plan->layers.resize(graph.order.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    plan->layers[i].sources = std::move(graph.sources[i]);
    plan->layers[i].trainable = IsTrainable(spec.layers(static_cast<int>(owners[i])));
  }
  plan->order = std::move(graph.order);
  // What layers that share variables would have by themselves.
  std::vector<std::vector<VariableSpec>> unused(owners.size());
  for (const size_t i : plan->order) {
    MILLRACE_RETURN_IF_ERROR(
        PlanLayerAt(i, &spec, plan, owners[i] == i ? &plan->variables : &unused[i]));
  }
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] == i) continue;
    MILLRACE_RETURN_IF_ERROR(
        ShareVariables(plan->layers[owners[i]], unused[i], plan->variables, i, &plan->layers[i]));
  }
  FillRegularizers(owners, plan);
  return CheckAnyTrained(plan->variables);
}

absl::Status CheckFeatures(const ExampleSpec& examples) {
  for (const TensorSpec& feature : examples.features) {
    if (HasAtMost(feature.shape, kMaxExampleElements) && ElementCount(feature.shape) >= 1) continue;
    return Invalid("examples have the shape ", ShapeString(feature.shape), "; models take 1 to ",
                   kMaxExampleElements, " features");
  }
  return absl::OkStatus();
}

absl::Status CheckLayerCount(const ModelSpec& spec) {
  if (spec.layers().empty())
    return Invalid("model.layers is empty; a model has at least one layer");
  if (spec.layers_size() <= kMaxLayers) return absl::OkStatus();
  return Invalid("model.layers: ", spec.layers_size(), " layers; a model has at most ", kMaxLayers);
}

}  // namespace

absl::Status CheckIds(const ModelPlan& plan, const std::vector<TensorSpec>& features) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    if (!layer.spec.has_embedding()) continue;
    const TensorSpec& feature = features[layer.sources.front().index];
    if (absl::Status status = CheckIds(layer.spec.embedding(), feature); !status.ok()) {
      return Invalid(LayerPath(i, layer.spec.name()), ": ", status.message());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(const ModelPlan& plan, const ExampleSpec& examples) {
  for (const OutputPlan& output : plan.outputs) {
    MILLRACE_RETURN_IF_ERROR(CheckLabel(output, plan.layers, examples));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelPlan> PlanModel(const ModelSpec& spec, const ExampleSpec& examples) {
  MILLRACE_RETURN_IF_ERROR(CheckLayerCount(spec));
  MILLRACE_RETURN_IF_ERROR(CheckFeatures(examples));
  ModelPlan plan;
  plan.features = examples.features;
  plan.labels = examples.labels;
  MILLRACE_RETURN_IF_ERROR(PlanLayers(spec, &plan));
  MILLRACE_ASSIGN_OR_RETURN(plan.outputs, PlanOutputs(spec, plan.layers, examples));
  return plan;
}

absl::StatusOr<ModelPlan> PlanModel(const JobSpec& spec, const ExampleSpec& examples) {
  MILLRACE_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(spec.model(), examples));
  plan.precision = spec.precision().compute();
  plan.pulls_ahead = PullsAhead(spec);
  return plan;
}

}  // namespace millrace::worker
