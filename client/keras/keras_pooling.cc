#include <cstdint>
#include <vector>

#include "client/keras/keras_kinds.h"
#include "client/keras/keras_values.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

template <typename Pool>
absl::Status TakePool2D(KerasConfig* config, Pool* pool) {
  MILLRACE_ASSIGN_OR_RETURN(const auto pool_size, config->TakeCounts("pool_size"));
  pool->mutable_pool_size()->Assign(pool_size.begin(), pool_size.end());
  MILLRACE_ASSIGN_OR_RETURN(const auto strides, config->TakeCounts("strides"));
  pool->mutable_strides()->Assign(strides.begin(), strides.end());
  MILLRACE_ASSIGN_OR_RETURN(const Padding padding, TakePadding(config));
  pool->set_padding(padding);
  return ExpectChannelsLast(config);
}

template <typename Pool>
absl::Status TakePool1D(KerasConfig* config, Pool* pool) {
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t pool_size, config->TakeCountOfOne("pool_size"));
  pool->set_pool_size(pool_size);
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t strides, config->TakeCountOfOne("strides"));
  pool->set_strides(strides);
  MILLRACE_ASSIGN_OR_RETURN(const Padding padding, TakePadding(config));
  pool->set_padding(padding);
  return ExpectChannelsLast(config);
}

absl::Status TakeGlobalPool(KerasConfig* config) {
  MILLRACE_RETURN_IF_ERROR(config->Expect("keepdims", {false}));
  return ExpectChannelsLast(config);
}

}  // namespace

absl::Status ConvertMaxPooling2D(KerasConfig* config, LayerSpecs* layers) {
  return TakePool2D(config, layers->emplace_back().mutable_max_pool2d());
}

absl::Status ConvertAveragePooling2D(KerasConfig* config, LayerSpecs* layers) {
  return TakePool2D(config, layers->emplace_back().mutable_average_pooling2d());
}

absl::Status ConvertMaxPooling1D(KerasConfig* config, LayerSpecs* layers) {
  return TakePool1D(config, layers->emplace_back().mutable_max_pool1d());
}

absl::Status ConvertAveragePooling1D(KerasConfig* config, LayerSpecs* layers) {
  return TakePool1D(config, layers->emplace_back().mutable_average_pooling1d());
}

absl::Status ConvertGlobalAveragePooling2D(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_global_average_pooling2d();
  return TakeGlobalPool(config);
}

absl::Status ConvertGlobalMaxPooling2D(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_global_max_pooling2d();
  return TakeGlobalPool(config);
}

absl::Status ConvertGlobalAveragePooling1D(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_global_average_pooling1d();
  return TakeGlobalPool(config);
}

absl::Status ConvertGlobalMaxPooling1D(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_global_max_pooling1d();
  return TakeGlobalPool(config);
}

}  // namespace millrace::client
