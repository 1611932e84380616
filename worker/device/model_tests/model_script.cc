#include "worker/device/model_tests/model_script.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "glog/logging.h"
#include "worker/model/gradient_set.h"
#include "worker/model/shape.h"

namespace millrace::worker {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr char kFinished[] = "finished gradients";

bool IsFrozen(const ModelPlan& plan, size_t variable) {
  return plan.variables[variable].update().has_frozen();
}

std::vector<uint64_t> GradientSizes(const ModelPlan& plan) {
  std::vector<uint64_t> sizes;
  for (size_t v = 0; v < plan.variables.size(); ++v) {
    const auto& shape = plan.variables[v].shape();
    sizes.push_back(IsFrozen(plan, v) ? 0 : ElementCount({shape.begin(), shape.end()}));
  }
  return sizes;
}

// Takes each element when it is said to be final. What is not written is no number.
class FinalGradients final : public GradientSink {
 public:
  FinalGradients(const ModelPlan& plan, bool direct, GradientSet* set,
                 std::function<void()> backward_begins)
      : plan_(plan),
        direct_(direct && set->is_host_memory()),
        set_(*set),
        backward_begins_(std::move(backward_begins)),
        taken_(plan.variables.size()) {
    for (size_t v = 0; v < plan.variables.size(); ++v) {
      const absl::Span<float> place = set_.variable(v);
      std::fill(place.begin(), place.end(), kNotANumber);
      gradients_.emplace_back(place.size());
    }
  }

  void BackwardBegins() override {
    if (backward_begins_) backward_begins_();
  }
  absl::Span<float> Buffer(size_t variable) override { return set_.variable(variable); }
  absl::Span<float> DeviceBuffer(size_t variable) override {
    return direct_ ? set_.variable(variable) : absl::Span<float>();
  }
  void FinishedFirst(size_t variable, size_t count) override { Take(variable, count); }
  void Finished(size_t variable) override {
    CHECK(!IsFrozen(plan_, variable)) << plan_.variables[variable].name();
    CHECK(finished_.insert(variable).second) << plan_.variables[variable].name();
    Take(variable, gradients_[variable].size());
  }

  ModelValues TakeGradients() { return std::move(gradients_); }
  size_t finished() const { return finished_.size(); }

 private:
  void Take(size_t variable, size_t count) {
    const absl::Span<float> place = set_.variable(variable);
    CHECK_LE(taken_[variable], count);
    for (; taken_[variable] < count; ++taken_[variable]) {
      gradients_[variable][taken_[variable]] = place[taken_[variable]];
    }
  }

  const ModelPlan& plan_;
  const bool direct_;
  GradientSet& set_;
  const std::function<void()> backward_begins_;
  std::vector<size_t> taken_;
  ModelValues gradients_;
  std::set<size_t> finished_;
};

void AddNumbers(const MetricSums& sums, StepOutcome* outcome) {
  for (const auto& [name, sum] : sums) {
    outcome->numbers[name + " sum"] = sum.sum();
    outcome->numbers[name + " count"] = sum.count();
  }
}

class ScriptRun {
 public:
  ScriptRun(const Script& script, const ModelPlan& plan, Bringing bringing, Model* model)
      : script_(script),
        plan_(plan),
        bringing_(bringing),
        model_(*model),
        sets_{GradientSet(GradientSizes(plan), model->host_memory()),
              GradientSet(GradientSizes(plan), model->host_memory())} {}

  StepOutcome RunStep(size_t index) {
    const ScriptStep& step = script_.steps[index];
    if (!std::exchange(brought_, false)) BringValues(step);
    return step.trains ? Train(index) : Evaluate(step);
  }

 private:
  // Of tables the rows of the batch alone: all else of them is no number.
  void Bring(size_t variable, const ScriptStep& step, absl::Span<float> place) {
    const std::vector<float>& values = script_.values[step.values][variable];
    const size_t width = model_.row_width(variable);
    if (width == 0 || !step.trains || bringing_ == Bringing::kTogether) {
      std::copy(values.begin(), values.end(), place.begin());
    } else {
      std::fill(place.begin(), place.end(), kNotANumber);
      for (const uint64_t row : model_.RowsOf(variable, step.batch)) {
        std::copy_n(values.begin() + static_cast<int64_t>(row * width), width,
                    place.begin() + static_cast<int64_t>(row * width));
      }
    }
    if (bringing_ != Bringing::kTogether) model_.Arrived(variable, 0, place.size());
  }

  void BringValues(const ScriptStep& step) {
    const bool held = std::exchange(last_values_, step.values) == step.values;
    const bool stages = bringing_ == Bringing::kArriving && step.trains;
    if (stages && step.seed % 2 == 0) model_.Stage(&step.batch);
    for (size_t v = 0; v < plan_.variables.size(); ++v) {
      if (held && bringing_ != Bringing::kTogether && model_.row_width(v) == 0) {
        model_.held_values(v);
      } else {
        Bring(v, step, model_.values(v));
      }
    }
    if (stages && step.seed % 2 == 1) model_.Stage(&step.batch);
  }

  void BringAhead(const ScriptStep& next) {
    for (size_t v = 0; v < plan_.variables.size(); ++v) Bring(v, next, model_.next_values(v));
    model_.Stage(&next.batch);
    last_values_ = next.values;
    brought_ = true;
  }

  StepOutcome Train(size_t index) {
    const ScriptStep& step = script_.steps[index];
    const bool ahead = bringing_ == Bringing::kAhead && index + 1 < script_.steps.size() &&
                       script_.steps[index + 1].trains;
    FinalGradients sink(
        plan_, bringing_ != Bringing::kTogether, &sets_[index % 2],
        ahead ? [&] { BringAhead(script_.steps[index + 1]); } : std::function<void()>());
    const absl::StatusOr<BatchResult> result = model_.Train(step.batch, step.seed, &sink);
    if (brought_) model_.TakeNextValues();
    StepOutcome outcome;
    outcome.status = result.status();
    if (!result.ok()) return outcome;
    if (!step.spoiled) outcome.loss_sum = result->loss_sum;
    if (step.spoiled) return outcome;
    if (result->accuracy_sum.has_value()) outcome.numbers["accuracy"] = *result->accuracy_sum;
    AddNumbers(result->metric_sums, &outcome);
    outcome.numbers[kFinished] = static_cast<double>(sink.finished());
    outcome.gradients = sink.TakeGradients();
    return outcome;
  }

  StepOutcome Evaluate(const ScriptStep& step) {
    EvaluationSums sums;
    StepOutcome outcome;
    outcome.status = model_.Evaluate(step.batch, &sums);
    if (!outcome.status.ok()) return outcome;
    outcome.loss_sum = sums.loss_sum;
    outcome.numbers["examples"] = static_cast<double>(sums.examples);
    AddNumbers(sums.metric_sums, &outcome);
    for (const auto& [name, number] : EvaluationMetrics(sums)) outcome.numbers[name] = number;
    for (const auto& [name, matrix] : sums.confusion_matrices) {
      for (int i = 0; i < matrix.counts_size(); ++i) {
        outcome.numbers[absl::StrCat(name, " confusion ", i)] =
            static_cast<double>(matrix.counts(i));
      }
    }
    return outcome;
  }

  const Script& script_;
  const ModelPlan& plan_;
  const Bringing bringing_;
  Model& model_;
  GradientSet sets_[2];
  size_t last_values_ = ~size_t{0};
  bool brought_ = false;
};

double LargestOf(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(double{value}));
  }
  return largest;
}

// Infinite where one of them is not a number and the other is.
double FarthestOf(const std::vector<float>& a, const std::vector<float>& b) {
  double farthest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(double{a[i]} - b[i]);
    farthest = std::max(farthest, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return farthest;
}

class Comparison {
 public:
  Comparison(const ModelPlan& plan, const Tolerances& tolerances)
      : plan_(plan), tolerances_(tolerances) {}

  void Compare(size_t step, const StepOutcome& expected, const StepOutcome& actual,
               const StepOutcome* noisy) {
    step_ = step;
    // Infinite or no number: that depends on what is rounded.
    const bool not_finite =
        absl::IsOutOfRange(expected.status) && absl::IsOutOfRange(actual.status);
    if (expected.status != actual.status && !not_finite) {
      return Add("status",
                 absl::StrCat(actual.status.ToString(), ", not ", expected.status.ToString()));
    }
    if (!expected.status.ok()) return;
    if (noisy != nullptr && !noisy->status.ok()) noisy = nullptr;
    CompareNumber("loss", expected.loss_sum, actual.loss_sum,
                  noisy == nullptr ? expected.loss_sum : noisy->loss_sum);
    if (expected.numbers.size() != actual.numbers.size()) Add("metrics", "others");
    for (const auto& [name, number] : expected.numbers) {
      const auto found = actual.numbers.find(name);
      if (found == actual.numbers.end()) {
        Add(name, "missing");
      } else {
        const auto noise = noisy == nullptr ? found : noisy->numbers.find(name);
        const bool known = noisy != nullptr && noise != noisy->numbers.end();
        CompareNumber(name, number, found->second, known ? noise->second : number);
      }
    }
    CompareGradients(expected, actual, noisy);
  }

  std::vector<std::string> Take() { return std::move(found_); }

 private:
  void Add(const std::string& what, const std::string& how) {
    found_.push_back(absl::StrCat("step ", step_, ": ", what, ": ", how));
  }

  void CompareNumber(const std::string& name, double expected, double actual, double noisy) {
    if (expected == actual || (std::isnan(expected) && std::isnan(actual))) return;
    const double allowed = tolerances_.relative * (std::abs(expected) + 1e-3) +
                           tolerances_.of_noise * std::abs(noisy - expected);
    if (std::abs(expected - actual) <= allowed && tolerances_.relative > 0) return;
    Add(name, absl::StrCat(actual, ", not ", expected, " (noise ", noisy - expected, ")"));
  }

  void CompareGradients(const StepOutcome& expected, const StepOutcome& actual,
                        const StepOutcome* noisy) {
    double largest = 0;
    for (const auto& gradient : expected.gradients)
      largest = std::max(largest, LargestOf(gradient));
    for (size_t v = 0; v < expected.gradients.size(); ++v) {
      const std::vector<float>& gradient = expected.gradients[v];
      const double noise = noisy == nullptr ? 0 : FarthestOf(gradient, noisy->gradients[v]);
      const double allowed = tolerances_.relative * (LargestOf(gradient) + 0.02 * largest + 1e-4) +
                             tolerances_.of_noise * noise;
      const double difference = FarthestOf(gradient, actual.gradients[v]);
      if (difference <= (tolerances_.relative > 0 ? allowed : 0)) continue;
      Add(plan_.variables[v].name(),
          absl::StrCat("off by ", difference, ", largest ", LargestOf(gradient), " (noise ", noise,
                       ", of all ", largest, ")"));
    }
  }

  const ModelPlan& plan_;
  const Tolerances tolerances_;
  size_t step_ = 0;
  std::vector<std::string> found_;
};

// Of parts of one batch: sums, and means of gradients over the examples.
StepOutcome Together(const Script& divided, const std::vector<StepOutcome>& each) {
  double examples = 0;
  for (const ScriptStep& part : divided.steps) examples += static_cast<double>(part.batch.size);
  StepOutcome sum;
  for (size_t i = 0; i < each.size(); ++i) {
    if (!each[i].status.ok()) return each[i];
    sum.loss_sum += each[i].loss_sum;
    for (const auto& [name, number] : each[i].numbers) sum.numbers[name] += number;
    sum.gradients.resize(each[i].gradients.size());
    const double share = static_cast<double>(divided.steps[i].batch.size) / examples;
    for (size_t v = 0; v < sum.gradients.size(); ++v) {
      sum.gradients[v].resize(each[i].gradients[v].size());
      for (size_t e = 0; e < sum.gradients[v].size(); ++e) {
        sum.gradients[v][e] += static_cast<float>(share * each[i].gradients[v][e]);
      }
    }
  }
  if (sum.numbers.count(kFinished) > 0) sum.numbers[kFinished] = each[0].numbers.at(kFinished);
  return sum;
}

// A batch that is refused, or values that make the loss something else than a number.
void Spoil(const ModelPlan& plan, Choices* choices, Script* script, ScriptStep* step) {
  const size_t f = choices->From(0, plan.features.size() - 1);
  const size_t l = choices->From(0, plan.labels.size() - 1);
  const bool learned = std::any_of(plan.outputs.begin(), plan.outputs.end(),
                                   [&](const OutputPlan& output) { return output.label == l; });
  const float bad = choices->OneOf<float>({kNotANumber, HUGE_VALF, -HUGE_VALF, 3e38f});
  Tensor& feature = step->batch.features[f];
  Tensor& label = step->batch.labels[l];
  switch (choices->From(0, 3)) {
    case 0:
      if (!feature.ids.empty()) feature.ids[choices->From(0, feature.ids.size() - 1)] = 1 << 20;
      break;
    case 1:
      if (!learned) break;
      if (!label.ids.empty()) label.ids.back() = choices->OneIn(2) ? -1 : 1000;
      if (!label.floats.empty()) label.floats.back() = choices->OneIn(2) ? kNotANumber : 3;
      break;
    case 2:
      if (!feature.floats.empty()) {
        feature.floats[choices->From(0, feature.floats.size() - 1)] = bad;
      }
      break;
    default: {
      ModelValues values = script->values[0];
      std::vector<float>& variable = values[choices->From(0, values.size() - 1)];
      variable[choices->From(0, variable.size() - 1)] = bad;
      step->values = script->values.size();
      script->values.push_back(std::move(values));
      break;
    }
  }
}

}  // namespace

Script MakeScript(const ModelPlan& plan, const BatchSizes& sizes, const Drawing& drawing) {
  Choices choices(drawing.seed + 7);
  Script script;
  Drawing drawn = drawing;
  for (int i = 0; i < 2; ++i, ++drawn.seed) script.values.push_back(DrawValues(plan, drawn));
  const auto add = [&](bool trains, size_t values, size_t size) {
    ++drawn.seed;
    script.steps.push_back({trains, values, DrawBatch(plan, size, drawn), drawn.seed, false});
  };
  add(true, 0, sizes.train);
  add(true, 1, sizes.train);
  add(true, 1, choices.From(1, sizes.train));
  add(false, 1, sizes.evaluation);
  add(true, 0, sizes.train);
  script.steps.back().spoiled = true;
  Spoil(plan, &choices, &script, &script.steps.back());
  script.steps.push_back(script.steps[0]);
  add(false, 0, choices.From(1, sizes.evaluation));
  script.steps.push_back(script.steps[1]);
  script.steps.push_back(script.steps[0]);
  return script;
}

std::vector<StepOutcome> RunScript(const Script& script, const ModelPlan& plan, Bringing bringing,
                                   Model* model,
                                   const std::function<void(size_t step)>& after_step) {
  ScriptRun run(script, plan, bringing, model);
  std::vector<StepOutcome> outcomes;
  for (size_t i = 0; i < script.steps.size(); ++i) {
    outcomes.push_back(run.RunStep(i));
    if (after_step) after_step(i);
  }
  return outcomes;
}

std::vector<StepOutcome> RunInParts(const Script& script, const ModelPlan& plan, size_t parts,
                                    Model* model) {
  std::vector<StepOutcome> outcomes;
  for (const ScriptStep& step : script.steps) {
    Script divided;
    divided.values = script.values;
    const size_t used = step.trains ? std::min(parts, step.batch.size) : 1;
    for (size_t i = 0, begin = 0; i < used; ++i) {
      const size_t end = begin + step.batch.size / used + (i < step.batch.size % used ? 1 : 0);
      divided.steps.push_back(
          {step.trains, step.values, ExamplesOf(step.batch, begin, end), step.seed, step.spoiled});
      begin = end;
    }
    const auto each = RunScript(divided, plan, Bringing::kTogether, model);
    outcomes.push_back(each[0]);
    if (used > 1) outcomes.back() = Together(divided, each);
  }
  return outcomes;
}

std::vector<std::string> Disagreements(const ModelPlan& plan,
                                       const std::vector<StepOutcome>& expected,
                                       const std::vector<StepOutcome>& actual,
                                       const std::vector<StepOutcome>& noisy,
                                       const Tolerances& tolerances) {
  CHECK_EQ(expected.size(), actual.size());
  Comparison comparison(plan, tolerances);
  for (size_t i = 0; i < expected.size(); ++i) {
    comparison.Compare(i, expected[i], actual[i], noisy.empty() ? nullptr : &noisy[i]);
  }
  return comparison.Take();
}

std::vector<std::string> OtherBits(const ModelPlan& plan, const std::vector<StepOutcome>& expected,
                                   const std::vector<StepOutcome>& actual) {
  return Disagreements(plan, expected, actual, /*noisy=*/{}, {/*relative=*/0, /*of_noise=*/0});
}

}  // namespace millrace::worker
