#include "worker/device/model_tests/random_outputs.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/output_spec.h"

namespace millrace::worker {
namespace {

constexpr int kMostRegressions = 2;
constexpr uint64_t kMostRegressed = 60;  // Numbers of an output that is compared with floats.

}  // namespace

Loss OutputWriter::FloatLoss() {
  return choices_.OneOf<Loss>({MEAN_SQUARED_ERROR, MEAN_ABSOLUTE_ERROR, HUBER});
}

bool OutputWriter::TryRegression(int layer, const Shape& shape) {
  if (model_.spec.outputs_size() >= kMostRegressions || ElementCount(shape) > kMostRegressed) {
    return false;
  }
  AddOutput(FloatLoss(), layer, shape);
  return true;
}

Head OutputWriter::DrawHead() {
  Head head;
  head.loss = OneIn(3) ? FloatLoss()
                       : choices_.OneOf<Loss>({SPARSE_CATEGORICAL_CROSSENTROPY, BINARY_CROSSENTROPY,
                                               CATEGORICAL_CROSSENTROPY});
  const bool classes = HasClasses(head.loss);
  const size_t units = head.loss == BINARY_CROSSENTROPY && OneIn(2) ? 1 : From(1, 12);
  std::string function;
  if (OneIn(3)) {
    function = classes ? choices_.Named({"RELU", "TANH", "ELU", "RELU6"})
                       : choices_.Named({"RELU", "SIGMOID", "SOFTMAX", "TANH"});
  }
  head.layer =
      absl::StrCat("dense { units: ", units, function.empty() ? "" : " activation: " + function,
                   OneIn(4) ? " no_bias: true" : "", " }");
  if (OneIn(6)) {
    head.then = choices_.Named({"batch_normalization {}", "dropout { rate: 0.3 }",
                                "activation { function: RELU }", "layer_normalization {}",
                                "reshape { target_shape: -1 }", "rescaling { scale: 3 }"});
  }
  return head;
}

void OutputWriter::Add(const Head& head, int layer, const Shape& shape) {
  AddOutput(head.loss, layer, shape);
}

std::string OutputWriter::AddLabel(Loss loss, const Shape& shape) {
  const uint64_t width = ElementCount(shape);
  // That of an output before it, whose loss takes the same.
  for (const OutputSpec& other : model_.spec.outputs()) {
    if (other.loss() != loss || other.label().empty() || OneIn(3)) continue;
    const TensorSpec& label =
        *std::find_if(model_.examples.labels.begin(), model_.examples.labels.end(),
                      [&](const TensorSpec& spec) { return spec.name == other.label(); });
    const bool is_id = label.type == ElementType::kId;
    const bool fits =
        is_id ? static_cast<uint64_t>(label.limit) <= width : ElementCount(label.shape) == width;
    if (fits && (!is_id || loss == SPARSE_CATEGORICAL_CROSSENTROPY)) return label.name;
  }
  TensorSpec& label = model_.examples.labels.emplace_back();
  label.name = absl::StrCat("y", model_.examples.labels.size());
  const bool binary_id = loss == BINARY_CROSSENTROPY && width == 1 && OneIn(2);
  if (loss == SPARSE_CATEGORICAL_CROSSENTROPY || binary_id) {
    label.type = ElementType::kId;
    label.limit = static_cast<int64_t>(binary_id ? From(1, 2) : From(1, width));
    if (OneIn(3)) label.shape = {1};
    return label.name;
  }
  label.shape = OneIn(2) ? shape : Shape{width};
  if (width == 1 && OneIn(2)) label.shape = {};
  return label.name;
}

void OutputWriter::AddMetrics(uint64_t width, OutputSpec* output) {
  for (int metric = ACCURACY; metric <= CONFUSION_MATRIX; ++metric) {
    const auto kind = static_cast<Metric>(metric);
    if (!MetricFits(kind, output->loss()) || OneIn(2)) continue;
    if (kind == CONFUSION_MATRIX && output->loss() == BINARY_CROSSENTROPY && width > 1) continue;
    if (kind == TOP_K_ACCURACY && width < 5 && OneIn(3)) continue;
    MetricSpec* const spec = output->add_metrics();
    spec->set_metric(kind);
    if (kind == TOP_K_ACCURACY && (width < 5 || OneIn(2))) {
      spec->set_k(static_cast<uint32_t>(From(1, width)));
    }
    if (kind == AUC && OneIn(2)) spec->set_num_thresholds(OneIn(2) ? 200 : 3);
  }
}

void OutputWriter::AddClassWeights(uint64_t width, OutputSpec* output) {
  if (!HasClasses(output->loss()) || !OneIn(3)) return;
  if (output->loss() == BINARY_CROSSENTROPY && width > 1) return;
  const uint64_t classes = output->loss() == BINARY_CROSSENTROPY ? 2 : width;
  for (uint64_t i = 0; i < classes; ++i) {
    output->add_class_weights(static_cast<float>(From(0, 4)) / 2);
  }
}

void OutputWriter::AddOutput(Loss loss, int layer, const Shape& shape) {
  const uint64_t width = ElementCount(shape);
  OutputSpec* const output = model_.spec.add_outputs();
  output->set_layer(LayerName(model_.spec, layer));
  output->set_loss(loss);
  output->set_label(AddLabel(loss, shape));
  const bool smooths = loss == BINARY_CROSSENTROPY || loss == CATEGORICAL_CROSSENTROPY;
  if (smooths && OneIn(3)) output->set_label_smoothing(OneIn(2) ? 0.1 : 0.9);
  if (loss == HUBER && OneIn(2)) output->set_huber_delta(OneIn(2) ? 0.125 : 3);
  if (OneIn(3)) output->set_weight(choices_.OneOf<double>({0, 0.25, 1, 3}));
  AddClassWeights(width, output);
  AddMetrics(width, output);
}

void OutputWriter::Shorten() {
  OutputSpec output = model_.spec.outputs(0);
  const int last = model_.spec.layers_size() - 1;
  if (output.layer() == LayerName(model_.spec, last) && OneIn(2)) {
    model_.spec.mutable_outputs(0)->clear_layer();
  }
  if (OneIn(2)) model_.spec.mutable_outputs(0)->clear_label();
  if (output.layer() != LayerName(model_.spec, last) || OneIn(2)) return;
  for (const MetricSpec& metric : output.metrics()) {
    if (metric.has_k() || metric.num_thresholds() > 0) return;
    if (metric.metric() == TOP_K_ACCURACY) return;
  }
  if (output.label_smoothing() > 0 || output.has_huber_delta() || output.has_weight()) return;
  if (output.class_weights_size() > 0) return;
  model_.spec.clear_outputs();
  model_.spec.set_loss(output.loss());
  for (const MetricSpec& metric : output.metrics()) model_.spec.add_metrics(metric.metric());
}

void OutputWriter::Finish() {
  if (model_.spec.outputs_size() == 1) return Shorten();
  if (!OneIn(6)) return;
  TensorSpec& unused = model_.examples.labels.emplace_back();
  unused.name = "unused";
  unused.shape = {2};
}

}  // namespace millrace::worker
