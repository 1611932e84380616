#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client/keras/keras_kinds.h"
#include "client/keras/keras_values.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

using Counts = google::protobuf::RepeatedField<uint32_t>;

// One number for each side, where they are other than 1 and therefore said.
absl::Status TakeSides(KerasConfig* config, const std::string& field, bool say_ones,
                       Counts* sides) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> counts, config->TakeCounts(field));
  const bool ones = std::all_of(counts.begin(), counts.end(), [](uint32_t n) { return n == 1; });
  if (say_ones || !ones) sides->Assign(counts.begin(), counts.end());
  return absl::OkStatus();
}

// 0: left out, or 1.
absl::StatusOr<uint32_t> TakeFactor(KerasConfig* config, const std::string& field) {
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t factor, config->TakeCountOfOne(field));
  return factor == 1 ? 0 : factor;
}

template <typename Kind>
absl::Status TakeBias(KerasConfig* config, Kind* kind) {
  MILLRACE_ASSIGN_OR_RETURN(const Activation activation, TakeActivation(config, "activation"));
  kind->set_activation(activation);
  MILLRACE_ASSIGN_OR_RETURN(const bool use_bias, config->TakeBool("use_bias", true));
  kind->set_no_bias(!use_bias);
  MILLRACE_ASSIGN_OR_RETURN(const auto bias, TakeVariableFields(config, "bias", ZEROS));
  kind->set_bias_initializer(bias.initializer);
  if (bias.has_regularizer) *kind->mutable_bias_regularizer() = bias.regularizer;
  return absl::OkStatus();
}

// `role`: what Keras calls the kernel.
template <typename Kind>
absl::Status TakeKernel(KerasConfig* config, const std::string& role, Kind* kind) {
  MILLRACE_ASSIGN_OR_RETURN(const auto kernel, TakeVariableFields(config, role, GLOROT_UNIFORM));
  kind->set_kernel_initializer(kernel.initializer);
  if (kernel.has_regularizer) *kind->mutable_kernel_regularizer() = kernel.regularizer;
  return absl::OkStatus();
}

absl::Status TakeDepthwiseKernel(KerasConfig* config, DepthwiseConv2D* conv) {
  MILLRACE_ASSIGN_OR_RETURN(const auto kernel,
                            TakeVariableFields(config, "depthwise", GLOROT_UNIFORM));
  conv->set_depthwise_initializer(kernel.initializer);
  if (kernel.has_regularizer) *conv->mutable_depthwise_regularizer() = kernel.regularizer;
  return absl::OkStatus();
}

// What kernels of two dimensions have, and DepthwiseConv2D without its variables.
template <typename Kind>
absl::Status TakeWindows(KerasConfig* config, Kind* conv) {
  MILLRACE_RETURN_IF_ERROR(
      TakeSides(config, "kernel_size", /*say_ones=*/true, conv->mutable_kernel_size()));
  MILLRACE_RETURN_IF_ERROR(
      TakeSides(config, "strides", /*say_ones=*/true, conv->mutable_strides()));
  MILLRACE_RETURN_IF_ERROR(
      TakeSides(config, "dilation_rate", /*say_ones=*/false, conv->mutable_dilation_rate()));
  MILLRACE_ASSIGN_OR_RETURN(const Padding padding, TakePadding(config));
  conv->set_padding(padding);
  return ExpectChannelsLast(config);
}

absl::Status TakeDepthwise(KerasConfig* config, DepthwiseConv2D* conv) {
  MILLRACE_RETURN_IF_ERROR(TakeWindows(config, conv));
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t multiplier, TakeFactor(config, "depth_multiplier"));
  conv->set_depth_multiplier(multiplier);
  // Keras 2 writes those of the convolution that it is made of.
  MILLRACE_RETURN_IF_ERROR(config->Expect("groups", {1}));
  return TakeDepthwiseKernel(config, conv);
}

}  // namespace

absl::Status ConvertDense(KerasConfig* config, LayerSpecs* layers) {
  Dense* dense = layers->emplace_back().mutable_dense();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t units, config->TakeCount("units"));
  dense->set_units(units);
  MILLRACE_RETURN_IF_ERROR(TakeKernel(config, "kernel", dense));
  return TakeBias(config, dense);
}

absl::Status ConvertConv1D(KerasConfig* config, LayerSpecs* layers) {
  Conv1D* conv = layers->emplace_back().mutable_conv1d();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t filters, config->TakeCount("filters"));
  conv->set_filters(filters);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t size, config->TakeCountOfOne("kernel_size"));
  conv->set_kernel_size(size);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t strides, TakeFactor(config, "strides"));
  conv->set_strides(strides);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t dilation, TakeFactor(config, "dilation_rate"));
  conv->set_dilation_rate(dilation);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t groups, TakeFactor(config, "groups"));
  conv->set_groups(groups);
  MILLRACE_ASSIGN_OR_RETURN(const Padding padding, TakePadding(config, /*causal=*/true));
  conv->set_padding(padding);
  MILLRACE_RETURN_IF_ERROR(ExpectChannelsLast(config));
  MILLRACE_RETURN_IF_ERROR(TakeKernel(config, "kernel", conv));
  return TakeBias(config, conv);
}

absl::Status ConvertConv2D(KerasConfig* config, LayerSpecs* layers) {
  Conv2D* conv = layers->emplace_back().mutable_conv2d();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t filters, config->TakeCount("filters"));
  conv->set_filters(filters);
  MILLRACE_RETURN_IF_ERROR(TakeWindows(config, conv));
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t groups, TakeFactor(config, "groups"));
  conv->set_groups(groups);
  MILLRACE_RETURN_IF_ERROR(TakeKernel(config, "kernel", conv));
  return TakeBias(config, conv);
}

absl::Status ConvertDepthwiseConv2D(KerasConfig* config, LayerSpecs* layers) {
  DepthwiseConv2D* conv = layers->emplace_back().mutable_depthwise_conv2d();
  MILLRACE_RETURN_IF_ERROR(TakeDepthwise(config, conv));
  return TakeBias(config, conv);
}

// Each channel for itself, then across the channels of each pixel.
absl::Status ConvertSeparableConv2D(KerasConfig* config, LayerSpecs* layers) {
  LayerSpec& first = layers->emplace_back();
  first.set_name("_depthwise");
  first.mutable_depthwise_conv2d()->set_no_bias(true);
  MILLRACE_RETURN_IF_ERROR(TakeDepthwise(config, first.mutable_depthwise_conv2d()));
  Conv2D* across = layers->emplace_back().mutable_conv2d();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t filters, config->TakeCount("filters"));
  across->set_filters(filters);
  across->add_kernel_size(1);
  // Keras 2 writes those of a kernel that there is none of.
  config->Take("kernel_initializer");
  MILLRACE_RETURN_IF_ERROR(TakeKernel(config, "pointwise", across));
  return TakeBias(config, across);
}

}  // namespace millrace::client
