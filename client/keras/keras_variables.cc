#include "client/keras/keras_variables.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace millrace::client {
namespace {

using Shape = std::vector<uint64_t>;

// Height and width, from none (where the shape is not known), one number or two.
uint64_t SideOf(const google::protobuf::RepeatedField<uint32_t>& sizes, int side) {
  if (sizes.empty()) return 0;
  return sizes.Get(sizes.size() > side ? side : 0);
}

class Variables {
 public:
  void AddLayer(const LayerSpec& layer) {
    layer_ = &layer;
    switch (layer.kind_case()) {
      case LayerSpec::kDense:
        return AddKernel({0, layer.dense().units()}, layer.dense().units(), layer.dense());
      case LayerSpec::kConv2D:
        return AddConv2D(layer.conv2d());
      case LayerSpec::kDepthwiseConv2D:
        return AddDepthwise(layer.depthwise_conv2d());
      case LayerSpec::kConv1D:
        return AddKernel({layer.conv1d().kernel_size(), 0, layer.conv1d().filters()},
                         layer.conv1d().filters(), layer.conv1d());
      case LayerSpec::kBatchNormalization:
        AddNormalization(layer.batch_normalization());
        Add("moving_mean", {0}, /*trainable=*/false);
        return Add("moving_variance", {0}, /*trainable=*/false);
      case LayerSpec::kLayerNormalization:
        return AddNormalization(layer.layer_normalization());
      case LayerSpec::kEmbedding:
        return Add("embeddings", {layer.embedding().input_dim(), layer.embedding().output_dim()});
      default:
        return;
    }
  }

  std::vector<KerasVariable> Take() { return std::move(variables_); }

 private:
  void Add(const char* name, Shape shape, bool trainable = true) {
    const bool frozen = layer_->has_trainable() && !layer_->trainable();
    variables_.push_back(
        {absl::StrCat(layer_->name(), "/", name), std::move(shape), trainable && !frozen});
  }

  template <typename Kind>
  void AddKernel(Shape shape, uint64_t outputs, const Kind& kind) {
    Add("kernel", std::move(shape));
    if (!kind.no_bias()) Add("bias", {outputs});
  }

  void AddConv2D(const Conv2D& conv) {
    AddKernel({SideOf(conv.kernel_size(), 0), SideOf(conv.kernel_size(), 1), 0, conv.filters()},
              conv.filters(), conv);
  }

  void AddDepthwise(const DepthwiseConv2D& conv) {
    const uint64_t multiplier = conv.depth_multiplier() == 0 ? 1 : conv.depth_multiplier();
    AddKernel({SideOf(conv.kernel_size(), 0), SideOf(conv.kernel_size(), 1), 0, multiplier},
              /*outputs=*/0, conv);
  }

  template <typename Kind>
  void AddNormalization(const Kind& kind) {
    if (!kind.no_scale()) Add("gamma", {0});
    if (!kind.no_center()) Add("beta", {0});
  }

  const LayerSpec* layer_ = nullptr;
  std::vector<KerasVariable> variables_;
};

}  // namespace

std::vector<KerasVariable> KerasVariablesOf(absl::Span<const LayerSpec> layers) {
  Variables variables;
  for (const LayerSpec& layer : layers) variables.AddLayer(layer);
  return variables.Take();
}

std::string KerasSnakeCase(const std::string& class_name) {
  std::string snake;
  for (size_t i = 0; i < class_name.size(); ++i) {
    const bool begins_word =
        i > 0 && absl::ascii_isupper(class_name[i]) &&
        (absl::ascii_islower(class_name[i - 1]) ||
         (i + 1 < class_name.size() && absl::ascii_islower(class_name[i + 1])));
    if (begins_word) snake += '_';
    snake += absl::ascii_tolower(class_name[i]);
  }
  return snake;
}

}  // namespace millrace::client
