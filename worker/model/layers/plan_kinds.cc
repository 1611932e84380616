#include "worker/model/layers/plan_kinds.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/model/invalid.h"
#include "worker/model/window.h"

namespace millrace::worker {

absl::Status CheckActivation(absl::string_view field, Activation activation) {
  if (!Activation_IsValid(activation)) {
    return Invalid(field, " is ", static_cast<int>(activation),
                   "; use one of LINEAR, RELU, SIGMOID, SOFTMAX, TANH, RELU6 and ELU");
  }
  if (activation < LEAKY_RELU) return absl::OkStatus();
  return Invalid(field, " is ", Activation_Name(activation),
                 "; put an activation layer with this function after it");
}

absl::Status CheckPadding(Padding padding) {
  if (Padding_IsValid(padding)) return absl::OkStatus();
  return Invalid("padding is ", static_cast<int>(padding), "; use VALID or SAME");
}

absl::Status CheckImage(absl::string_view kind, const Shape& input) {
  if (input.size() == 3) return absl::OkStatus();
  return Invalid(kind, " takes images [height, width, channels], its input is ",
                 ShapeString(input));
}

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

Fans FansOfVector(uint64_t length) {
  return {static_cast<double>(length), static_cast<double>(length)};
}

absl::Status AddVariable(absl::string_view kind, const Shape& shape, Initializer initializer,
                         const Fans& fans, LayerPlan* layer, std::vector<VariableSpec>* variables) {
  if (!HasAtMost(shape, kMaxVariableElements)) {
    return Invalid("its ", kind, " would be ", ShapeString(shape), "; a variable has at most ",
                   kMaxVariableElements, " elements");
  }
  absl::StatusOr<InitialValue> initial_value = ResolveInitializer(initializer, fans);
  if (!initial_value.ok()) {
    return Invalid(kind, "_initializer ", initial_value.status().message());
  }
  VariableSpec variable;
  variable.set_name(absl::StrCat(layer->spec.name(), "/", kind));
  variable.mutable_shape()->Add(shape.begin(), shape.end());
  *variable.mutable_initial_value() = *std::move(initial_value);
  if (!layer->trainable) variable.mutable_update()->mutable_frozen();
  layer->variables.push_back(static_cast<int>(variables->size()));
  variables->push_back(std::move(variable));
  return absl::OkStatus();
}

}  // namespace millrace::worker
