#include "client/keras/keras_ranks.h"

#include <algorithm>

namespace millrace::client {
namespace {

// A question goes no further than so many layers, which the stack has room for. What is added in
// order is known at once.
constexpr size_t kMostLayers = 1000;

// 0: it is no shape.
size_t RankOf(const KerasJson& shape) {
  const bool is_shape =
      shape.is_array() && std::all_of(shape.begin(), shape.end(), [](const KerasJson& one) {
        return one.is_null() || one.is_number_integer();
      });
  return is_shape ? shape.size() : 0;
}

// Of what a layer gives, whatever comes in. 0: that depends.
size_t FixedRank(const LayerSpec& layer) {
  switch (layer.kind_case()) {
    case LayerSpec::kConv2D:
    case LayerSpec::kDepthwiseConv2D:
    case LayerSpec::kMaxPool2D:
    case LayerSpec::kAveragePooling2D:
    case LayerSpec::kZeroPadding2D:
    case LayerSpec::kUpSampling2D:
      return 4;
    case LayerSpec::kConv1D:
    case LayerSpec::kMaxPool1D:
    case LayerSpec::kAveragePooling1D:
      return 3;
    case LayerSpec::kFlatten:
    case LayerSpec::kGlobalAveragePooling2D:
    case LayerSpec::kGlobalMaxPooling2D:
    case LayerSpec::kGlobalAveragePooling1D:
    case LayerSpec::kGlobalMaxPooling1D:
      return 2;
    case LayerSpec::kReshape:
      return static_cast<size_t>(layer.reshape().target_shape_size()) + 1;
    case LayerSpec::kPermute:
      return static_cast<size_t>(layer.permute().dims_size()) + 1;
    default:
      return 0;
  }
}

}  // namespace

size_t KerasInputRank(const KerasJson& layer) {
  const KerasJson& config = ValueAt(layer, "config");
  for (const KerasJson* shape :
       {&ValueAt(ValueAt(layer, "build_config"), "input_shape"),
        &ValueAt(config, "batch_input_shape"), &ValueAt(config, "batch_shape")}) {
    if (const size_t rank = RankOf(*shape); rank > 0) return rank;
  }
  return 0;
}

void KerasRanks::Note(const std::string& reference, size_t rank) {
  if (rank > 0) known_.emplace(name_of_(reference), rank);
}

void KerasRanks::Add(const LayerSpec& layer) {
  layers_[layer.name()] = {FixedRank(layer),
                           layer.has_embedding() ? size_t{1} : size_t{0},
                           {layer.inputs().begin(), layer.inputs().end()}};
  Of(layer.name());
}

size_t KerasRanks::Of(const std::string& reference) {
  Ranks seen;
  return OfName(name_of_(reference), &seen);
}

// `seen`: what this question has come by, with 0 where there is no answer yet, so that it ends.
size_t KerasRanks::OfName(const std::string& name, Ranks* seen) {
  if (const auto known = known_.find(name); known != known_.end()) return known->second;
  const auto layer = layers_.find(name);
  if (layer == layers_.end() || seen->size() >= kMostLayers) return 0;
  const auto [mine, is_new] = seen->emplace(name, 0);
  if (!is_new) return mine->second;
  const size_t rank = layer->second.rank > 0 ? layer->second.rank : OfInputs(layer->second, seen);
  mine->second = rank;
  if (rank > 0) known_.emplace(name, rank);
  return rank;
}

// Of several inputs those with fewer dimensions are repeated.
size_t KerasRanks::OfInputs(const Layer& layer, Ranks* seen) {
  size_t most = 0;
  for (const std::string& input : layer.inputs) {
    const size_t rank = OfName(name_of_(input), seen);
    if (rank == 0) return 0;
    most = std::max(most, rank);
  }
  return most == 0 ? 0 : most + layer.further;
}

}  // namespace millrace::client
