#include "worker/model/output_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "common/output_spec.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/output_metrics.h"

namespace millrace::worker {
namespace {

using Layers = absl::Span<const LayerPlan>;

// kWholeNumbersAsFloats, of labels.
constexpr char kFloatLabels[] = "numpy's divide_by: 1, tfrecord's type: FLOAT, csv's number: true";

std::string LayerPathOf(const OutputPlan& output, Layers layers) {
  return LayerPath(output.layer, layers[output.layer].spec.name());
}

// Whether the layer's values come out as they went in, up to shape, order and dropout.
bool PassesValuesOn(const LayerSpec& layer) {
  return layer.has_flatten() || layer.has_reshape() || layer.has_permute() || layer.has_dropout() ||
         (layer.has_activation() && layer.activation().function() == LINEAR);
}

// Refuses probabilities as the input of a loss of logits.
absl::Status CheckLogits(const OutputPlan& output, Layers layers) {
  if (!HasClasses(output.loss)) return absl::OkStatus();
  size_t last = output.layer;
  while (PassesValuesOn(layers[last].spec) && layers[last].sources.front().kind == Source::kLayer) {
    last = layers[last].sources.front().index;
  }
  const LayerSpec& layer = layers[last].spec;
  const Activation activation = LastActivation(layer);
  if (activation != SIGMOID && activation != SOFTMAX) return absl::OkStatus();
  return Invalid(LayerPath(last, layer.name()), ": its activation is ", Activation_Name(activation),
                 "; the loss takes logits: remove it");
}

// The layer of that name; of none the last one.
absl::StatusOr<size_t> FindLayer(const ModelSpec& spec, const std::string& name,
                                 const std::string& path) {
  const int layers = spec.layers_size();
  if (name.empty()) return static_cast<size_t>(layers - 1);
  for (int i = 0; i < layers; ++i) {
    if (LayerName(spec, i) == name) return static_cast<size_t>(i);
  }
  return Invalid(path, ".layer is '", name, "'; no layer has that name");
}

// Finds the output's label by its name, or the only one.
absl::Status FindLabel(const OutputSpec& spec, const ExampleSpec& examples, OutputPlan* output) {
  std::vector<std::string> names;
  for (size_t i = 0; i < examples.labels.size(); ++i) {
    names.push_back(absl::StrCat("'", examples.labels[i].name, "'"));
    if (spec.label().empty() ? examples.labels.size() > 1
                             : examples.labels[i].name != spec.label()) {
      continue;
    }
    output->label = i;
    output->label_name = examples.labels[i].name;
    output->label_is_id = examples.labels[i].type == ElementType::kId;
    return absl::OkStatus();
  }
  return Invalid(output->path, ".label is '", spec.label(), "'; the examples' labels are ",
                 names.empty() ? "none" : absl::StrJoin(names, ", "));
}

absl::Status CheckLossShape(const OutputPlan& output, Layers layers, const ExampleSpec& examples) {
  const Shape& shape = layers[output.layer].output;
  const std::string whose = output.layer + 1 == layers.size() ? "the last output" : "its output";
  const std::string loss = Loss_Name(output.loss);
  switch (output.loss) {
    case SPARSE_CATEGORICAL_CROSSENTROPY:
    case CATEGORICAL_CROSSENTROPY:
      if (shape.size() == 1) return absl::OkStatus();
      return Invalid(LayerPathOf(output, layers), ": ", loss, " takes [classes], ", whose, " is ",
                     ShapeString(shape), "; end the model with a flatten layer and a dense layer");
    case BINARY_CROSSENTROPY:
      if (shape == Shape{1} || (shape.size() == 1 && !output.label_is_id)) return absl::OkStatus();
      return Invalid(
          LayerPathOf(output, layers), ": ", loss, " takes [1], ", whose, " is ",
          ShapeString(shape), "; end the model with a dense layer of 1 unit",
          output.label_is_id && ElementCount(examples.labels[output.label].shape) > 1
              ? absl::StrCat(", or have the label's numbers as floats (", kFloatLabels, ")")
              : "");
    case MEAN_SQUARED_ERROR:
    case MEAN_ABSOLUTE_ERROR:
    case HUBER:
      return absl::OkStatus();
    default:
      return Invalid(output.path, ".loss is ", static_cast<int>(output.loss), "; use one of ",
                     ValueNames(Loss_descriptor()));
  }
}

absl::Status CheckClassWeights(const OutputPlan& output) {
  if (output.class_weights.empty()) return absl::OkStatus();
  if (!HasClasses(output.loss)) {
    return Invalid(output.path, ".class_weights: ", Loss_Name(output.loss), " has no classes");
  }
  if (output.loss == BINARY_CROSSENTROPY && output.width > 1) {
    return Invalid(output.path, ".class_weights: an example has ", output.width,
                   " labels; they are for one label of each example");
  }
  if (output.class_weights.size() == output.classes()) return absl::OkStatus();
  return Invalid(output.path, ".class_weights has ", output.class_weights.size(),
                 " numbers; there are ", output.classes(), " classes");
}

void FillIn(const OutputSpec& spec, OutputPlan* output) {
  output->loss = spec.loss();
  output->label_smoothing = spec.label_smoothing();
  output->huber_delta = HuberDelta(spec);
  output->class_weights.assign(spec.class_weights().begin(), spec.class_weights().end());
  output->weight = OutputWeight(spec);
}

absl::Status PlanOutput(const OutputSpec& spec, Layers layers, const ExampleSpec& examples,
                        bool single, OutputPlan* output) {
  FillIn(spec, output);
  MILLRACE_RETURN_IF_ERROR(FindLabel(spec, examples, output));
  if (!single) output->name = layers[output->layer].spec.name();
  output->width = ElementCount(layers[output->layer].output);
  MILLRACE_RETURN_IF_ERROR(CheckLossShape(*output, layers, examples));
  MILLRACE_RETURN_IF_ERROR(CheckLogits(*output, layers));
  MILLRACE_RETURN_IF_ERROR(CheckClassWeights(*output));
  MILLRACE_RETURN_IF_ERROR(PlanMetrics(spec, output));
  return CheckLabel(*output, layers, examples);
}

absl::Status CheckIdLabel(const OutputPlan& output, Layers layers, const TensorSpec& label) {
  const int64_t label_count = label.limit;
  const std::string where =
      label.largest_id.empty() ? "" : absl::StrCat(" (", label.largest_id, ")");
  if (output.loss == BINARY_CROSSENTROPY) {
    if (label_count <= 2) return absl::OkStatus();
    return Invalid(output.path, ".loss: BINARY_CROSSENTROPY takes labels 0 and 1, the labels go ",
                   "up to ", label_count - 1, where, "; use SPARSE_CATEGORICAL_CROSSENTROPY");
  }
  if (static_cast<uint64_t>(label_count) <= output.width) return absl::OkStatus();
  return Invalid(LayerPathOf(output, layers), ": the ",
                 output.layer + 1 == layers.size() ? "last " : "", "layer has ", output.width,
                 output.width == 1 ? " unit" : " units", ", the labels go up to ", label_count - 1,
                 where,
                 static_cast<uint64_t>(label_count) <= kMaxUnits
                     ? absl::StrCat("; give it at least ", label_count, " units")
                     : absl::StrCat("; they must be below ", kMaxUnits,
                                    ", the most units that a layer may have"));
}

absl::Status CheckFloatLabel(const OutputPlan& output, Layers layers, const TensorSpec& label) {
  if (label.type == ElementType::kFloat && ElementCount(label.shape) == output.width) {
    return absl::OkStatus();
  }
  const std::string takes = absl::StrCat(
      output.path, ".loss: ", Loss_Name(output.loss), " takes floats, as many as the ", "output ",
      ShapeString(layers[output.layer].output), " has, the label '", label.name, "' ");
  if (label.type == ElementType::kFloat) {
    return Invalid(takes, "is ", ShapeString(label.shape), "; give the layer as many units");
  }
  if (ElementCount(label.shape) > 1) {
    return Invalid(takes, "is of whole numbers; have them as floats (", kFloatLabels, ")");
  }
  if (output.loss == CATEGORICAL_CROSSENTROPY) {
    return Invalid(takes, "is a class; use SPARSE_CATEGORICAL_CROSSENTROPY");
  }
  return Invalid(takes, "is a class; use a label of floats (", kFloatLabels,
                 "), or SPARSE_CATEGORICAL_CROSSENTROPY");
}

}  // namespace

absl::Status CheckLabel(const OutputPlan& output, absl::Span<const LayerPlan> layers,
                        const ExampleSpec& examples) {
  if (output.label >= examples.labels.size() ||
      examples.labels[output.label].name != output.label_name) {
    return Invalid(output.path, ".label: the label ", output.label, " must be '", output.label_name,
                   "', as in the training examples");
  }
  const TensorSpec& label = examples.labels[output.label];
  const bool is_id =
      label.type == ElementType::kId && !label.ragged && ElementCount(label.shape) == 1;
  const bool sparse = output.loss == SPARSE_CATEGORICAL_CROSSENTROPY;
  const bool takes_id = sparse || (output.loss == BINARY_CROSSENTROPY && output.label_is_id);
  if (!takes_id) return CheckFloatLabel(output, layers, label);
  if (is_id) return CheckIdLabel(output, layers, label);
  return Invalid(output.path, ".loss: ", Loss_Name(output.loss),
                 " takes one class for each example, a whole number; the label '", label.name,
                 "' has ", label.ragged ? "any number of" : absl::StrCat(ElementCount(label.shape)),
                 label.type == ElementType::kId ? " ids" : " floats");
}

absl::StatusOr<std::vector<size_t>> FindOutputLayers(const ModelSpec& spec) {
  const std::vector<OutputSpec> outputs = ModelOutputs(spec);
  std::vector<size_t> layers;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string path = OutputPath(spec, i);
    MILLRACE_ASSIGN_OR_RETURN(const size_t layer, FindLayer(spec, outputs[i].layer(), path));
    const auto other = std::find(layers.begin(), layers.end(), layer);
    if (other != layers.end()) {
      return Invalid(path, ".layer: ", OutputPath(spec, other - layers.begin()),
                     " is of the layer '", LayerName(spec, static_cast<int>(layer)),
                     "' too; a layer has one output");
    }
    layers.push_back(layer);
  }
  const int last = spec.layers_size() - 1;
  if (std::find(layers.begin(), layers.end(), static_cast<size_t>(last)) != layers.end()) {
    return layers;
  }
  return Invalid("model.outputs: none is of the last layer, '", LayerName(spec, last),
                 "'; add one, or remove the layers after the last output");
}

absl::StatusOr<std::vector<OutputPlan>> PlanOutputs(const ModelSpec& spec,
                                                    absl::Span<const LayerPlan> layers,
                                                    const ExampleSpec& examples) {
  const std::vector<OutputSpec> specs = ModelOutputs(spec);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<size_t> output_layers, FindOutputLayers(spec));
  std::vector<OutputPlan> outputs(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    outputs[i].path = OutputPath(spec, i);
    outputs[i].layer = output_layers[i];
    MILLRACE_RETURN_IF_ERROR(
        PlanOutput(specs[i], layers, examples, /*single=*/specs.size() == 1, &outputs[i]));
  }
  MILLRACE_RETURN_IF_ERROR(CheckReported(outputs));
  return outputs;
}

}  // namespace millrace::worker
