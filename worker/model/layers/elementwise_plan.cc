#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {
namespace {

constexpr double kNegativeSlope = 0.3;  // As Keras's LeakyReLU.

// False of what is not a number, too.
bool FitsFloat32(double number) { return std::abs(number) <= std::numeric_limits<float>::max(); }

}  // namespace

absl::Status PlanDropout(LayerPlan* layer) {
  const double rate = layer->spec.dropout().rate();
  if (!(rate >= 0 && rate < 1)) {
    return Invalid("rate is ", rate, "; it must be at least 0 and below 1");
  }
  layer->output = layer->input();
  return absl::OkStatus();
}

absl::Status PlanActivation(LayerPlan* layer) {
  ActivationLayer* activation = layer->spec.mutable_activation();
  layer->output = layer->input();
  const Activation function = activation->function();
  if (!Activation_IsValid(function)) {
    return Invalid("function is ", static_cast<int>(function),
                   "; use one of LINEAR, RELU, SIGMOID, SOFTMAX, TANH, RELU6, ELU, LEAKY_RELU, "
                   "SILU, GELU and GELU_TANH");
  }
  if (activation->has_negative_slope() && function != LEAKY_RELU) {
    return Invalid("negative_slope is set, and the function is ", Activation_Name(function),
                   "; it is of LEAKY_RELU");
  }
  if (!activation->has_negative_slope()) activation->set_negative_slope(kNegativeSlope);
  const double slope = activation->negative_slope();
  if (std::isfinite(slope) && slope >= 0) return absl::OkStatus();
  return Invalid("negative_slope is ", slope, "; it must be a finite number, at least 0");
}

absl::Status PlanRescaling(LayerPlan* layer) {
  Rescaling* rescaling = layer->spec.mutable_rescaling();
  if (!rescaling->has_scale()) rescaling->set_scale(1);
  layer->output = layer->input();
  if (!FitsFloat32(rescaling->scale())) {
    return Invalid("scale is ", rescaling->scale(), "; it must be a finite number of float32");
  }
  if (FitsFloat32(rescaling->offset())) return absl::OkStatus();
  return Invalid("offset is ", rescaling->offset(), "; it must be a finite number of float32");
}

absl::Status PlanFlatten(LayerPlan* layer) {
  layer->output = {ElementCount(layer->input())};
  return absl::OkStatus();
}

absl::Status PlanPermute(LayerPlan* layer) {
  const auto& dims = layer->spec.permute().dims();
  std::vector<uint64_t> sorted(dims.begin(), dims.end());
  std::sort(sorted.begin(), sorted.end());
  Shape each(layer->input().size());
  std::iota(each.begin(), each.end(), uint64_t{1});
  if (sorted != each) {
    return Invalid("dims is [", absl::StrJoin(dims, ", "), "], its input is ",
                   ShapeString(layer->input()), "; give each of 1 to ", each.size(), " once");
  }
  for (const uint32_t dim : dims) layer->output.push_back(layer->input()[dim - 1]);
  return absl::OkStatus();
}

absl::Status PlanReshape(LayerPlan* layer) {
  const auto& target = layer->spec.reshape().target_shape();
  const uint64_t elements = ElementCount(layer->input());
  const auto wrong = [&] {
    return Invalid("target_shape is [", absl::StrJoin(target, ", "), "], its input is ",
                   ShapeString(layer->input()),
                   "; give dimensions with the same product, of which one may be -1");
  };
  int open = -1;
  for (int i = 0; i < target.size(); ++i) {
    if (target[i] == 0 || target[i] < -1 || (target[i] == -1 && open >= 0)) return wrong();
    if (target[i] == -1) open = i;
    layer->output.push_back(target[i] == -1 ? 1 : static_cast<uint64_t>(target[i]));
  }
  if (!HasAtMost(layer->output, elements) || layer->output.empty()) return wrong();
  const uint64_t given = ElementCount(layer->output);
  if (open < 0 ? given != elements : elements % given != 0) return wrong();
  if (open >= 0) layer->output[open] = elements / given;
  return absl::OkStatus();
}

}  // namespace millrace::worker
