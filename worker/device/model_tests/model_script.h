// What models are asked for one after the other, and how far they agree in what they give.
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_MODEL_SCRIPT_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_MODEL_SCRIPT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/model_tests/model_test_util.h"
#include "worker/device/model_tests/random_models.h"
#include "worker/input/batch.h"
#include "worker/model/batch_sizes.h"
#include "worker/model/model.h"
#include "worker/model/model_plan.h"

namespace millrace::worker {

struct ScriptStep {
  bool trains = true;  // Or evaluates.
  size_t values = 0;   // In Script::values.
  Batch batch;
  uint64_t seed = 0;
  // It is refused, or numbers are not finite: what it gives is not compared.
  bool spoiled = false;
};

struct Script {
  std::vector<ModelValues> values;
  std::vector<ScriptStep> steps;
};

// Steps of full batches, shorter ones and evaluations, with other values in between. The first step
// is there twice more, the last time at the end. One step is refused, or its loss is not a number.
Script MakeScript(const ModelPlan& plan, const BatchSizes& sizes, const Drawing& drawing);

// How values and batches come to a model, and gradients from it.
enum class Bringing {
  kTogether,  // Values before each step.
  kArriving,  // The same, told of, and rows alone; gradients to the model's memory.
  kAhead,     // Within the step before, where there is one. REQUIRES: the plan pulls ahead.
};

struct StepOutcome {
  absl::Status status;
  double loss_sum = 0;
  std::map<std::string, double> numbers;  // Metrics, and counts of confusion matrices.
  ModelValues gradients;                  // Of variables that are not frozen.
};

// `after_step`, which may be null, is told its number.
std::vector<StepOutcome> RunScript(const Script& script, const ModelPlan& plan, Bringing bringing,
                                   Model* model,
                                   const std::function<void(size_t step)>& after_step = nullptr);

// What comes of a step where each of so many devices has a part of its batch.
std::vector<StepOutcome> RunInParts(const Script& script, const ModelPlan& plan, size_t parts,
                                    Model* model);

struct Tolerances {
  double relative = 1e-3;
  double of_noise = 8;  // Times what `noisy` is off.
};

// What is other than `expected`, in words. `noisy`: what comes of values and features that are a
// little off. Empty: nothing is.
std::vector<std::string> Disagreements(const ModelPlan& plan,
                                       const std::vector<StepOutcome>& expected,
                                       const std::vector<StepOutcome>& actual,
                                       const std::vector<StepOutcome>& noisy,
                                       const Tolerances& tolerances);

// The same, where all bits are to be equal.
std::vector<std::string> OtherBits(const ModelPlan& plan, const std::vector<StepOutcome>& expected,
                                   const std::vector<StepOutcome>& actual);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_MODEL_SCRIPT_H_
