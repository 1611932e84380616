#include "worker/model/layers/plan_kinds.h"

#include <algorithm>
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

absl::Status CheckPadding(Padding padding, bool causal) {
  if (Padding_IsValid(padding) && (causal || padding != CAUSAL)) return absl::OkStatus();
  if (padding == CAUSAL) return Invalid("padding is CAUSAL; use VALID or SAME");
  return Invalid("padding is ", static_cast<int>(padding), "; use VALID",
                 causal ? ", SAME or CAUSAL" : " or SAME");
}

absl::Status CheckImage(absl::string_view kind, const Shape& input) {
  if (input.size() == 3) return absl::OkStatus();
  return Invalid(kind, " takes images [height, width, channels], its input is ",
                 ShapeString(input));
}

absl::Status CheckSequence(absl::string_view kind, const Shape& input) {
  if (input.size() == 2) return absl::OkStatus();
  return Invalid(kind, " takes sequences [steps, channels], its input is ", ShapeString(input));
}

Numbers OneNumber(uint32_t number) {
  Numbers numbers;
  numbers.Add(number);
  return numbers;
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

namespace {

std::string NumbersString(const Numbers& numbers) {
  if (numbers.size() == 1) return absl::StrCat(numbers[0]);
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

// From the first position that a window sees to the last, along each axis.
std::vector<uint64_t> Reach(const WindowFields& windows) {
  std::vector<uint64_t> reach;
  for (int axis = 0; axis < windows.size.size(); ++axis) {
    const uint64_t dilation = windows.dilation.empty() ? 1 : windows.dilation[axis];
    reach.push_back((windows.size[axis] - uint64_t{1}) * dilation + 1);
  }
  return reach;
}

std::string SizeString(absl::string_view field, const WindowFields& windows) {
  std::string text = absl::StrCat(field, " is ", NumbersString(windows.size));
  const std::vector<uint64_t> reach = Reach(windows);
  if (std::equal(reach.begin(), reach.end(), windows.size.begin())) return text;
  return absl::StrCat(text, " and dilation_rate ", NumbersString(windows.dilation), ", together ",
                      reach.size() == 1 ? absl::StrCat(reach[0]) : ShapeString(reach));
}

}  // namespace

absl::StatusOr<Shape> SlideWindows(absl::string_view field, const Shape& input,
                                   const WindowFields& windows) {
  const bool of_image = windows.size.size() == 2;
  const std::vector<uint64_t> reach = Reach(windows);
  Shape output;
  for (size_t axis = 0; axis < reach.size(); ++axis) {
    const uint64_t limit = windows.padding == SAME ? 2 * input[axis] - 1 : input[axis];
    if (reach[axis] > limit) {
      return Invalid(SizeString(field, windows), ", its input is ", ShapeString(input), ": along ",
                     !of_image   ? "steps"
                     : axis == 0 ? "height"
                                 : "width",
                     " it fits up to ", limit, " with padding ", Padding_Name(windows.padding));
    }
    output.push_back(PlaceWindows(input[axis], reach[axis], windows.strides[static_cast<int>(axis)],
                                  windows.padding)
                         .count);
  }
  return output;
}

Fans FansOfVector(uint64_t length) {
  return {static_cast<double>(length), static_cast<double>(length)};
}

Fans FansOfKernel(const Shape& kernel) {
  double seen = 1;
  for (size_t i = 0; i + 2 < kernel.size(); ++i) seen *= static_cast<double>(kernel[i]);
  return {seen * static_cast<double>(kernel[kernel.size() - 2]),
          seen * static_cast<double>(kernel.back())};
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
