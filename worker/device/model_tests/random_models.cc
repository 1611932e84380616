#include "worker/device/model_tests/random_models.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_spec.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "worker/device/model_tests/random_layers.h"
#include "worker/device/model_tests/random_outputs.h"
#include "worker/model/layer_plan.h"
#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

constexpr uint64_t kMostElements = 700;  // Of what a layer gives for an example.
constexpr uint64_t kMostWeights = 4000;  // Of a variable that is no table.
constexpr size_t kDimensions[] = {1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16};

// What a layer can take.
struct Value {
  std::string name;
  Shape shape;
  int layer = -1;  // In the spec; -1: a feature.
  int readers = 0;
};

// A layer with variables of its own.
struct Owner {
  int layer = 0;
  std::vector<std::string> shapes;  // Of its variables.
};

class ModelWriter {
 public:
  explicit ModelWriter(uint64_t seed) : choices_(seed), unnamed_(OneIn(4)) {}

  RandomModel Write() {
    AddFeatures();
    AddEmbeddings();
    for (size_t steps = From(1, 5); steps > 0; --steps) AddSomething();
    AddOutputs();
    ShuffleLayers();
    return std::move(model_);
  }

 private:
  size_t From(size_t least, size_t most) { return choices_.From(least, most); }
  bool OneIn(size_t n) { return choices_.OneIn(n); }
  size_t Dimension() { return kDimensions[From(0, std::size(kDimensions) - 1)]; }

  Shape RandomShape() {
    Shape shape(OneIn(2) ? 3 : From(1, 4));
    do {
      for (uint64_t& dimension : shape) dimension = Dimension();
    } while (ElementCount(shape) > kMostElements / 2);
    return shape;
  }

  TensorSpec* AddFeature(ElementType type, const Shape& shape) {
    TensorSpec& feature = model_.examples.features.emplace_back();
    feature.name = absl::StrCat("f", model_.examples.features.size());
    feature.type = type;
    feature.shape = shape;
    return &feature;
  }

  void AddFeatures() {
    const size_t count = OneIn(2) ? 1 : From(1, 3);
    for (size_t i = 0; i < count; ++i) {
      const bool bytes = OneIn(5);
      const TensorSpec feature = *AddFeature(bytes ? ElementType::kByte : ElementType::kFloat,
                                             OneIn(12) ? Shape{} : RandomShape());
      values_.push_back({feature.name, feature.shape.empty() ? Shape{1} : feature.shape});
    }
    for (size_t i = OneIn(3) ? From(1, 3) : 0; i > 0; --i) {
      const bool ragged = OneIn(2);
      Shape shape(ragged ? 0 : From(0, 2));
      for (uint64_t& dimension : shape) dimension = From(1, 5);
      TensorSpec* feature = AddFeature(ElementType::kId, shape);
      feature->ragged = ragged;
      feature->limit = static_cast<int64_t>(Dimension());
    }
    // Bytes as they are make everything behind them huge.
    for (size_t i = 0; i < count; ++i) {
      if (model_.examples.features[i].type != ElementType::kByte) continue;
      Try("rescaling { scale: 0.0078125 offset: -1 }", {i});
    }
  }

  void AddEmbeddings() {
    for (const TensorSpec& feature : model_.examples.features) {
      if (feature.type != ElementType::kId) continue;
      for (size_t count = From(1, 2); count > 0; --count) {
        if (OneIn(3) && TryShared(feature)) continue;
        LayerSpec layer = LayerOf(EmbeddingText(feature, &choices_));
        DrawTrainable(&layer);
        for (int tries = 0; !TryEmbedding(layer, feature); ++tries) CHECK_LT(tries, 9);
      }
    }
  }

  static LayerSpec LayerOf(const std::string& text) {
    LayerSpec layer;
    CHECK(google::protobuf::TextFormat::ParseFromString(text, &layer)) << text;
    return layer;
  }

  void DrawTrainable(LayerSpec* layer) {
    if (OneIn(6)) layer->set_trainable(false);
    if (OneIn(9)) layer->set_trainable(true);
  }

  bool TryEmbedding(LayerSpec layer, const TensorSpec& feature) {
    LayerPlan plan;
    plan.takes_ids = true;
    plan.ragged = feature.ragged;
    plan.inputs = {feature.shape};
    layer.add_inputs(feature.name);
    return Add(std::move(layer), std::move(plan));
  }

  // With the table of an embedding before it.
  bool TryShared(const TensorSpec& feature) {
    std::vector<int> tables;
    for (const Owner& owner : owners_) {
      const LayerSpec& layer = model_.spec.layers(owner.layer);
      const bool fits = layer.has_embedding() && layer.embedding().input_dim() >= feature.limit;
      if (fits) tables.push_back(owner.layer);
    }
    if (tables.empty()) return false;
    LayerSpec layer = SharedWith(choices_.OneOf(tables));
    layer.mutable_embedding()->set_pooling(
        choices_.OneOf<Embedding::Pooling>({Embedding::NONE, Embedding::SUM, Embedding::MEAN}));
    return TryEmbedding(layer, feature);
  }

  LayerSpec SharedWith(int owner) const {
    LayerSpec layer = model_.spec.layers(owner);
    layer.set_variables_of(LayerName(model_.spec, owner));
    layer.clear_name();
    layer.clear_inputs();
    layer.clear_trainable();
    return layer;
  }

  // Adds the layer if it fits what it takes: indices into values_.
  bool Try(LayerSpec layer, const std::vector<size_t>& inputs) {
    LayerPlan plan;
    for (const size_t input : inputs) {
      plan.inputs.push_back(values_[input].shape);
      layer.add_inputs(values_[input].name);
    }
    if (!Add(layer, std::move(plan))) return false;
    for (const size_t input : inputs) ++values_[input].readers;
    const bool of_last = values_[inputs[0]].layer == model_.spec.layers_size() - 2 &&
                         (values_[inputs[0]].layer >= 0 || model_.examples.features.size() == 1);
    if (inputs.size() == 1 && of_last && unnamed_ && OneIn(2)) {
      model_.spec.mutable_layers(model_.spec.layers_size() - 1)->clear_inputs();
    }
    return true;
  }
  bool Try(const std::string& text, const std::vector<size_t>& inputs) {
    return Try(LayerOf(text), inputs);
  }

  bool FitsOwner(const LayerSpec& layer, const std::vector<std::string>& shapes) const {
    return std::any_of(owners_.begin(), owners_.end(), [&](const Owner& owner) {
      return LayerName(model_.spec, owner.layer) == layer.variables_of() && owner.shapes == shapes;
    });
  }

  bool Add(LayerSpec layer, LayerPlan plan) {
    plan.spec = layer;
    plan.trainable = !layer.has_trainable() || layer.trainable();
    std::vector<VariableSpec> variables;
    if (!PlanLayer(&plan, &variables).ok() || ElementCount(plan.output) > kMostElements) {
      return false;
    }
    std::vector<std::string> shapes;
    for (const int index : plan.variables) {
      const Shape shape =
          index < 0 ? Shape()
                    : Shape(variables[index].shape().begin(), variables[index].shape().end());
      if (!layer.has_embedding() && ElementCount(shape) > kMostWeights) return false;
      shapes.push_back(index < 0 ? "none" : ShapeString(shape));
    }
    if (!layer.variables_of().empty() && !FitsOwner(layer, shapes)) return false;
    const int index = model_.spec.layers_size();
    if (!unnamed_ || OneIn(3)) {
      layer.set_name(absl::StrCat(choices_.Named({"a", "B.", "c-", "d_"}), index));
    }
    *model_.spec.add_layers() = layer;
    if (!variables.empty() && layer.variables_of().empty()) owners_.push_back({index, shapes});
    values_.push_back({LayerName(model_.spec, index), plan.output, index});
    return true;
  }

  // A value of the last ones, or any.
  size_t Recent() {
    const size_t among = OneIn(4) ? values_.size() : std::min<size_t>(values_.size(), 3);
    return values_.size() - From(1, among);
  }

  bool TryOne(size_t input) {
    LayerSpec layer = LayerOf(LayerText(values_[input].shape, &choices_));
    DrawTrainable(&layer);
    return Try(layer, {input});
  }

  // One that gives what has the shape of its input.
  bool TrySame(size_t input) {
    const Shape shape = values_[input].shape;  // Values move when there are more.
    LayerSpec layer = LayerOf(SameShapeText(shape, &choices_));
    DrawTrainable(&layer);
    return Try(layer, {input}) && values_.back().shape == shape;
  }

  void AddSomething() {
    for (int tries = 0; tries < 20; ++tries) {
      if (TrySomething()) return;
    }
  }

  bool TrySomething() {
    switch (From(0, 11)) {
      case 0:
        return TryMerge();
      case 1:
        return TryConcatenation();
      case 2:
      case 3:
        return TryResidual();
      case 4:
        return TryGate();
      case 5:
        return TryCalledAgain();
      default:
        return TryOne(Recent());
    }
  }

  bool TryMerge() {
    const std::string kind = choices_.Named({"add", "subtract", "multiply", "average", "maximum"});
    std::vector<size_t> inputs = {Recent()};
    const size_t count = kind == "subtract" ? 2 : From(2, OneIn(6) ? 12 : 3);
    while (inputs.size() < count) {
      const size_t more = Recent();
      inputs.push_back(OneIn(3) ? inputs[0] : more);
    }
    return Try(absl::StrCat(kind, " {}"), inputs) && (!OneIn(3) || TryRelu());
  }

  bool TryRelu() { return Try("activation { function: RELU }", {values_.size() - 1}); }

  bool TryConcatenation() {
    std::vector<size_t> inputs = {Recent()};
    const size_t rank = values_[inputs[0]].shape.size();
    for (size_t count = From(1, OneIn(8) ? 33 : 3); count > 0; --count) {
      const size_t more = Recent();
      inputs.push_back(OneIn(2) ? inputs[0] : more);
    }
    const int axis = static_cast<int>(From(1, rank));
    const int negative = axis - 1 - static_cast<int>(rank);
    const std::string text = OneIn(4) ? "" : absl::StrCat("axis: ", OneIn(2) ? axis : negative);
    return Try(absl::StrCat("concatenate { ", text, " }"), inputs);
  }

  // As in a residual network: a value, and what some layers make of it.
  bool TryResidual() {
    const size_t start = Recent();
    size_t end = start;
    for (size_t count = From(1, 3); count > 0; --count) {
      if (TrySame(end)) end = values_.size() - 1;
    }
    if (end == start) return false;
    Try(OneIn(5) ? "average {}" : "add {}",
        OneIn(2) ? std::vector<size_t>{start, end} : std::vector<size_t>{end, start});
    return !OneIn(2) || TryRelu();
  }

  // A value times a number for each channel, or for each place.
  bool TryGate() {
    const size_t start = Recent();
    const Shape shape = values_[start].shape;
    const bool pooled = shape.size() > 1 && shape.size() < 4 && OneIn(2);
    const size_t dimensions = shape.size() - 1;
    if (pooled &&
        !Try(absl::StrCat(choices_.Named({"global_average_pooling", "global_max_pooling"}),
                          dimensions, "d {}"),
             {start})) {
      return false;
    }
    const size_t units = pooled ? shape.back() : 1;
    const std::string text =
        absl::StrCat("dense { units: ", units,
                     " activation: ", choices_.Named({"SIGMOID", "TANH", "SOFTMAX"}), " }");
    if (!Try(text, {pooled ? values_.size() - 1 : start})) return false;
    const size_t gate = values_.size() - 1;
    const char* const kind = OneIn(3) ? "maximum {}" : "multiply {}";
    return Try(kind,
               OneIn(2) ? std::vector<size_t>{start, gate} : std::vector<size_t>{gate, start});
  }

  // A layer with the variables of one before it.
  bool TryCalledAgain() {
    std::vector<int> layers;
    for (const Owner& owner : owners_) {
      if (!model_.spec.layers(owner.layer).has_embedding()) layers.push_back(owner.layer);
    }
    if (layers.empty()) return false;
    const LayerSpec layer = ChangedCall(SharedWith(choices_.OneOf(layers)), &choices_);
    for (int tries = 0; tries < 6; ++tries) {
      if (Try(layer, {Recent()})) return true;
    }
    return false;
  }

  // What nobody takes is compared with floats, or goes into what is classified.
  void AddOutputs() {
    OutputWriter outputs(&model_, &choices_);
    std::vector<size_t> rest;
    const size_t count = values_.size();
    for (size_t i = 0; i < count; ++i) {
      if (values_[i].readers > 0 || (values_[i].layer < 0 && !OneIn(4))) {
        const bool regressed = values_[i].layer >= 0 && OneIn(12);
        if (regressed) outputs.TryRegression(values_[i].layer, values_[i].shape);
        continue;
      }
      const bool regressed = values_[i].layer >= 0 && OneIn(4) &&
                             outputs.TryRegression(values_[i].layer, values_[i].shape);
      if (!regressed) rest.push_back(i);
    }
    if (rest.empty()) rest = {OneIn(2) ? 0 : count - 1};
    AddHeads(Trunk(rest), &outputs);
    outputs.Finish();
  }

  size_t Flat(size_t input) {
    const Shape shape = values_[input].shape;
    if (shape.size() == 1) return input;
    if (shape.size() == 3 && OneIn(3)) {
      Try(OneIn(2) ? "global_average_pooling2d {}" : "global_max_pooling2d {}", {input});
    } else if (shape.size() == 2 && OneIn(3)) {
      Try(OneIn(2) ? "global_average_pooling1d {}" : "global_max_pooling1d {}", {input});
    } else {
      Try(OneIn(2) ? "flatten {}" : "reshape { target_shape: -1 }", {input});
    }
    return values_.size() - 1;
  }

  size_t Trunk(const std::vector<size_t>& rest) {
    std::vector<size_t> flat;
    for (const size_t input : rest) flat.push_back(Flat(input));
    while (flat.size() > 1) {
      // Those that are too large together become a few numbers each.
      if (!Try("concatenate {}", flat)) {
        for (size_t& input : flat) {
          CHECK(Try("dense { units: 3 }", {input}));
          input = values_.size() - 1;
        }
        continue;
      }
      flat = {values_.size() - 1};
    }
    return Flat(OneIn(3) && TryOne(flat[0]) ? values_.size() - 1 : flat[0]);
  }

  void AddHeads(size_t trunk, OutputWriter* outputs) {
    for (size_t heads = OneIn(3) ? From(2, 3) : 1; heads > 0; --heads) {
      const Head head = outputs->DrawHead();
      while (!Try(head.layer, {trunk})) {
        CHECK(Try("dense { units: 5 }", {trunk}));
        trunk = values_.size() - 1;
      }
      if (!head.then.empty()) CHECK(Try(head.then, {values_.size() - 1}));
      outputs->Add(head, model_.spec.layers_size() - 1, values_.back().shape);
    }
  }

  // Layers may stand anywhere, but the last one, if all say what they take.
  void ShuffleLayers() {
    if (unnamed_ || !OneIn(3)) return;
    auto* const layers = model_.spec.mutable_layers();
    for (int i = layers->size() - 2; i > 0; --i) {
      layers->SwapElements(i, static_cast<int>(From(0, i)));
    }
  }

  Choices choices_;
  const bool unnamed_;  // Some layers have no name, and some say not what they take.
  RandomModel model_;
  std::vector<Value> values_;
  std::vector<Owner> owners_;
};

}  // namespace

RandomModel MakeRandomModel(uint64_t seed) { return ModelWriter(seed).Write(); }

}  // namespace millrace::worker
