#include "worker/device/model_tests/random_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"

namespace millrace::worker {
namespace {

class LayerWriter {
 public:
  LayerWriter(const Shape& shape, Choices* choices) : shape_(shape), choices_(*choices) {}

  std::string Any() {
    const size_t rank = shape_.size();
    if (rank == 3 && !OneIn(4)) return OfImages();
    if (rank == 2 && !OneIn(3)) return OfSequences();
    switch (From(0, 11)) {
      case 0:
      case 1:
        return DenseText(From(1, 13));
      case 2:
      case 3:
        return FunctionText();
      case 4:
        return DropoutText();
      case 5:
      case 6:
        return NormalizationText();
      case 7:
        return RescalingText();
      case 8:
        return "flatten {}";
      case 9:
        return PermuteText();
      default:
        return ReshapeText();
    }
  }

  std::string Same() {
    switch (From(0, 8)) {
      case 0:
        return DenseText(shape_.back());
      case 1:
        return FunctionText();
      case 2:
        return DropoutText();
      case 3:
      case 4:
        return NormalizationText();
      case 5:
        return RescalingText();
      default:
        break;
    }
    if (shape_.size() == 3) {
      return OneIn(3) ? DepthwiseText("SAME", /*strides=*/false, /*multiplier=*/1)
                      : Conv2DText(shape_[2], "SAME", /*strides=*/false);
    }
    if (shape_.size() == 2) return Conv1DText(shape_[1], /*same=*/true);
    return FunctionText();
  }

  std::string EmbeddingOf(const TensorSpec& feature) {
    const bool large = OneIn(3);  // Its rows travel by themselves.
    const size_t width = large ? choices_.OneOf<size_t>({1, 3, 4, 5, 8}) : From(1, 9);
    const size_t rows =
        large ? 66000 / width + From(0, 99) : feature.limit + (OneIn(2) ? 0 : From(1, 9));
    std::string text = absl::StrCat("embedding { input_dim: ", rows, " output_dim: ", width,
                                    Initializer("embeddings"));
    if (!large || OneIn(8)) text += RegularizerOf("embeddings");
    if (feature.ragged || OneIn(2)) absl::StrAppend(&text, " pooling: ", Name({"SUM", "MEAN"}));
    return text + " }";
  }

  // As a field, or an activation of its own.
  std::string Function() {
    return Name({"LINEAR", "RELU", "RELU", "SIGMOID", "SOFTMAX", "TANH", "RELU6", "ELU"});
  }

 private:
  size_t From(size_t least, size_t most) { return choices_.From(least, most); }
  bool OneIn(size_t n) { return choices_.OneIn(n); }
  std::string Name(const std::vector<const char*>& names) { return choices_.Named(names); }
  std::string Function(size_t one_in) { return OneIn(one_in) ? "" : " activation: " + Function(); }

  std::string Initializer(const std::string& of) {
    if (!OneIn(5)) return "";
    return absl::StrCat(" ", of, "_initializer: ",
                        Name({"ZEROS", "ONES", "GLOROT_UNIFORM", "GLOROT_NORMAL", "HE_UNIFORM",
                              "HE_NORMAL", "LECUN_UNIFORM", "LECUN_NORMAL", "UNIFORM"}));
  }
  std::string RegularizerOf(const std::string& of) {
    if (!OneIn(5)) return "";
    return absl::StrCat(" ", of, "_regularizer { ", OneIn(3) ? "" : "l1: 0.01 ",
                        OneIn(3) ? "" : "l2: 0.03 ", "}");
  }
  std::string OfVariable(const std::string& name) {
    return Initializer(name) + RegularizerOf(name);
  }

  std::string BiasText() { return (OneIn(3) ? " no_bias: true" : "") + OfVariable("bias"); }

  // "kernel_size: 3", or with a number for each axis.
  std::string Pair(const std::string& field, size_t height, size_t width) {
    if (height == width && OneIn(2)) return absl::StrCat(" ", field, ": ", height);
    return absl::StrCat(" ", field, ": [", height, ", ", width, "]");
  }
  // Along an axis of the input: mostly one that fits with any padding.
  size_t Window(size_t axis) {
    const size_t most = OneIn(6) ? 2 * shape_[axis] : shape_[axis];
    return From(1, std::min<size_t>(most, OneIn(8) ? 7 : 4));
  }
  std::string Padding() { return Name({"VALID", "SAME"}); }

  std::string DenseText(size_t units) {
    return absl::StrCat("dense { units: ", units, Function(2), OfVariable("kernel"), BiasText(),
                        " }");
  }

  std::string StridesOrDilation(bool strides, bool equal) {
    if (OneIn(2)) return "";
    const size_t height = From(1, 3);
    const size_t width = equal || OneIn(2) ? height : From(1, 3);
    if (strides && OneIn(2)) return Pair("strides", height, width);
    return Pair("dilation_rate", height, OneIn(2) ? height : From(1, 3));
  }

  // `filters` is a multiple of the groups.
  size_t Groups(size_t* filters, size_t channels, bool fixed) {
    if (OneIn(2)) return 1;
    std::vector<size_t> divisors;
    for (size_t i = 1; i <= channels; ++i) {
      if (channels % i == 0 && (!fixed || *filters % i == 0)) divisors.push_back(i);
    }
    const size_t groups = choices_.OneOf(divisors);
    if (!fixed) *filters = groups * From(1, std::max<size_t>(1, 12 / groups));
    return groups;
  }

  std::string Conv2DText(size_t filters, const std::string& padding, bool strides) {
    const size_t groups = Groups(&filters, shape_[2], /*fixed=*/!strides);
    return absl::StrCat(
        "conv2d { filters: ", filters, groups > 1 ? absl::StrCat(" groups: ", groups) : "",
        Pair("kernel_size", Window(0), Window(1)), StridesOrDilation(strides, /*equal=*/false),
        " padding: ", padding, Function(3), OfVariable("kernel"), BiasText(), " }");
  }

  std::string DepthwiseText(const std::string& padding, bool strides, size_t multiplier) {
    return absl::StrCat(
        "depthwise_conv2d {",
        multiplier > 1 || OneIn(2) ? absl::StrCat(" depth_multiplier: ", multiplier) : "",
        Pair("kernel_size", Window(0), Window(1)), StridesOrDilation(strides, /*equal=*/true),
        " padding: ", padding, Function(3), OfVariable("depthwise"), BiasText(), " }");
  }

  std::string Conv1DText(size_t filters, bool same) {
    const size_t groups = Groups(&filters, shape_[1], same);
    std::string text = absl::StrCat(
        "conv1d { filters: ", filters, " groups: ", groups == 1 && OneIn(2) ? 0 : groups,
        " kernel_size: ", Window(0),
        " padding: ", same ? Name({"SAME", "CAUSAL"}) : Name({"VALID", "SAME", "CAUSAL"}));
    if (!same && OneIn(2))
      absl::StrAppend(&text, " strides: ", From(0, 3));
    else
      absl::StrAppend(&text, " dilation_rate: ", From(0, 3));
    return absl::StrCat(text, Function(3), OfVariable("kernel"), BiasText(), " }");
  }

  std::string PoolText(const std::string& kind) {
    std::string text =
        absl::StrCat(kind, " {", OneIn(5) ? "" : Pair("pool_size", Window(0), Window(1)));
    if (OneIn(2)) text += Pair("strides", From(1, 4), From(1, 4));
    return absl::StrCat(text, " padding: ", Padding(), " }");
  }

  std::string OfImages() {
    switch (From(0, 11)) {
      case 0:
      case 1:
      case 2:
        return Conv2DText(From(1, 12), Padding(), /*strides=*/true);
      case 3:
      case 4:
        return DepthwiseText(Padding(), /*strides=*/true, From(1, 3));
      case 5:
        return PoolText("max_pool2d");
      case 6:
        return PoolText("average_pooling2d");
      case 7:
        return "global_average_pooling2d {}";
      case 8:
        return "global_max_pooling2d {}";
      case 9:
        return absl::StrCat("zero_padding2d { ", Sides(), " }");
      case 10:
        return absl::StrCat("up_sampling2d {", OneIn(3) ? "" : Pair("size", From(1, 3), From(1, 3)),
                            " }");
      default:
        return NormalizationText();
    }
  }

  std::string Sides() {
    const size_t count = choices_.OneOf<size_t>({0, 1, 2, 4});
    std::vector<size_t> sides(count);
    for (size_t& side : sides) side = From(0, 3);
    return absl::StrCat("padding: [", absl::StrJoin(sides, ", "), "]");
  }

  std::string OfSequences() {
    const auto pool = [&](const char* kind) {
      return absl::StrCat(kind, " { pool_size: ", OneIn(5) ? 0 : Window(0),
                          " strides: ", From(0, 4), " padding: ", Padding(), " }");
    };
    switch (From(0, 6)) {
      case 0:
      case 1:
      case 2:
        return Conv1DText(From(1, 12), /*same=*/false);
      case 3:
        return pool("max_pool1d");
      case 4:
        return pool("average_pooling1d");
      case 5:
        return "global_average_pooling1d {}";
      default:
        return "global_max_pooling1d {}";
    }
  }

  std::string FunctionText() {
    const std::string function =
        OneIn(2) ? Function() : Name({"LEAKY_RELU", "SILU", "GELU", "GELU_TANH"});
    const bool slope = function == "LEAKY_RELU" && OneIn(2);
    return absl::StrCat(
        "activation { function: ", function,
        slope ? absl::StrCat(" negative_slope: ", Name({"0", "0.01", "1", "1.5"})) : "", " }");
  }

  std::string DropoutText() {
    return absl::StrCat("dropout { rate: ", Name({"0", "0.1", "0.5", "0.9"}), " }");
  }

  std::string NormalizationText() {
    const bool of_batch = OneIn(2);
    std::string text = of_batch ? "batch_normalization {" : "layer_normalization {";
    if (of_batch && OneIn(3)) absl::StrAppend(&text, " momentum: ", Name({"0", "0.5", "0.999"}));
    if (OneIn(3)) absl::StrAppend(&text, " epsilon: ", Name({"1e-5", "1e-2", "1", "7"}));
    if (OneIn(4)) text += " no_center: true";
    if (OneIn(4)) text += " no_scale: true";
    return absl::StrCat(text, OfVariable("beta"), OfVariable("gamma"), " }");
  }

  std::string RescalingText() {
    return absl::StrCat("rescaling {",
                        OneIn(3) ? "" : absl::StrCat(" scale: ", Name({"0.5", "-1.5", "0", "2"})),
                        OneIn(3) ? "" : " offset: 0.25", " }");
  }

  std::string PermuteText() {
    std::vector<size_t> dims(shape_.size());
    std::iota(dims.begin(), dims.end(), 1);
    for (size_t i = dims.size() - 1; i > 0; --i) std::swap(dims[i], dims[From(0, i)]);
    return absl::StrCat("permute { dims: [", absl::StrJoin(dims, ", "), "] }");
  }

  // Some factors of the elements, one of them open, perhaps.
  std::string ReshapeText() {
    uint64_t left = ElementCount(shape_);
    std::vector<int64_t> target;
    for (size_t rank = From(0, 3); rank > 0; --rank) {
      std::vector<uint64_t> divisors;
      for (uint64_t i = 1; i <= left; ++i) {
        if (left % i == 0) divisors.push_back(i);
      }
      target.push_back(static_cast<int64_t>(choices_.OneOf(divisors)));
      left /= static_cast<uint64_t>(target.back());
    }
    target.push_back(static_cast<int64_t>(left));
    for (size_t i = target.size() - 1; i > 0; --i) std::swap(target[i], target[From(0, i)]);
    if (OneIn(2)) target[From(0, target.size() - 1)] = -1;
    return absl::StrCat("reshape { target_shape: [", absl::StrJoin(target, ", "), "] }");
  }

  const Shape& shape_;
  Choices& choices_;
};

}  // namespace

std::string LayerText(const Shape& input, Choices* choices) {
  return LayerWriter(input, choices).Any();
}

std::string SameShapeText(const Shape& input, Choices* choices) {
  return LayerWriter(input, choices).Same();
}

std::string EmbeddingText(const TensorSpec& feature, Choices* choices) {
  return LayerWriter(feature.shape, choices).EmbeddingOf(feature);
}

LayerSpec ChangedCall(LayerSpec layer, Choices* choices) {
  Activation function = LINEAR;
  CHECK(Activation_Parse(LayerWriter({}, choices).Function(), &function));
  const Padding padding = choices->OneIn(2) ? SAME : VALID;
  const bool changes = choices->OneIn(2);
  if (!changes) return layer;
  if (layer.has_dense()) layer.mutable_dense()->set_activation(function);
  if (layer.has_conv2d()) {
    layer.mutable_conv2d()->set_activation(function);
    layer.mutable_conv2d()->set_padding(padding);
    layer.mutable_conv2d()->clear_strides();
    layer.mutable_conv2d()->clear_dilation_rate();
    if (choices->OneIn(2)) layer.mutable_conv2d()->add_strides(2);
  }
  if (layer.has_conv1d()) {
    layer.mutable_conv1d()->set_activation(function);
    layer.mutable_conv1d()->set_padding(choices->OneIn(3) ? CAUSAL : padding);
  }
  if (layer.has_depthwise_conv2d()) {
    layer.mutable_depthwise_conv2d()->set_activation(function);
    layer.mutable_depthwise_conv2d()->set_padding(padding);
  }
  if (layer.has_batch_normalization()) layer.mutable_batch_normalization()->set_epsilon(0.01);
  if (layer.has_layer_normalization()) layer.mutable_layer_normalization()->set_epsilon(0.01);
  return layer;
}

}  // namespace millrace::worker
