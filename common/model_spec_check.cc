// CheckModelSpec, field by field in the order of protos/model.proto.
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/field_checks.h"
#include "common/job_spec.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"
#include "google/protobuf/repeated_field.h"

namespace millrace {
namespace {

using ::google::protobuf::RepeatedField;

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

absl::Status CheckConv2D(const Conv2D& conv2d, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".filters"), conv2d.filters(), kMaxUnits));
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".kernel_size"), conv2d.kernel_size(), /*required=*/true));
  return CheckWindow(absl::StrCat(path, ".strides"), conv2d.strides(), /*required=*/false);
}

absl::Status CheckMaxPool2D(const MaxPool2D& pool, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckWindow(absl::StrCat(path, ".pool_size"), pool.pool_size(), /*required=*/false));
  return CheckWindow(absl::StrCat(path, ".strides"), pool.strides(), /*required=*/false);
}

absl::Status CheckLayer(const LayerSpec& layer, absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckName(absl::StrCat(path, ".name"), layer.name()));
  switch (layer.kind_case()) {
    case LayerSpec::kDense:
      return CheckAtLeastOne(absl::StrCat(path, ".dense.units"), layer.dense().units(), kMaxUnits);
    case LayerSpec::kConv2D:
      return CheckConv2D(layer.conv2d(), absl::StrCat(path, ".conv2d"));
    case LayerSpec::kMaxPool2D:
      return CheckMaxPool2D(layer.max_pool2d(), absl::StrCat(path, ".max_pool2d"));
    case LayerSpec::kDropout:
      return CheckFraction(absl::StrCat(path, ".dropout.rate"), layer.dropout().rate());
    case LayerSpec::kFlatten:
    case LayerSpec::kActivation:
      return absl::OkStatus();
    case LayerSpec::KIND_NOT_SET:
      break;
  }
  return NotSet(path, "one of dense, conv2d, max_pool2d, flatten, dropout, activation");
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
    MILLRACE_RETURN_IF_ERROR(CheckLayer(model.layers(i), path));
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

absl::Status CheckModelSpec(const ModelSpec& model) {
  if (model.has_custom()) MILLRACE_RETURN_IF_ERROR(CheckCustom(model.custom()));
  MILLRACE_RETURN_IF_ERROR(CheckLayers(model));
  // What they mean to a custom model is its own affair.
  return model.has_custom() ? absl::OkStatus() : CheckOutputs(model);
}

}  // namespace millrace
