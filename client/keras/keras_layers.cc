#include "client/keras/keras_layers.h"

#include <cmath>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/printable.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// "GlorotUniform" and "glorot_uniform" are the same to Keras, in both versions.
std::string EnumName(absl::string_view name) {
  std::string upper;
  for (size_t i = 0; i < name.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(name[i]) && absl::ascii_islower(name[i - 1])) upper += '_';
    upper += absl::ascii_toupper(name[i]);
  }
  return upper;
}

// What a field names by its class: "relu", or {"class_name": "ReLU", "config": {...}}.
std::string ClassOf(const KerasJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return "";
  const auto name = value.find("class_name");
  return name != value.end() && name->is_string() ? name->get<std::string>() : "";
}

absl::StatusOr<Activation> ToActivation(const std::string& field, const KerasJson& value) {
  if (value.is_null()) return LINEAR;
  Activation activation;
  std::string name = value.is_string() ? EnumName(value.get<std::string>()) : "";
  if (name == "SWISH") name = "SILU";
  if (Activation_Parse(name, &activation)) return activation;
  return KerasFieldError(field, value,
                         absl::StrCat("one of ", ValueNames(Activation_descriptor())));
}

absl::StatusOr<Activation> TakeActivation(KerasConfig* config, const std::string& field) {
  return ToActivation(field, config->Take(field));
}

absl::StatusOr<Initializer> TakeInitializer(KerasConfig* config, const std::string& field) {
  const KerasJson& value = config->Take(field);
  if (value.is_null()) return INITIALIZER_UNSPECIFIED;
  Initializer initializer;
  if (Initializer_Parse(EnumName(ClassOf(value)), &initializer)) return initializer;
  return KerasFieldError(field, value,
                         absl::StrCat("one of ", ValueNames(Initializer_descriptor()),
                                      " (or any of them, where the weights are loaded)"));
}

absl::StatusOr<Padding> TakePadding(KerasConfig* config) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string name, config->TakeString("padding", "valid"));
  Padding padding;
  if (Padding_Parse(absl::AsciiStrToUpper(name), &padding)) return padding;
  return KerasFieldError("padding", name, "\"valid\" or \"same\"");
}

absl::Status ExpectChannelsLast(KerasConfig* config) {
  return config->Expect("data_format", {"channels_last"});
}

// A Dense or a convolution.
template <typename Kind>
absl::Status TakeKernelAndBias(KerasConfig* config, Kind* kind) {
  MILLRACE_ASSIGN_OR_RETURN(const Activation activation, TakeActivation(config, "activation"));
  kind->set_activation(activation);
  MILLRACE_ASSIGN_OR_RETURN(const bool use_bias, config->TakeBool("use_bias", true));
  kind->set_no_bias(!use_bias);
  MILLRACE_ASSIGN_OR_RETURN(const Initializer kernel,
                            TakeInitializer(config, "kernel_initializer"));
  if (kernel != GLOROT_UNIFORM) kind->set_kernel_initializer(kernel);
  MILLRACE_ASSIGN_OR_RETURN(const Initializer bias, TakeInitializer(config, "bias_initializer"));
  if (bias != ZEROS) kind->set_bias_initializer(bias);
  return absl::OkStatus();
}

absl::Status ConvertDense(KerasConfig* config, LayerSpec* layer) {
  Dense* dense = layer->mutable_dense();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t units, config->TakeCount("units"));
  dense->set_units(units);
  return TakeKernelAndBias(config, dense);
}

absl::Status ConvertConv2D(KerasConfig* config, LayerSpec* layer) {
  Conv2D* conv = layer->mutable_conv2d();
  MILLRACE_ASSIGN_OR_RETURN(const uint32_t filters, config->TakeCount("filters"));
  conv->set_filters(filters);
  MILLRACE_ASSIGN_OR_RETURN(const auto kernel_size, config->TakeCounts("kernel_size"));
  conv->mutable_kernel_size()->Assign(kernel_size.begin(), kernel_size.end());
  MILLRACE_ASSIGN_OR_RETURN(const auto strides, config->TakeCounts("strides"));
  conv->mutable_strides()->Assign(strides.begin(), strides.end());
  MILLRACE_ASSIGN_OR_RETURN(const Padding padding, TakePadding(config));
  conv->set_padding(padding);
  MILLRACE_RETURN_IF_ERROR(ExpectChannelsLast(config));
  MILLRACE_RETURN_IF_ERROR(config->Expect("dilation_rate", {1, {1, 1}}));
  MILLRACE_RETURN_IF_ERROR(config->Expect("groups", {1}));
  return TakeKernelAndBias(config, conv);
}

absl::Status ConvertMaxPool2D(KerasConfig* config, LayerSpec* layer) {
  MaxPool2D* pool = layer->mutable_max_pool2d();
  MILLRACE_ASSIGN_OR_RETURN(const auto pool_size, config->TakeCounts("pool_size"));
  pool->mutable_pool_size()->Assign(pool_size.begin(), pool_size.end());
  MILLRACE_ASSIGN_OR_RETURN(const auto strides, config->TakeCounts("strides"));
  pool->mutable_strides()->Assign(strides.begin(), strides.end());
  MILLRACE_ASSIGN_OR_RETURN(const Padding padding, TakePadding(config));
  pool->set_padding(padding);
  return ExpectChannelsLast(config);
}

absl::Status ConvertFlatten(KerasConfig* config, LayerSpec* layer) {
  layer->mutable_flatten();
  return ExpectChannelsLast(config);
}

absl::Status ConvertDropout(KerasConfig* config, LayerSpec* layer) {
  MILLRACE_ASSIGN_OR_RETURN(const double rate, config->TakeNumber("rate", NAN));
  layer->mutable_dropout()->set_rate(rate);
  return absl::OkStatus();
}

absl::Status ConvertActivation(KerasConfig* config, LayerSpec* layer) {
  MILLRACE_ASSIGN_OR_RETURN(const Activation activation, TakeActivation(config, "activation"));
  layer->mutable_activation()->set_function(activation);
  // Of the function, which is not the layer's.
  if (activation == LEAKY_RELU) layer->mutable_activation()->set_negative_slope(0.2);
  return absl::OkStatus();
}

absl::Status ConvertRelu(KerasConfig* config, LayerSpec* layer) {
  layer->mutable_activation()->set_function(RELU);
  MILLRACE_RETURN_IF_ERROR(config->Expect("negative_slope", {0.0}));
  return config->Expect("threshold", {0.0});
}

absl::Status ConvertSoftmax(KerasConfig* config, LayerSpec* layer) {
  layer->mutable_activation()->set_function(SOFTMAX);
  return config->Expect("axis", {-1, {-1}});
}

absl::Status ConvertBatchNormalization(KerasConfig* config, LayerSpec* layer) {
  BatchNormalization* norm = layer->mutable_batch_normalization();
  MILLRACE_ASSIGN_OR_RETURN(const double momentum, config->TakeNumber("momentum", 0.99));
  norm->set_momentum(momentum);
  MILLRACE_ASSIGN_OR_RETURN(const double epsilon, config->TakeNumber("epsilon", 0.001));
  norm->set_epsilon(epsilon);
  MILLRACE_ASSIGN_OR_RETURN(const bool center, config->TakeBool("center", true));
  norm->set_no_center(!center);
  MILLRACE_ASSIGN_OR_RETURN(const bool scale, config->TakeBool("scale", true));
  norm->set_no_scale(!scale);
  MILLRACE_ASSIGN_OR_RETURN(const Initializer beta, TakeInitializer(config, "beta_initializer"));
  if (beta != ZEROS) norm->set_beta_initializer(beta);
  MILLRACE_ASSIGN_OR_RETURN(const Initializer gamma, TakeInitializer(config, "gamma_initializer"));
  if (gamma != ONES) norm->set_gamma_initializer(gamma);
  // Where they begin is long forgotten when somebody asks for them.
  config->Take("moving_mean_initializer");
  config->Take("moving_variance_initializer");
  MILLRACE_RETURN_IF_ERROR(config->Expect("renorm", {false}));
  config->Take("renorm_momentum");
  // Keras 2 writes the last dimension's number.
  return config->Expect("axis", {-1, {-1}, {3}, {1}});
}

absl::Status ConvertAdd(KerasConfig* /*config*/, LayerSpec* layer) {
  layer->mutable_add();
  return absl::OkStatus();
}

absl::Status ConvertConcatenate(KerasConfig* config, LayerSpec* layer) {
  MILLRACE_ASSIGN_OR_RETURN(const double axis, config->TakeNumber("axis", -1));
  layer->mutable_concatenate()->set_axis(static_cast<int32_t>(axis));
  return absl::OkStatus();
}

absl::Status ConvertGlobalAveragePooling2D(KerasConfig* config, LayerSpec* layer) {
  layer->mutable_global_average_pooling2d();
  return ExpectChannelsLast(config);
}

struct Conversion {
  const char* class_name;
  absl::Status (*convert)(KerasConfig*, LayerSpec*);
};

constexpr Conversion kConversions[] = {
    {"Activation", ConvertActivation},
    {"Add", ConvertAdd},
    {"BatchNormalization", ConvertBatchNormalization},
    {"Concatenate", ConvertConcatenate},
    {"Conv2D", ConvertConv2D},
    {"Dense", ConvertDense},
    {"Dropout", ConvertDropout},
    {"Flatten", ConvertFlatten},
    {"GlobalAveragePooling2D", ConvertGlobalAveragePooling2D},
    {"MaxPooling2D", ConvertMaxPool2D},
    {"ReLU", ConvertRelu},
    {"Softmax", ConvertSoftmax},
};

absl::Status UnknownClass(const std::string& class_name) {
  const auto name = [](std::string* out, const Conversion& one) { out->append(one.class_name); };
  return absl::InvalidArgumentError(absl::StrCat(
      "its class is ", PrintableName(class_name), ", which cannot be converted; must be one of ",
      absl::StrJoin(kConversions, ", ", name),
      ". Code of your own (a Lambda, a custom class) needs a "
      "worker of your own"));
}

}  // namespace

absl::Status ConvertKerasLayer(const std::string& class_name, const KerasJson& config,
                               LayerSpec* layer) {
  for (const Conversion& conversion : kConversions) {
    if (class_name != conversion.class_name) continue;
    KerasConfig fields(config);
    MILLRACE_RETURN_IF_ERROR(conversion.convert(&fields, layer));
    const KerasJson& trainable = fields.Take("trainable");
    if (trainable.is_boolean() && !trainable.get<bool>()) layer->set_trainable(false);
    return fields.ExpectNothingElse();
  }
  return UnknownClass(class_name);
}

}  // namespace millrace::client
