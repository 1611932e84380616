#include "testing/chaos/sum_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/split_mix.h"

namespace millrace::chaos {
namespace {

using worker::Batch;
using worker::BatchResult;
using worker::EvaluationSums;
using worker::GradientSink;
using worker::Model;

std::string Where(size_t variable, uint64_t element, float value) {
  return absl::StrCat("element ", element, " of variable ", variable, " is ", value);
}

class SumModel final : public Model {
 public:
  SumModel(std::vector<VariableSpec> variables, SumChecker checker, absl::Duration step_time)
      : variables_(std::move(variables)), checker_(std::move(checker)), step_time_(step_time) {
    for (const VariableSpec& variable : variables_) {
      values_.emplace_back(variable.shape(0));
      next_values_.emplace_back(variable.shape(0));
      if (!variable.update().has_frozen()) ++trained_;
    }
  }

  const std::vector<VariableSpec>& variables() const override { return variables_; }
  absl::Span<float> values(size_t variable) override { return absl::MakeSpan(values_[variable]); }
  bool has_next_values() const override { return true; }
  absl::Span<float> next_values(size_t variable) override {
    return absl::MakeSpan(next_values_[variable]);
  }
  void TakeNextValues() override { values_.swap(next_values_); }

  absl::StatusOr<BatchResult> Train(const Batch& batch, uint64_t /*seed*/,
                                    GradientSink* gradients) override {
    const auto step = static_cast<uint64_t>(batch.labels[0].ids.front());
    MILLRACE_RETURN_IF_ERROR(checker_.CheckTraining(step, Trained()));
    MILLRACE_RETURN_IF_ERROR(CheckFrozen());
    if (step_time_ > absl::ZeroDuration()) absl::SleepFor(step_time_);
    for (size_t v = 0; v < trained_; ++v) {
      const absl::Span<float> gradient = gradients->Buffer(v);
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>(GradientOf(step, KindOf(v, i)));
      }
      gradients->Finished(v);
    }
    return BatchResult{.loss_sum = 0, .accuracy_sum = absl::nullopt};
  }

  absl::Status Evaluate(const Batch& batch, EvaluationSums* sums) override {
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t steps, checker_.CheckEvaluation(Trained()));
    MILLRACE_RETURN_IF_ERROR(CheckFrozen());
    sums->examples += batch.size;
    sums->loss_sum += static_cast<double>(steps * batch.size);
    return absl::OkStatus();
  }

 private:
  absl::Span<const std::vector<float>> Trained() const {
    return absl::MakeConstSpan(values_).subspan(0, trained_);
  }

  absl::Status CheckFrozen() const {
    for (size_t v = trained_; v < values_.size(); ++v) {
      for (size_t i = 0; i < values_[v].size(); ++i) {
        if (values_[v][i] == kFrozenValue) continue;
        return absl::InternalError(absl::StrCat(
            "a frozen variable has changed: ", Where(v, i, values_[v][i]), ", not ", kFrozenValue));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<VariableSpec> variables_;
  const SumChecker checker_;
  const absl::Duration step_time_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<float>> next_values_;
  size_t trained_ = 0;  // Variables before the frozen ones.
};

absl::Status CheckSpec(const JobSpec& spec) {
  if (spec.batch_size() != 1 || !spec.data().no_shuffle()) {
    return absl::InvalidArgumentError("batch_size must be 1, with data.no_shuffle");
  }
  bool frozen = false;
  for (const LayerSpec& layer : spec.model().layers()) {
    if (!layer.has_dense() || (frozen && !layer.dense().no_bias())) {
      return absl::InvalidArgumentError(
          "model.layers: each must be a dense { units: ELEMENTS }, those with no_bias last");
    }
    frozen = layer.dense().no_bias();
  }
  return absl::OkStatus();
}

}  // namespace

int32_t GradientOf(uint64_t step, size_t kind) {
  return 1 + static_cast<int32_t>((worker::SplitMix64(step) >> (4 * kind)) & 7);
}

SumChecker::SumChecker(uint64_t total_steps, uint32_t replicas, uint32_t staleness_bound)
    : replicas_(replicas), staleness_bound_(staleness_bound), before_(1) {
  before_.reserve(total_steps + 1);
  for (uint64_t step = 0; step < total_steps; ++step) {
    Sums sums = before_.back();
    for (size_t kind = 0; kind < kKinds; ++kind) sums[kind] += GradientOf(step, kind);
    before_.push_back(sums);
  }
}

absl::Status SumChecker::CheckTraining(uint64_t step,
                                       absl::Span<const std::vector<float>> values) const {
  const bool exact = replicas_ > 0;
  const uint64_t needed =
      exact ? step - step % replicas_ : step - std::min<uint64_t>(step, staleness_bound_);
  const Sums& wanted = before_[needed];
  for (size_t v = 0; v < values.size(); ++v) {
    for (size_t i = 0; i < values[v].size(); ++i) {
      const float sum = -values[v][i] * static_cast<float>(contributions());
      const auto least = static_cast<float>(wanted[KindOf(v, i)]);
      if (exact ? sum == least : sum >= least) continue;
      return absl::InternalError(absl::StrCat(
          "step ", step, " was computed from a wrong state: ", Where(v, i, values[v][i]),
          "; the steps before ", needed, ", which it must ", exact ? "be made of" : "hold",
          ", make ", -least, " / ", contributions()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SumChecker::CheckEvaluation(
    absl::Span<const std::vector<float>> values) const {
  const float first = -values[0][0] * static_cast<float>(contributions());
  const size_t kind = KindOf(0, 0);
  const auto found = std::lower_bound(
      before_.begin(), before_.end(), first,
      [kind](const Sums& sums, float sum) { return static_cast<float>(sums[kind]) < sum; });
  for (size_t v = 0; v < values.size(); ++v) {
    for (size_t i = 0; i < values[v].size(); ++i) {
      const float sum = -values[v][i] * static_cast<float>(contributions());
      if (found != before_.end() && sum == static_cast<float>((*found)[KindOf(v, i)])) continue;
      return absl::InternalError(
          absl::StrCat("the evaluated state is not made of the first steps, each once: ",
                       Where(v, i, values[v][i]), ", and ", Where(0, 0, values[0][0])));
    }
  }
  return found - before_.begin();
}

worker::ModelFactory SumModelFactory(absl::Duration step_time) {
  return [step_time](const JobSpec& spec, const worker::Dataset& train,
                     const worker::Dataset*) -> absl::StatusOr<std::unique_ptr<Model>> {
    MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
    std::vector<VariableSpec> variables;
    for (int i = 0; i < spec.model().layers_size(); ++i) {
      VariableSpec& variable = variables.emplace_back();
      variable.set_name(LayerName(spec.model(), i));
      variable.add_shape(spec.model().layers(i).dense().units());
      variable.mutable_initial_value()->set_constant(0);
      if (!spec.model().layers(i).dense().no_bias()) continue;
      variable.mutable_initial_value()->set_constant(kFrozenValue);
      variable.mutable_update()->mutable_frozen();
    }
    SumChecker checker(TotalSteps(spec, train.size()), Replicas(spec), StalenessBound(spec));
    return std::make_unique<SumModel>(std::move(variables), std::move(checker), step_time);
  };
}

}  // namespace millrace::chaos
