// CheckModelSpec, field by field in the order of protos/model.proto.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"

namespace millrace {
namespace {

using ::google::protobuf::RepeatedField;

constexpr int kMaxInputs = 1000;  // Of a layer.
constexpr uint64_t kMaxRows = (uint64_t{1} << 32) - 1;
constexpr uint32_t kMaxWindow = 1 << 16;  // Of a kernel, a pool, a stride.
constexpr int kMaxOptions = 100;
constexpr size_t kMaxOptionBytes = 1000;

// A window's sizes: none (where that has a meaning), one, or height and width.
absl::Status CheckWindow(absl::string_view path, const RepeatedField<uint32_t>& sizes,
                         bool required) {
  if (sizes.size() > 2 || (required && sizes.empty())) {
    return FieldError(path, absl::StrCat(sizes.size(), " numbers"),
                      absl::StrCat(required ? "" : "none, ", "one number, or height and width"));
  }
  for (int i = 0; i < sizes.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckAtLeastOne(absl::StrCat(path, "[", i, "]"), sizes.Get(i), kMaxWindow));
  }
  return absl::OkStatus();
}

absl::Status CheckRegularizer(const Regularizer& regularizer, absl::string_view path) {
  for (const auto& [name, value] : {std::pair("l1", regularizer.l1()), {"l2", regularizer.l2()}}) {
    if (value >= 0 && std::isfinite(static_cast<float>(value))) continue;
    const bool in_double = value >= 0 && std::isfinite(value);
    return FieldError(
        absl::StrCat(path, ".", name), absl::StrCat(value),
        absl::StrCat("a finite number, at least 0", in_double ? ", as a float32" : ""));
  }
  return absl::OkStatus();
}

template <typename Kind>
absl::Status CheckRegularizers(const Kind& kind, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckRegularizer(kind.kernel_regularizer(), absl::StrCat(path, ".kernel_regularizer")));
  return CheckRegularizer(kind.bias_regularizer(), absl::StrCat(path, ".bias_regularizer"));
}

// Of what takes no CAUSAL.
absl::Status CheckNotCausal(Padding padding, absl::string_view path) {
  if (padding != CAUSAL) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".padding"), "CAUSAL", "VALID or SAME");
}

bool AreOne(const RepeatedField<uint32_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](uint32_t number) { return number == 1; });
}

std::string ListOf(const RepeatedField<uint32_t>& numbers) {
  if (numbers.size() == 1) return absl::StrCat(numbers[0]);
  return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
}

absl::Status CheckDilation(const RepeatedField<uint32_t>& strides,
                           const RepeatedField<uint32_t>& dilation, absl::string_view path) {
  if (AreOne(strides) || AreOne(dilation)) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".dilation_rate"), ListOf(dilation),
                    absl::StrCat("1, since strides is ", ListOf(strides)));
}

absl::Status CheckFiltersAndGroups(uint32_t filters, uint32_t groups, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckAtLeastOne(absl::StrCat(path, ".filters"), filters, kMaxUnits));
  if (groups == 0 || filters % groups == 0) return absl::OkStatus();
  return FieldError(absl::StrCat(path, ".groups"), absl::StrCat(groups),
                    absl::StrCat("a divisor of filters, ", filters));
}

// What slides over images.
template <typename Conv>
absl::Status CheckSliding(const Conv& conv, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".kernel_size"), conv.kernel_size(), /*required=*/true));
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".strides"), conv.strides(), /*required=*/false));
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".dilation_rate"), conv.dilation_rate(), /*required=*/false));
  MILLRACE_RETURN_IF_ERROR(CheckDilation(conv.strides(), conv.dilation_rate(), path));
  return CheckNotCausal(conv.padding(), path);
}

absl::Status CheckConv2D(const Conv2D& conv2d, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckFiltersAndGroups(conv2d.filters(), conv2d.groups(), path));
  MILLRACE_RETURN_IF_ERROR(CheckSliding(conv2d, path));
  return CheckRegularizers(conv2d, path);
}

absl::Status CheckDepthwiseConv2D(const DepthwiseConv2D& conv, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckSliding(conv, path));
  MILLRACE_RETURN_IF_ERROR(
      CheckNumber(absl::StrCat(path, ".depth_multiplier"), conv.depth_multiplier(), 0, kMaxUnits));
  if (conv.strides_size() == 2 && conv.strides(0) != conv.strides(1)) {
    return FieldError(absl::StrCat(path, ".strides"), ListOf(conv.strides()),
                      "equal for height and width");
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckRegularizer(conv.depthwise_regularizer(), absl::StrCat(path, ".depthwise_regularizer")));
  return CheckRegularizer(conv.bias_regularizer(), absl::StrCat(path, ".bias_regularizer"));
}

// A size of a window over sequences; 0 has a meaning.
absl::Status CheckSteps(absl::string_view path, absl::string_view field, uint32_t steps) {
  return CheckNumber(absl::StrCat(path, ".", field), steps, 0, kMaxWindow);
}

absl::Status CheckConv1D(const Conv1D& conv1d, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckFiltersAndGroups(conv1d.filters(), conv1d.groups(), path));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".kernel_size"), conv1d.kernel_size(), kMaxWindow));
  MILLRACE_RETURN_IF_ERROR(CheckSteps(path, "strides", conv1d.strides()));
  MILLRACE_RETURN_IF_ERROR(CheckSteps(path, "dilation_rate", conv1d.dilation_rate()));
  RepeatedField<uint32_t> strides, dilation;
  strides.Add(std::max(conv1d.strides(), 1u));
  dilation.Add(std::max(conv1d.dilation_rate(), 1u));
  MILLRACE_RETURN_IF_ERROR(CheckDilation(strides, dilation, path));
  return CheckRegularizers(conv1d, path);
}

template <typename Pool>
absl::Status CheckPool2D(const Pool& pool, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".pool_size"), pool.pool_size(), /*required=*/false));
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".strides"), pool.strides(), /*required=*/false));
  return CheckNotCausal(pool.padding(), path);
}

template <typename Pool>
absl::Status CheckPool1D(const Pool& pool, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckSteps(path, "pool_size", pool.pool_size()));
  MILLRACE_RETURN_IF_ERROR(CheckSteps(path, "strides", pool.strides()));
  return CheckNotCausal(pool.padding(), path);
}

template <typename Normalization>
absl::Status CheckEpsilonAndRegularizers(const Normalization& normalization,
                                         absl::string_view path) {
  if (normalization.has_epsilon()) {
    MILLRACE_RETURN_IF_ERROR(
        CheckPositive(absl::StrCat(path, ".epsilon"), normalization.epsilon()));
  }
  MILLRACE_RETURN_IF_ERROR(
      CheckRegularizer(normalization.beta_regularizer(), absl::StrCat(path, ".beta_regularizer")));
  return CheckRegularizer(normalization.gamma_regularizer(),
                          absl::StrCat(path, ".gamma_regularizer"));
}

absl::Status CheckBatchNormalization(const BatchNormalization& normalization,
                                     absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckFraction(absl::StrCat(path, ".momentum"), normalization.momentum()));
  return CheckEpsilonAndRegularizers(normalization, path);
}

absl::Status CheckDense(const Dense& dense, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckAtLeastOne(absl::StrCat(path, ".units"), dense.units(), kMaxUnits));
  return CheckRegularizers(dense, path);
}

absl::Status CheckEmbedding(const Embedding& embedding, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".input_dim"), embedding.input_dim(), kMaxRows));
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".output_dim"), embedding.output_dim(), kMaxUnits));
  return CheckRegularizer(embedding.embeddings_regularizer(),
                          absl::StrCat(path, ".embeddings_regularizer"));
}

// How many dimensions there are to be is known with the data.
absl::Status CheckPermute(const Permute& permute, absl::string_view path) {
  std::vector<uint32_t> sorted(permute.dims().begin(), permute.dims().end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] == i + 1) continue;
    return FieldError(absl::StrCat(path, ".dims"), ListOf(permute.dims()),
                      absl::StrCat("each of 1 to ", sorted.size(), " once"));
  }
  if (!sorted.empty()) return absl::OkStatus();
  return NotSet(absl::StrCat(path, ".dims"), "each of 1, 2, ... once, as many as there are");
}

// As many numbers as `most`, or fewer; none of them is larger than a window.
absl::Status CheckSides(absl::string_view path, const RepeatedField<uint32_t>& sides, int most) {
  if (sides.size() > most) {
    return FieldError(path, absl::StrCat(sides.size(), " numbers"), absl::StrCat("at most ", most));
  }
  for (int i = 0; i < sides.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckNumber(absl::StrCat(path, "[", i, "]"), sides.Get(i), 0, kMaxWindow));
  }
  return absl::OkStatus();
}

absl::Status CheckKind(const LayerSpec& layer, absl::string_view path) {
  switch (layer.kind_case()) {
    case LayerSpec::kDense:
      return CheckDense(layer.dense(), absl::StrCat(path, ".dense"));
    case LayerSpec::kConv2D:
      return CheckConv2D(layer.conv2d(), absl::StrCat(path, ".conv2d"));
    case LayerSpec::kDepthwiseConv2D:
      return CheckDepthwiseConv2D(layer.depthwise_conv2d(),
                                  absl::StrCat(path, ".depthwise_conv2d"));
    case LayerSpec::kConv1D:
      return CheckConv1D(layer.conv1d(), absl::StrCat(path, ".conv1d"));
    case LayerSpec::kMaxPool1D:
      return CheckPool1D(layer.max_pool1d(), absl::StrCat(path, ".max_pool1d"));
    case LayerSpec::kAveragePooling1D:
      return CheckPool1D(layer.average_pooling1d(), absl::StrCat(path, ".average_pooling1d"));
    case LayerSpec::kMaxPool2D:
      return CheckPool2D(layer.max_pool2d(), absl::StrCat(path, ".max_pool2d"));
    case LayerSpec::kAveragePooling2D:
      return CheckPool2D(layer.average_pooling2d(), absl::StrCat(path, ".average_pooling2d"));
    case LayerSpec::kUpSampling2D:
      return CheckWindow(absl::StrCat(path, ".up_sampling2d.size"), layer.up_sampling2d().size(),
                         /*required=*/false);
    case LayerSpec::kZeroPadding2D:
      return CheckSides(absl::StrCat(path, ".zero_padding2d.padding"),
                        layer.zero_padding2d().padding(), 4);
    case LayerSpec::kEmbedding:
      return CheckEmbedding(layer.embedding(), absl::StrCat(path, ".embedding"));
    case LayerSpec::kLayerNormalization:
      return CheckEpsilonAndRegularizers(layer.layer_normalization(),
                                         absl::StrCat(path, ".layer_normalization"));
    case LayerSpec::kPermute:
      return CheckPermute(layer.permute(), absl::StrCat(path, ".permute"));
    case LayerSpec::kDropout:
      return CheckFraction(absl::StrCat(path, ".dropout.rate"), layer.dropout().rate());
    case LayerSpec::kBatchNormalization:
      return CheckBatchNormalization(layer.batch_normalization(),
                                     absl::StrCat(path, ".batch_normalization"));
    case LayerSpec::kFlatten:
    case LayerSpec::kActivation:
    case LayerSpec::kAdd:
    case LayerSpec::kConcatenate:
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalMaxPooling2D:
    case LayerSpec::kGlobalAveragePooling1D:
    case LayerSpec::kGlobalMaxPooling1D:
    case LayerSpec::kSubtract:
    case LayerSpec::kMultiply:
    case LayerSpec::kAverage:
    case LayerSpec::kMaximum:
    case LayerSpec::kReshape:
    case LayerSpec::kRescaling:
      return absl::OkStatus();
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return NotSet(path, absl::StrCat("one of ", LayerKinds()));
}

absl::Status CheckLayers(const ModelSpec& model) {
  if (model.layers().empty()) {
    if (model.has_custom()) return absl::OkStatus();
    return NotSet("model.layers", "at least one layer, or model.custom set in their place");
  }
  if (model.layers_size() > kMaxLayers) {
    return FieldError("model.layers", absl::StrCat(model.layers_size(), " layers"),
                      absl::StrCat("at most ", kMaxLayers));
  }
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < model.layers_size(); ++i) {
    const std::string path = absl::StrCat("model.layers[", i, "]");
    MILLRACE_RETURN_IF_ERROR(CheckLayerSpec(model.layers(i), path));
    const std::string name = LayerName(model, i);
    if (!names.insert(name).second) {
      return FieldError(absl::StrCat(path, ".name"), absl::StrCat("'", name, "'"),
                        "different from the names of the layers before it");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFullName(absl::string_view path, const std::string& name) {
  if (name.empty()) return NotSet(path, "a name");
  return CheckName(path, name);
}

absl::Status CheckCustom(const CustomModel& custom) {
  MILLRACE_RETURN_IF_ERROR(CheckFullName("model.custom.name", custom.name()));
  if (custom.options_size() > kMaxOptions) {
    return FieldError("model.custom.options", absl::StrCat(custom.options_size(), " options"),
                      absl::StrCat("at most ", kMaxOptions));
  }
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < custom.options_size(); ++i) {
    const ModelOption& option = custom.options(i);
    const std::string path = absl::StrCat("model.custom.options[", i, "]");
    MILLRACE_RETURN_IF_ERROR(CheckFullName(absl::StrCat(path, ".name"), option.name()));
    if (!names.insert(option.name()).second) {
      return FieldError(absl::StrCat(path, ".name"), absl::StrCat("'", option.name(), "'"),
                        "different from the names of the options before it");
    }
    if (option.value().size() <= kMaxOptionBytes) continue;
    return FieldError(absl::StrCat(path, ".value"), absl::StrCat(option.value().size(), " bytes"),
                      absl::StrCat("at most ", kMaxOptionBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayerSpec(const LayerSpec& layer, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckName(absl::StrCat(path, ".name"), layer.name()));
  if (layer.inputs_size() > kMaxInputs) {
    return FieldError(absl::StrCat(path, ".inputs"), absl::StrCat(layer.inputs_size(), " names"),
                      absl::StrCat("at most ", kMaxInputs));
  }
  for (int i = 0; i < layer.inputs_size(); ++i) {
    if (!layer.inputs(i).empty()) continue;
    return NotSet(absl::StrCat(path, ".inputs[", i, "]"),
                  "the name of a layer or of a feature of the data");
  }
  MILLRACE_RETURN_IF_ERROR(CheckName(absl::StrCat(path, ".variables_of"), layer.variables_of()));
  return CheckKind(layer, path);
}

absl::Status CheckModelSpec(const ModelSpec& model) {
  if (model.has_custom()) MILLRACE_RETURN_IF_ERROR(CheckCustom(model.custom()));
  MILLRACE_RETURN_IF_ERROR(CheckLayers(model));
  // What they mean to a custom model is its own affair.
  return model.has_custom() ? absl::OkStatus() : CheckOutputs(model);
}

}  // namespace millrace
