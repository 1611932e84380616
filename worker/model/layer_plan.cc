#include "worker/model/layer_plan.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/model/initializer.h"
#include "worker/model/invalid.h"
#include "worker/model/window.h"

namespace millrace::worker {
namespace {

using Numbers = google::protobuf::RepeatedField<uint32_t>;

absl::Status CheckActivation(absl::string_view field, Activation activation) {
  if (Activation_IsValid(activation)) return absl::OkStatus();
  return Invalid(field, " is ", static_cast<int>(activation),
                 "; use one of LINEAR, RELU, SIGMOID and SOFTMAX");
}

absl::Status CheckPadding(Padding padding) {
  if (Padding_IsValid(padding)) return absl::OkStatus();
  return Invalid("padding is ", static_cast<int>(padding), "; use VALID or SAME");
}

// Makes `numbers` the height and width: they may be absent (`fallback` then; empty: there is none)
// or one number for both.
absl::Status FillPair(absl::string_view field, const Numbers& fallback, Numbers* numbers) {
  const auto given = [&] {
    return absl::StrCat(field, " is [", absl::StrJoin(*numbers, ", "), "]");
  };
  if (numbers->empty()) *numbers = fallback;
  if (numbers->empty() || numbers->size() > 2) {
    return Invalid(given(), "; give one number, or height and width");
  }
  for (const uint32_t number : *numbers) {
    if (number == 0) return Invalid(given(), "; each number must be at least 1");
  }
  if (numbers->size() == 1) numbers->Add(numbers->Get(0));
  return absl::OkStatus();
}

absl::Status CheckImage(absl::string_view kind, const Shape& input) {
  if (input.size() == 3) return absl::OkStatus();
  return Invalid(kind, " takes images [height, width, channels], its input is ",
                 ShapeString(input));
}

// The output's height and width. A SAME window of more than twice the image sees nothing more.
absl::StatusOr<Shape> SlideWindows(absl::string_view field, const Shape& input,
                                   const Numbers& window, const Numbers& strides, Padding padding) {
  MILLRACE_RETURN_IF_ERROR(CheckPadding(padding));
  Shape output;
  for (int axis = 0; axis < 2; ++axis) {
    const uint64_t limit = padding == VALID ? input[axis] : 2 * input[axis] - 1;
    if (window[axis] > limit) {
      return Invalid(field, " is [", absl::StrJoin(window, ", "), "], its input is ",
                     ShapeString(input), ": along ", axis == 0 ? "height" : "width",
                     " it fits up to ", limit,
                     padding == VALID ? " with padding VALID" : " with padding SAME");
    }
    output.push_back(PlaceWindows(input[axis], window[axis], strides[axis], padding).count);
  }
  return output;
}

// Adds the variable NAME/`kind` and returns its index.
absl::StatusOr<int> AddVariable(const LayerPlan& layer, absl::string_view kind, const Shape& shape,
                                Initializer initializer, const Fans& fans,
                                std::vector<VariableSpec>* variables) {
  if (!HasAtMost(shape, kMaxVariableElements)) {
    return Invalid("its ", kind, " would be ", ShapeString(shape), "; a variable has at most ",
                   kMaxVariableElements, " elements");
  }
  absl::StatusOr<InitialValue> initial_value = ResolveInitializer(initializer, fans);
  if (!initial_value.ok()) {
    return Invalid(kind, "_initializer ", initial_value.status().message());
  }
  VariableSpec variable;
  variable.set_name(absl::StrCat(layer.spec.name(), "/", kind));
  variable.mutable_shape()->Add(shape.begin(), shape.end());
  *variable.mutable_initial_value() = *std::move(initial_value);
  variables->push_back(std::move(variable));
  return static_cast<int>(variables->size()) - 1;
}

// Kernel and bias of a Dense or Conv2D, whose initialisers are filled in.
template <typename Kind>
absl::Status AddVariables(const Shape& kernel_shape, const Fans& fans, LayerPlan* layer, Kind* kind,
                          std::vector<VariableSpec>* variables) {
  if (kind->kernel_initializer() == INITIALIZER_UNSPECIFIED) {
    kind->set_kernel_initializer(GLOROT_UNIFORM);
  }
  if (kind->bias_initializer() == INITIALIZER_UNSPECIFIED) kind->set_bias_initializer(ZEROS);
  MILLRACE_ASSIGN_OR_RETURN(
      layer->kernel,
      AddVariable(*layer, "kernel", kernel_shape, kind->kernel_initializer(), fans, variables));
  if (kind->no_bias()) return absl::OkStatus();
  // Keras's fans of a vector are its length, both.
  const uint64_t units = kernel_shape.back();
  const Fans bias_fans = {static_cast<double>(units), static_cast<double>(units)};
  MILLRACE_ASSIGN_OR_RETURN(
      layer->bias,
      AddVariable(*layer, "bias", {units}, kind->bias_initializer(), bias_fans, variables));
  return absl::OkStatus();
}

absl::Status PlanDense(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Dense* dense = layer->spec.mutable_dense();
  if (layer->input.size() != 1) {
    return Invalid("dense takes one dimension, its input is ", ShapeString(layer->input),
                   "; put a flatten layer before it");
  }
  if (dense->units() == 0) return Invalid("units is 0; it must be at least 1");
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", dense->activation()));
  layer->output = {dense->units()};
  const Shape kernel = {layer->input[0], dense->units()};
  const Fans fans = {static_cast<double>(kernel[0]), static_cast<double>(kernel[1])};
  return AddVariables(kernel, fans, layer, dense, variables);
}

absl::Status PlanConv2D(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Conv2D* conv = layer->spec.mutable_conv2d();
  MILLRACE_RETURN_IF_ERROR(CheckImage("conv2d", layer->input));
  if (conv->filters() == 0) return Invalid("filters is 0; it must be at least 1");
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", conv->activation()));
  MILLRACE_RETURN_IF_ERROR(FillPair("kernel_size", {}, conv->mutable_kernel_size()));
  Numbers one;
  one.Add(1);
  MILLRACE_RETURN_IF_ERROR(FillPair("strides", one, conv->mutable_strides()));
  MILLRACE_ASSIGN_OR_RETURN(
      layer->output, SlideWindows("kernel_size", layer->input, conv->kernel_size(), conv->strides(),
                                  conv->padding()));
  layer->output.push_back(conv->filters());
  const Shape kernel = {conv->kernel_size(0), conv->kernel_size(1), layer->input[2],
                        conv->filters()};
  const double area = static_cast<double>(kernel[0]) * static_cast<double>(kernel[1]);
  const Fans fans = {area * static_cast<double>(kernel[2]), area * static_cast<double>(kernel[3])};
  return AddVariables(kernel, fans, layer, conv, variables);
}

absl::Status PlanMaxPool2D(LayerPlan* layer) {
  MaxPool2D* pool = layer->spec.mutable_max_pool2d();
  MILLRACE_RETURN_IF_ERROR(CheckImage("max_pool2d", layer->input));
  Numbers two;
  two.Add(2);
  MILLRACE_RETURN_IF_ERROR(FillPair("pool_size", two, pool->mutable_pool_size()));
  MILLRACE_RETURN_IF_ERROR(FillPair("strides", pool->pool_size(), pool->mutable_strides()));
  MILLRACE_ASSIGN_OR_RETURN(
      layer->output,
      SlideWindows("pool_size", layer->input, pool->pool_size(), pool->strides(), pool->padding()));
  layer->output.push_back(layer->input[2]);
  return absl::OkStatus();
}

absl::Status PlanDropout(LayerPlan* layer) {
  const double rate = layer->spec.dropout().rate();
  if (!(rate >= 0 && rate < 1)) {
    return Invalid("rate is ", rate, "; it must be at least 0 and below 1");
  }
  layer->output = layer->input;
  return absl::OkStatus();
}

absl::Status PlanKind(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  switch (layer->spec.kind_case()) {
    case LayerSpec::kDense:
      return PlanDense(layer, variables);
    case LayerSpec::kConv2D:
      return PlanConv2D(layer, variables);
    case LayerSpec::kMaxPool2D:
      return PlanMaxPool2D(layer);
    case LayerSpec::kDropout:
      return PlanDropout(layer);
    case LayerSpec::kFlatten:
      layer->output = {ElementCount(layer->input)};
      return absl::OkStatus();
    case LayerSpec::kActivation:
      layer->output = layer->input;
      return CheckActivation("function", layer->spec.activation().function());
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return Invalid(
      "has no kind; use one of dense, conv2d, max_pool2d, flatten, dropout and activation");
}

}  // namespace

absl::Status PlanLayer(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  MILLRACE_RETURN_IF_ERROR(PlanKind(layer, variables));
  if (HasAtMost(layer->output, kMaxExampleElements)) return absl::OkStatus();
  return Invalid("its output would be ", ShapeString(layer->output), " for each example; at most ",
                 kMaxExampleElements, " elements are supported");
}

}  // namespace millrace::worker
