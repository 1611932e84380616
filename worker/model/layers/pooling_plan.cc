#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/model/invalid.h"
#include "worker/model/layers/plan_kinds.h"

namespace millrace::worker {

namespace {

// Of the largest value or of the mean.
template <typename Pool>
absl::Status PlanPooling(absl::string_view kind, Pool* pool, LayerPlan* layer) {
  MILLRACE_RETURN_IF_ERROR(CheckImage(kind, layer->input()));
  MILLRACE_RETURN_IF_ERROR(FillPair("pool_size", OneNumber(2), pool->mutable_pool_size()));
  MILLRACE_RETURN_IF_ERROR(FillPair("strides", pool->pool_size(), pool->mutable_strides()));
  MILLRACE_RETURN_IF_ERROR(CheckPadding(pool->padding(), /*causal=*/false));
  MILLRACE_ASSIGN_OR_RETURN(
      layer->output, SlideWindows("pool_size", layer->input(),
                                  {pool->pool_size(), pool->strides(), {}, pool->padding()}));
  layer->output.push_back(layer->input()[2]);
  return absl::OkStatus();
}

// The same of sequences.
template <typename Pool>
absl::Status PlanSequencePooling(absl::string_view kind, Pool* pool, LayerPlan* layer) {
  MILLRACE_RETURN_IF_ERROR(CheckSequence(kind, layer->input()));
  MILLRACE_RETURN_IF_ERROR(CheckPadding(pool->padding(), /*causal=*/false));
  if (pool->pool_size() == 0) pool->set_pool_size(2);
  if (pool->strides() == 0) pool->set_strides(pool->pool_size());
  MILLRACE_ASSIGN_OR_RETURN(
      layer->output,
      SlideWindows(
          "pool_size", layer->input(),
          {OneNumber(pool->pool_size()), OneNumber(pool->strides()), {}, pool->padding()}));
  layer->output.push_back(layer->input()[1]);
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanMaxPool2D(LayerPlan* layer) {
  return PlanPooling("max_pool2d", layer->spec.mutable_max_pool2d(), layer);
}

absl::Status PlanAveragePooling2D(LayerPlan* layer) {
  return PlanPooling("average_pooling2d", layer->spec.mutable_average_pooling2d(), layer);
}

absl::Status PlanMaxPool1D(LayerPlan* layer) {
  return PlanSequencePooling("max_pool1d", layer->spec.mutable_max_pool1d(), layer);
}

absl::Status PlanAveragePooling1D(LayerPlan* layer) {
  return PlanSequencePooling("average_pooling1d", layer->spec.mutable_average_pooling1d(), layer);
}

absl::Status PlanUpSampling2D(LayerPlan* layer) {
  UpSampling2D* sampling = layer->spec.mutable_up_sampling2d();
  MILLRACE_RETURN_IF_ERROR(CheckImage("up_sampling2d", layer->input()));
  MILLRACE_RETURN_IF_ERROR(FillPair("size", OneNumber(2), sampling->mutable_size()));
  layer->output = layer->input();
  for (int axis = 0; axis < 2; ++axis) layer->output[axis] *= sampling->size(axis);
  return absl::OkStatus();
}

absl::Status PlanZeroPadding2D(LayerPlan* layer) {
  MILLRACE_RETURN_IF_ERROR(CheckImage("zero_padding2d", layer->input()));
  Numbers* padding = layer->spec.mutable_zero_padding2d()->mutable_padding();
  if (padding->empty()) *padding = OneNumber(1);
  if (padding->size() == 1) padding->Add(padding->Get(0));
  if (padding->size() == 2) {
    const uint32_t height = padding->Get(0);
    const uint32_t width = padding->Get(1);
    *padding = {};
    for (const uint32_t side : {height, height, width, width}) padding->Add(side);
  }
  if (padding->size() != 4) {
    return Invalid("padding is [", absl::StrJoin(*padding, ", "),
                   "]; give one number, or height and width, or above, below, left and right");
  }
  layer->output = layer->input();
  for (int side = 0; side < 4; ++side) layer->output[side / 2] += padding->Get(side);
  return absl::OkStatus();
}

absl::Status PlanGlobalPooling2D(absl::string_view kind, LayerPlan* layer) {
  MILLRACE_RETURN_IF_ERROR(CheckImage(kind, layer->input()));
  layer->output = {layer->input().back()};
  return absl::OkStatus();
}

absl::Status PlanGlobalPooling1D(absl::string_view kind, LayerPlan* layer) {
  MILLRACE_RETURN_IF_ERROR(CheckSequence(kind, layer->input()));
  layer->output = {layer->input().back()};
  return absl::OkStatus();
}

}  // namespace millrace::worker
