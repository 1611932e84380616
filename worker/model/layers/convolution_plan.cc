#include <algorithm>

#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {
namespace {

bool AreOne(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](uint32_t number) { return number == 1; });
}

absl::Status CheckDilation(const WindowFields& windows) {
  if (AreOne(windows.strides) || AreOne(windows.dilation)) return absl::OkStatus();
  return Invalid("dilation_rate is [", absl::StrJoin(windows.dilation, ", "), "], strides is [",
                 absl::StrJoin(windows.strides, ", "), "]; one of them must be 1");
}

absl::Status CheckGroups(uint64_t groups, uint64_t filters, uint64_t channels) {
  if (channels % groups == 0 && filters % groups == 0) return absl::OkStatus();
  return Invalid("groups is ", groups, ", with ", channels, " channels and ", filters,
                 " filters; it must divide both");
}

// The output's shape, and in return the kernel's.
absl::StatusOr<Shape> PlanKernel(const WindowFields& windows, uint64_t filters, uint64_t groups,
                                 LayerPlan* layer) {
  const uint64_t channels = layer->input().back();
  MILLRACE_RETURN_IF_ERROR(CheckPadding(windows.padding, /*causal=*/layer->spec.has_conv1d()));
  MILLRACE_RETURN_IF_ERROR(CheckDilation(windows));
  MILLRACE_RETURN_IF_ERROR(CheckGroups(groups, filters, channels));
  MILLRACE_ASSIGN_OR_RETURN(layer->output, SlideWindows("kernel_size", layer->input(), windows));
  layer->output.push_back(filters);
  Shape kernel = {windows.size.begin(), windows.size.end()};
  kernel.push_back(channels / groups);
  kernel.push_back(filters);
  return kernel;
}

// Height and width of what slides over images.
template <typename Conv>
absl::StatusOr<WindowFields> FillWindows(Conv* conv) {
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", conv->activation()));
  MILLRACE_RETURN_IF_ERROR(FillPair("kernel_size", {}, conv->mutable_kernel_size()));
  MILLRACE_RETURN_IF_ERROR(FillPair("strides", OneNumber(1), conv->mutable_strides()));
  MILLRACE_RETURN_IF_ERROR(FillPair("dilation_rate", OneNumber(1), conv->mutable_dilation_rate()));
  return WindowFields{conv->kernel_size(), conv->strides(), conv->dilation_rate(), conv->padding()};
}

}  // namespace

absl::Status PlanConv2D(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Conv2D* conv = layer->spec.mutable_conv2d();
  MILLRACE_RETURN_IF_ERROR(CheckImage("conv2d", layer->input()));
  if (conv->filters() == 0) return Invalid("filters is 0; it must be at least 1");
  if (conv->groups() == 0) conv->set_groups(1);
  MILLRACE_ASSIGN_OR_RETURN(const WindowFields windows, FillWindows(conv));
  MILLRACE_ASSIGN_OR_RETURN(const Shape kernel,
                            PlanKernel(windows, conv->filters(), conv->groups(), layer));
  return AddKernelAndBias(kernel, conv, layer, variables);
}

absl::Status PlanConv1D(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Conv1D* conv = layer->spec.mutable_conv1d();
  MILLRACE_RETURN_IF_ERROR(CheckSequence("conv1d", layer->input()));
  if (conv->filters() == 0) return Invalid("filters is 0; it must be at least 1");
  if (conv->kernel_size() == 0) return Invalid("kernel_size is 0; it must be at least 1");
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", conv->activation()));
  if (conv->strides() == 0) conv->set_strides(1);
  if (conv->dilation_rate() == 0) conv->set_dilation_rate(1);
  if (conv->groups() == 0) conv->set_groups(1);
  const WindowFields windows = {OneNumber(conv->kernel_size()), OneNumber(conv->strides()),
                                OneNumber(conv->dilation_rate()), conv->padding()};
  MILLRACE_ASSIGN_OR_RETURN(const Shape kernel,
                            PlanKernel(windows, conv->filters(), conv->groups(), layer));
  return AddKernelAndBias(kernel, conv, layer, variables);
}

absl::Status PlanDepthwiseConv2D(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  DepthwiseConv2D* conv = layer->spec.mutable_depthwise_conv2d();
  MILLRACE_RETURN_IF_ERROR(CheckImage("depthwise_conv2d", layer->input()));
  if (conv->depth_multiplier() == 0) conv->set_depth_multiplier(1);
  MILLRACE_ASSIGN_OR_RETURN(const WindowFields windows, FillWindows(conv));
  if (windows.strides[0] != windows.strides[1]) {
    return Invalid("strides is [", absl::StrJoin(windows.strides, ", "),
                   "]; height and width must be equal");
  }
  const uint64_t channels = layer->input().back();
  MILLRACE_ASSIGN_OR_RETURN(
      Shape kernel, PlanKernel(windows, channels * conv->depth_multiplier(), channels, layer));
  kernel[2] = channels;  // The same elements, with a dimension for the groups.
  kernel[3] = conv->depth_multiplier();
  if (conv->depthwise_initializer() == INITIALIZER_UNSPECIFIED) {
    conv->set_depthwise_initializer(GLOROT_UNIFORM);
  }
  const Fans fans = FansOfKernel(kernel);
  if (const auto initial = ResolveInitializer(conv->depthwise_initializer(), fans); !initial.ok()) {
    return Invalid("depthwise_initializer ", initial.status().message());
  }
  layer->regularizers = {conv->depthwise_regularizer(), conv->bias_regularizer()};
  MILLRACE_RETURN_IF_ERROR(
      AddVariable("kernel", kernel, conv->depthwise_initializer(), fans, layer, variables));
  return AddBias(layer->output.back(), conv, layer, variables);
}

}  // namespace millrace::worker
