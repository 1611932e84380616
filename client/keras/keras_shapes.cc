#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "client/keras/keras_kinds.h"
#include "client/keras/keras_values.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

bool IsSize(const KerasJson& value) {
  return value.is_number_integer() && value.get<int64_t>() >= 0 &&
         value.get<int64_t>() <= std::numeric_limits<uint32_t>::max();
}

// All numbers of lists within lists, in their order. False: something else is among them.
bool Flattened(const KerasJson& value, std::vector<uint32_t>* numbers) {
  if (IsSize(value)) {
    numbers->push_back(value.get<uint32_t>());
    return true;
  }
  return value.is_array() && std::all_of(value.begin(), value.end(), [&](const KerasJson& one) {
           return Flattened(one, numbers);
         });
}

}  // namespace

absl::Status ConvertFlatten(KerasConfig* config, LayerSpecs* layers) {
  layers->emplace_back().mutable_flatten();
  return ExpectChannelsLast(config);
}

absl::Status ConvertReshape(KerasConfig* config, LayerSpecs* layers) {
  Reshape* reshape = layers->emplace_back().mutable_reshape();
  const KerasJson& shape = config->Take("target_shape");
  const auto is_size = [](const KerasJson& one) { return IsSize(one) || one == -1; };
  if (!shape.is_array() || shape.empty() || !std::all_of(shape.begin(), shape.end(), is_size)) {
    return KerasFieldError("target_shape", shape, "dimensions, of which one may be -1");
  }
  for (const KerasJson& one : shape) reshape->add_target_shape(one.get<int64_t>());
  return absl::OkStatus();
}

absl::Status ConvertPermute(KerasConfig* config, LayerSpecs* layers) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> dims, config->TakeCounts("dims"));
  layers->emplace_back().mutable_permute()->mutable_dims()->Assign(dims.begin(), dims.end());
  return absl::OkStatus();
}

absl::Status ConvertZeroPadding2D(KerasConfig* config, LayerSpecs* layers) {
  ZeroPadding2D* padding = layers->emplace_back().mutable_zero_padding2d();
  const KerasJson& value = config->Take("padding");
  std::vector<uint32_t> sides;
  if (!value.is_null() && (!Flattened(value, &sides) || sides.empty() || sides.size() > 4)) {
    return KerasFieldError("padding", value, "one number, two, or two pairs of them");
  }
  padding->mutable_padding()->Assign(sides.begin(), sides.end());
  return ExpectChannelsLast(config);
}

absl::Status ConvertUpSampling2D(KerasConfig* config, LayerSpecs* layers) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<uint32_t> size, config->TakeCounts("size"));
  layers->emplace_back().mutable_up_sampling2d()->mutable_size()->Assign(size.begin(), size.end());
  MILLRACE_RETURN_IF_ERROR(config->Expect("interpolation", {"nearest"}));
  return ExpectChannelsLast(config);
}

absl::Status ConvertConcatenate(KerasConfig* config, LayerSpecs* layers) {
  const KerasJson& axis = config->Take("axis");
  const bool sane = axis.is_null() || (axis.is_number_integer() && axis.get<int64_t>() >= -100 &&
                                       axis.get<int64_t>() <= 100);
  if (!sane) return KerasFieldError("axis", axis, "a dimension's number");
  layers->emplace_back().mutable_concatenate()->set_axis(axis.is_null() ? -1 : axis.get<int32_t>());
  return absl::OkStatus();
}

absl::Status ConvertAdd(KerasConfig* /*config*/, LayerSpecs* layers) {
  layers->emplace_back().mutable_add();
  return absl::OkStatus();
}

absl::Status ConvertSubtract(KerasConfig* /*config*/, LayerSpecs* layers) {
  layers->emplace_back().mutable_subtract();
  return absl::OkStatus();
}

absl::Status ConvertMultiply(KerasConfig* /*config*/, LayerSpecs* layers) {
  layers->emplace_back().mutable_multiply();
  return absl::OkStatus();
}

absl::Status ConvertAverage(KerasConfig* /*config*/, LayerSpecs* layers) {
  layers->emplace_back().mutable_average();
  return absl::OkStatus();
}

absl::Status ConvertMaximum(KerasConfig* /*config*/, LayerSpecs* layers) {
  layers->emplace_back().mutable_maximum();
  return absl::OkStatus();
}

}  // namespace millrace::client
