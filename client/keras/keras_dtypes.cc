#include "client/keras/keras_dtypes.h"

#include <algorithm>
#include <array>

#include "client/keras/keras_call.h"

namespace millrace::client {
namespace {

constexpr std::array kOtherFloats = {"mixed_bfloat16", "mixed_float16", "bfloat16", "float16",
                                     "float64"};

// "float32", or {"class_name": "DTypePolicy", "config": {"name": "mixed_bfloat16"}}.
std::string PolicyOf(const KerasJson& layer) {
  const KerasJson& dtype = ValueAt(ValueAt(layer, "config"), "dtype");
  if (dtype.is_string()) return dtype.get<std::string>();
  return TextAt(ValueAt(dtype, "config"), "name");
}

void AddPolicies(const KerasJson& model, std::set<std::string>* policies) {
  for (const KerasJson& layer : ListAt(ValueAt(model, "config"), "layers")) {
    if (IsKerasInputLayer(layer)) continue;
    const std::string policy = PolicyOf(layer);
    if (std::find(kOtherFloats.begin(), kOtherFloats.end(), policy) != kOtherFloats.end()) {
      policies->insert(policy);
    }
    AddPolicies(layer, policies);
  }
}

}  // namespace

std::set<std::string> KerasFloatPolicies(const KerasJson& model) {
  std::set<std::string> policies;
  AddPolicies(model, &policies);
  return policies;
}

}  // namespace millrace::client
