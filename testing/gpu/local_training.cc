#include "testing/gpu/local_training.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "glog/logging.h"
#include "ps/dense/initial_value.h"
#include "worker/model/layered_model.h"
#include "worker/training/step_seed.h"

namespace millrace::testing {

// The values stand in the model; slots beside them.
struct LocalTraining::Variable {
  absl::Span<float> values;
  std::vector<std::vector<float>> slots;
  std::unique_ptr<ps::Optimizer> own_rule;  // Null: the job's optimizer, or frozen.
  bool frozen = false;
};

class LocalTraining::Gradients final : public worker::GradientSink {
 public:
  explicit Gradients(const std::vector<Variable>& variables) {
    for (const Variable& variable : variables) {
      gradients_.emplace_back(variable.frozen ? 0 : variable.values.size());
    }
  }

  absl::Span<float> Buffer(size_t variable) override {
    return absl::MakeSpan(gradients_[variable]);
  }
  void Finished(size_t /*variable*/) override {}

  const float* of(size_t variable) const { return gradients_[variable].data(); }

 private:
  std::vector<std::vector<float>> gradients_;
};

LocalTraining::LocalTraining(const JobSpec& spec) : spec_(spec) {}

LocalTraining::~LocalTraining() = default;

absl::StatusOr<std::unique_ptr<LocalTraining>> LocalTraining::Start(
    const JobSpec& spec, std::shared_ptr<worker::Device> device) {
  auto training = std::unique_ptr<LocalTraining>(new LocalTraining(spec));
  MILLRACE_RETURN_IF_ERROR(training->OpenData());
  MILLRACE_ASSIGN_OR_RETURN(
      training->model_, worker::LayeredModelFactory(std::move(device))(spec, *training->examples_,
                                                                       /*evaluate=*/nullptr));
  MILLRACE_ASSIGN_OR_RETURN(training->optimizer_, ps::MakeOptimizer(spec.optimizer()));
  MILLRACE_RETURN_IF_ERROR(training->MakeVariables());
  training->gradients_ = std::make_unique<Gradients>(training->variables_);
  return training;
}

absl::Status LocalTraining::OpenData() {
  const DataSpec& data = spec_.data();
  MILLRACE_ASSIGN_OR_RETURN(examples_,
                            worker::OpenDataset(data.train(), data.directory(), "data.train"));
  order_ = std::make_unique<worker::StepOrder>(examples_->size(), spec_.batch_size(), spec_.seed(),
                                               !data.no_shuffle());
  if (!data.train().has_augmentation()) return absl::OkStatus();
  augmenter_ =
      std::make_unique<worker::Augmenter>(data.train().augmentation(), examples_->example());
  return absl::OkStatus();
}

absl::Status LocalTraining::MakeVariables() {
  for (size_t v = 0; v < model_->variables().size(); ++v) {
    const VariableSpec& spec = model_->variables()[v];
    Variable variable;
    variable.values = model_->values(v);
    variable.frozen = spec.update().has_frozen();
    ps::FillInitialValues(spec.initial_value(), spec_.seed(), spec.name(), 0, variable.values);
    for (int slot = 1; slot <= optimizer_->slots(); ++slot) {
      variable.slots.emplace_back(variable.values.size(), optimizer_->initial_slot(slot));
    }
    if (spec.has_update()) {
      MILLRACE_ASSIGN_OR_RETURN(variable.own_rule,
                                ps::MakeSliceRule(spec.update(), optimizer_->slots(), spec.name()));
    }
    variables_.push_back(std::move(variable));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> LocalTraining::Step() {
  const uint64_t seed = worker::StepSeed(spec_.seed(), step_);
  worker::Batch batch;
  MILLRACE_RETURN_IF_ERROR(examples_->Read(order_->Examples(step_), &batch));
  if (augmenter_ != nullptr) augmenter_->Apply(seed, &batch);
  const absl::StatusOr<worker::BatchResult> result = model_->Train(batch, seed, gradients_.get());
  // Train may have moved them.
  for (size_t v = 0; v < variables_.size(); ++v) variables_[v].values = model_->values(v);
  MILLRACE_RETURN_IF_ERROR(result.status());
  ++step_;
  Update();
  return result->loss_sum / static_cast<double>(batch.size);
}

std::vector<float> LocalTraining::Values() const {
  std::vector<float> values;
  for (const Variable& variable : variables_) {
    values.insert(values.end(), variable.values.begin(), variable.values.end());
  }
  return values;
}

void LocalTraining::GoOnFrom(const LocalTraining& other) {
  CHECK_EQ(step_, other.step_);
  for (size_t v = 0; v < variables_.size(); ++v) {
    const auto& values = other.variables_[v].values;
    std::copy(values.begin(), values.end(), variables_[v].values.begin());
    variables_[v].slots = other.variables_[v].slots;
  }
}

void LocalTraining::Update() {
  for (size_t v = 0; v < variables_.size(); ++v) {
    Variable& variable = variables_[v];
    if (variable.frozen) continue;
    std::vector<float*> arrays = {variable.values.data()};
    for (auto& slot : variable.slots) arrays.push_back(slot.data());
    const std::vector<const float*> in(arrays.begin(), arrays.end());
    const ps::Optimizer& rule = variable.own_rule == nullptr ? *optimizer_ : *variable.own_rule;
    ps::ApplyToVariable(rule, step_,
                        {reinterpret_cast<const char*>(gradients_->of(v)), variable.values.size(),
                         in.data(), arrays.data()});
  }
}

}  // namespace millrace::testing
