#include "examples/own_worker/factorization_machine.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::examples {
namespace {

using worker::Batch;
using worker::BatchResult;
using worker::EvaluationSums;
using worker::GradientSink;
using worker::Model;

constexpr char kFactorizationMachine[] = "factorization_machine";
// Of the normal distribution that factors start from: were all 0, so would be their gradients.
constexpr float kFirstFactors = 0.1f;

struct Entry {
  size_t feature = 0;
  float value = 0;
};

// The features of an example that are not 0; the others have no part in anything.
std::vector<Entry> NonZero(absl::Span<const float> example) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < example.size(); ++i) {
    if (example[i] != 0) entries.push_back({i, example[i]});
  }
  return entries;
}

class FactorizationModel final : public Model {
 public:
  FactorizationModel(size_t features, size_t factors, float decay)
      : features_(features), factors_(factors), decay_(decay), sums_(factors) {
    AddVariable("bias", {1})->set_constant(0);
    AddVariable("weights", {features})->set_constant(0);
    AddVariable("factors", {features, factors})
        ->mutable_truncated_normal()
        ->set_stddev(kFirstFactors);
  }

  const std::vector<VariableSpec>& variables() const override { return variables_; }

  // Plain arithmetic in a fixed order: the same on all machines that this binary runs on.
  std::string numerics() const override { return kFactorizationMachine; }

  absl::Span<float> values(size_t variable) override { return absl::MakeSpan(values_[variable]); }

  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t /*seed*/,
                                    GradientSink* gradients) override {
    const absl::Span<float> bias = gradients->Buffer(kBias);
    const absl::Span<float> weights = gradients->Buffer(kWeights);
    const absl::Span<float> factors = gradients->Buffer(kFactors);
    bias[0] = 0;
    std::fill(weights.begin(), weights.end(), 0.0f);
    for (size_t i = 0; i < factors.size(); ++i) factors[i] = decay_ * values_[kFactors][i];
    double loss_sum = 0;
    for (size_t row = 0; row < batch.size; ++row) {
      const std::vector<Entry> entries = EntriesOf(batch, row);
      const float error = ErrorOf(entries, batch, row);
      loss_sum += static_cast<double>(error) * error;
      const float slope = 2 * error / static_cast<float>(batch.size);
      bias[0] += slope;
      for (const Entry& entry : entries) {
        weights[entry.feature] += slope * entry.value;
        AddFactorGradient(entry, slope, factors.subspan(entry.feature * factors_, factors_));
      }
    }
    // Before any gradient has left: the job fails, and nothing was changed.
    if (!std::isfinite(loss_sum)) {
      return absl::OutOfRangeError(absl::StrCat("the loss is ", loss_sum));
    }
    for (size_t variable : {kBias, kWeights, kFactors}) gradients->Finished(variable);
    return BatchResult{.loss_sum = loss_sum, .accuracy_sum = absl::nullopt};
  }

  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override {
    for (size_t row = 0; row < batch.size; ++row) {
      const float error = ErrorOf(EntriesOf(batch, row), batch, row);
      sums->loss_sum += static_cast<double>(error) * error;
    }
    sums->examples += batch.size;
    return absl::OkStatus();
  }

 private:
  enum Variable : size_t { kBias, kWeights, kFactors };

  InitialValue* AddVariable(const std::string& name, const std::vector<uint64_t>& shape) {
    VariableSpec& variable = variables_.emplace_back();
    variable.set_name(name);
    uint64_t elements = 1;
    for (const uint64_t dimension : shape) {
      variable.add_shape(dimension);
      elements *= dimension;
    }
    values_.emplace_back(elements);
    return variable.mutable_initial_value();
  }

  std::vector<Entry> EntriesOf(const Batch& batch, size_t row) const {
    return NonZero(
        absl::MakeConstSpan(batch.features[0].floats).subspan(row * features_, features_));
  }

  // By how much the prediction is above the label. Leaves in sums_ the sum of the example's
  // factors.
  float ErrorOf(const std::vector<Entry>& entries, const Batch& batch, size_t row) {
    float prediction = values_[kBias][0];
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    float squares = 0;
    for (const Entry& entry : entries) {
      prediction += values_[kWeights][entry.feature] * entry.value;
      for (size_t f = 0; f < factors_; ++f) {
        const float part = values_[kFactors][entry.feature * factors_ + f] * entry.value;
        sums_[f] += part;
        squares += part * part;
      }
    }
    // The sum over all pairs is half of what the square of the sum has beside the squares.
    float pairs = -squares;
    for (const float sum : sums_) pairs += sum * sum;
    return prediction + pairs / 2 - static_cast<float>(batch.labels[0].ids[row]);
  }

  void AddFactorGradient(const Entry& entry, float slope, absl::Span<float> gradient) const {
    for (size_t f = 0; f < factors_; ++f) {
      const float own = values_[kFactors][entry.feature * factors_ + f] * entry.value;
      gradient[f] += slope * entry.value * (sums_[f] - own);
    }
  }

  const size_t features_;
  const size_t factors_;
  const float decay_;
  std::vector<VariableSpec> variables_;
  std::vector<std::vector<float>> values_;
  std::vector<float> sums_;
};

// One list of floats, of a width that is known, and a whole number.
absl::Status CheckRows(const worker::Dataset& examples, size_t features, const char* field) {
  const worker::ExampleSpec& spec = examples.example();
  if (spec.features.size() == 1 && spec.features[0].type == worker::ElementType::kFloat &&
      spec.features[0].shape == std::vector<uint64_t>{features} && spec.labels.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": model.custom '", kFactorizationMachine,
      "' takes examples of one list of floats and a label, of the same length in both sets"));
}

absl::StatusOr<std::unique_ptr<Model>> MakeMachine(const JobSpec& spec,
                                                   const worker::Dataset& train,
                                                   const worker::Dataset* evaluate) {
  const CustomModel& custom = spec.model().custom();
  MILLRACE_RETURN_IF_ERROR(worker::CheckOptionNames(custom, {"factors", "decay"}));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t factors,
                            worker::NumberOption(custom, "factors", /*unset=*/8, 1, 1024));
  MILLRACE_ASSIGN_OR_RETURN(const double decay,
                            worker::RealOption(custom, "decay", /*unset=*/0, 0, 1));
  const auto& shape = train.example().features[0].shape;
  const size_t features = shape.size() == 1 ? shape[0] : 0;
  MILLRACE_RETURN_IF_ERROR(CheckRows(train, features, "data.train"));
  if (evaluate != nullptr) {
    MILLRACE_RETURN_IF_ERROR(CheckRows(*evaluate, features, "data.evaluate"));
  }
  return std::make_unique<FactorizationModel>(features, factors, static_cast<float>(decay));
}

}  // namespace

worker::OwnModel FactorizationMachine() {
  return {kFactorizationMachine,
          [](const JobSpec& spec, const worker::Dataset& train, const worker::Dataset* evaluate,
             const worker::ModelFactory&) { return MakeMachine(spec, train, evaluate); }};
}

}  // namespace millrace::examples
