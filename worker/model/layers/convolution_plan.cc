#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {

absl::Status PlanConv2D(LayerPlan* layer, std::vector<VariableSpec>* variables) {
  Conv2D* conv = layer->spec.mutable_conv2d();
  MILLRACE_RETURN_IF_ERROR(CheckImage("conv2d", layer->input()));
  if (conv->filters() == 0) return Invalid("filters is 0; it must be at least 1");
  MILLRACE_RETURN_IF_ERROR(CheckActivation("activation", conv->activation()));
  MILLRACE_RETURN_IF_ERROR(FillPair("kernel_size", {}, conv->mutable_kernel_size()));
  Numbers one;
  one.Add(1);
  MILLRACE_RETURN_IF_ERROR(FillPair("strides", one, conv->mutable_strides()));
  MILLRACE_ASSIGN_OR_RETURN(layer->output,
                            SlideWindows("kernel_size", layer->input(), conv->kernel_size(),
                                         conv->strides(), conv->padding()));
  layer->output.push_back(conv->filters());
  const Shape kernel = {conv->kernel_size(0), conv->kernel_size(1), layer->input()[2],
                        conv->filters()};
  const double area = static_cast<double>(kernel[0]) * static_cast<double>(kernel[1]);
  const Fans fans = {area * static_cast<double>(kernel[2]), area * static_cast<double>(kernel[3])};
  return AddKernelAndBias(kernel, fans, conv, layer, variables);
}

}  // namespace millrace::worker
