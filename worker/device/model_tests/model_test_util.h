// What tests and benchmarks of models share, whatever device they are of (test_device.h).
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_MODEL_TEST_UTIL_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_MODEL_TEST_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "worker/input/batch.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

// Of each variable.
using ModelValues = std::vector<std::vector<float>>;

// Keeps the gradients of the newest step, and the order in which they were finished.
// `backward_begins`, which may be null, is called when a backward pass does.
class KeptGradients final : public GradientSink {
 public:
  explicit KeptGradients(const ModelPlan& plan, std::function<void()> backward_begins = nullptr);

  void BackwardBegins() override {
    if (backward_begins_) backward_begins_();
  }
  absl::Span<float> Buffer(size_t variable) override;
  void Finished(size_t variable) override { finished_.push_back(variable); }

  const std::vector<float>& gradient(size_t variable) const { return gradients_[variable]; }
  const ModelValues& gradients() const { return gradients_; }
  const std::vector<size_t>& finished() const { return finished_; }

 private:
  std::function<void()> backward_begins_;
  ModelValues gradients_;
  std::vector<size_t> finished_;
};

// What a step gives.
struct GivenByStep {
  double loss_sum = 0;
  ModelValues gradients;

  bool operator==(const GivenByStep& other) const = default;
};

// `text` is a ModelSpec in text format. Stops the process where it does not fit.
ModelPlan PlanOrDie(const std::string& text, const ExampleSpec& examples);
ModelPlan PlanOrDie(const std::string& text, const Shape& input, int32_t label_count);

// The same plan, of a job that pulls ahead.
ModelPlan PullingAhead(ModelPlan plan);

// Of lists of ids below 9, of any length: their embeddings' mean, and 3 classes.
ModelPlan PlanOfRaggedIds();

// For batches of up to `max_batch` examples, in training and in evaluation.
std::unique_ptr<Model> CompileOrDie(const ModelPlan& plan, size_t max_batch, int threads = 1);

BatchResult TrainOrDie(const Batch& batch, uint64_t seed, Model* model, KeptGradients* gradients);

GivenByStep GivenBy(const Batch& batch, uint64_t seed, const ModelPlan& plan, Model* model);

// As whoever tells of nothing does.
void WriteValues(const ModelValues& values, Model* model);

// Uniform in [-scale, scale], variances in [0.5, 0.5 + scale]; the same for the same seed.
void FillValues(uint64_t seed, float scale, Model* model);

// Features uniform in [-1, 1], labels below `label_count`; the same for the same seed.
Batch RandomBatch(uint64_t seed, size_t size, const Shape& shape, int32_t label_count);

// Value -= learning_rate * gradient, for all.
void ApplySgd(float learning_rate, const KeptGradients& gradients, Model* model);

// A ModelSpec with the layers of a small network of pictures, for four classes.
extern const char kPictureNetwork[];

// Trains a model of two numbers and two classes on all four cases, and returns what a step after
// that says of them.
BatchResult LearnExclusiveOr(const ModelPlan& plan);

// Trains a model of pictures [6, 6, 1] to tell which third of them, from the left, is brighter, for
// so many steps. Returns the share of them that it tells then.
double LearnBrighterThird(const ModelPlan& plan, uint64_t steps);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_MODEL_TEST_UTIL_H_
