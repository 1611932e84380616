#include "worker/device/cuda/random_model_check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_script.h"
#include "worker/model/compact_model.h"
#include "worker/model/compact_tables.h"

namespace millrace::worker {
namespace {

// A disagreement that is one of rounding, where a function has a kink, is another with other
// values.
constexpr int kDrawings = 3;

struct HowModelRuns {
  std::string name;
  Bringing bringing = Bringing::kTogether;
  PrecisionSpec::Compute precision = PrecisionSpec::FLOAT32;
  size_t gpus = 1;
  bool deterministic = true;
  bool whole_tables = false;
  uint64_t order = 0;  // Of the emulation.
};

Tolerances TolerancesOf(PrecisionSpec::Compute precision) {
  switch (precision) {
    case PrecisionSpec::TF32:
      return {/*relative=*/1e-2, /*of_noise=*/8};
    case PrecisionSpec::BFLOAT16:
      return {/*relative=*/6e-2, /*of_noise=*/8};
    default:
      return {/*relative=*/5e-4, /*of_noise=*/8};
  }
}

double NoiseOf(PrecisionSpec::Compute precision) {
  switch (precision) {
    case PrecisionSpec::TF32:
      return 1.0 / (1 << 11);
    case PrecisionSpec::BFLOAT16:
      return 1.0 / (1 << 8);
    default:
      return 1.0 / (1 << 20);
  }
}

class ModelCheck {
 public:
  ModelCheck(const RandomModel& model, ModelVariation variation, uint64_t seed)
      : variation_(variation), choices_(seed) {
    const absl::StatusOr<ModelPlan> plan = PlanModel(model.spec, model.examples);
    if (!plan.ok()) {
      found_.push_back(absl::StrCat("refused: ", plan.status().message()));
      return;
    }
    plan_ = *plan;
    sizes_.train = choices_.OneOf<size_t>({1, 2, 3, 5, 7, 9});
    sizes_.evaluation = choices_.OneOf<size_t>({1, sizes_.train, 2 * sizes_.train + 3});
    drawing_.seed = seed * 1000;
    drawing_.coarse = choices_.OneIn(4);
  }

  std::vector<std::string> Check() {
    if (!found_.empty()) return found_;
    for (int i = 0; i < kDrawings; ++i, drawing_.seed += 100) {
      found_.clear();
      CheckDrawing();
      if (found_.empty()) return {};
    }
    return found_;
  }

 private:
  bool HasBatchStatistics() const {
    return std::any_of(plan_.layers.begin(), plan_.layers.end(), [](const LayerPlan& layer) {
      return layer.spec.has_batch_normalization() && layer.trainable;
    });
  }
  bool HasDropout() const {
    return std::any_of(plan_.layers.begin(), plan_.layers.end(),
                       [](const LayerPlan& layer) { return layer.spec.has_dropout(); });
  }

  HowModelRuns Variation() const {
    switch (variation_) {
      case ModelVariation::kArriving:
        return {
            .name = "arriving", .bringing = Bringing::kArriving, .order = 1 + drawing_.seed % 100};
      case ModelVariation::kAhead:
        return {.name = "ahead", .bringing = Bringing::kAhead, .order = drawing_.seed / 1000 % 3};
      case ModelVariation::kTwoGpus:
        return {.name = "two GPUs", .bringing = Bringing::kArriving, .gpus = 2};
      case ModelVariation::kTf32:
        return {.name = "TF32", .precision = PrecisionSpec::TF32};
      case ModelVariation::kBfloat16:
        return {.name = "BFLOAT16", .precision = PrecisionSpec::BFLOAT16};
      case ModelVariation::kAnyOrder:
        return {.name = "any order", .deterministic = false};
      default:
        return {.name = "whole tables", .whole_tables = true};
    }
  }

  std::vector<StepOutcome> OnProcessor(double shake) {
    Drawing drawing = drawing_;
    drawing.shake = shake;
    const std::unique_ptr<Model> model = *CpuDevice(1).Compile(plan_, sizes_);
    return RunScript(MakeScript(plan_, sizes_, drawing), plan_, Bringing::kTogether, model.get());
  }

  void CheckDrawing() {
    script_ = MakeScript(plan_, sizes_, drawing_);
    expected_ = OnProcessor(0);
    const auto first = Run({.name = "one GPU"});
    Agree("one GPU", expected_, first, PrecisionSpec::FLOAT32);
    const HowModelRuns other = Variation();
    const auto varied = Run(other);
    const bool same =
        other.gpus == 1 && other.deterministic && other.precision == PrecisionSpec::FLOAT32;
    if (same) return SameBits(other.name, first, varied);
    if (other.gpus == 1 || !HasBatchStatistics()) {
      return Agree(other.name, expected_, varied, other.precision);
    }
    if (HasDropout()) return;
    const std::unique_ptr<Model> model = *CpuDevice(1).Compile(plan_, sizes_);
    Agree("in parts", RunInParts(script_, plan_, other.gpus, model.get()), varied, other.precision);
  }

  void Add(const std::string& where, const std::vector<std::string>& what) {
    for (const std::string& one : what) found_.push_back(absl::StrCat(where, ": ", one));
  }

  void Agree(const std::string& where, const std::vector<StepOutcome>& expected,
             const std::vector<StepOutcome>& actual, PrecisionSpec::Compute precision) {
    if (actual.empty()) return;
    std::vector<StepOutcome> noisy;
    if (Disagreements(plan_, expected, actual, noisy, TolerancesOf(precision)).empty()) return;
    noisy = OnProcessor(NoiseOf(precision));
    Add(where, Disagreements(plan_, expected, actual, noisy, TolerancesOf(precision)));
  }

  void SameBits(const std::string& where, const std::vector<StepOutcome>& expected,
                const std::vector<StepOutcome>& actual) {
    if (actual.empty() || expected.empty()) return;
    Add(where, OtherBits(plan_, expected, actual));
  }

  std::vector<StepOutcome> Run(const HowModelRuns& how) {
    cuda_emulation::Reset();
    cuda_emulation::SetDeviceCount(static_cast<int>(how.gpus));
    cuda_emulation::SetOrder(how.order);
    CudaDeviceOptions options;
    if (how.gpus == 2) options.gpus = {0, 1};
    options.deterministic = how.deterministic;
    std::shared_ptr<Device> device = *CudaDevice::Open(TestLibrary(static_cast<int>(how.gpus)),
                                                       options, [](const absl::Status&) {});
    ModelPlan plan = plan_;
    plan.precision = how.precision;
    plan.pulls_ahead = how.bringing == Bringing::kAhead;
    const bool compact = CompactTables(plan).any() && !how.whole_tables;
    absl::StatusOr<std::unique_ptr<Model>> model =
        compact ? CompactModel::Compile(device, plan, sizes_) : device->Compile(plan, sizes_);
    if (!model.ok()) {
      Add(how.name, {model.status().ToString()});
      return {};
    }
    cuda_emulation::Counts before, after;
    const auto outcomes = RunScript(script_, plan, how.bringing, model->get(), [&](size_t) {
      before = std::exchange(after, cuda_emulation::Counted());
    });
    CheckSteady(how.name, before, after);
    if (how.deterministic) {
      SameBits(how.name + ", repeated", {outcomes[0], outcomes[0], outcomes[1]},
               {outcomes[5], outcomes[8], outcomes[7]});
    }
    return outcomes;
  }

  // The last step repeats the first one.
  void CheckSteady(const std::string& where, const cuda_emulation::Counts& before,
                   const cuda_emulation::Counts& after) {
    const auto same = [&](const std::string& what, uint64_t then, uint64_t now) {
      if (then != now) Add(where, {absl::StrCat("a steady step takes ", now - then, " ", what)});
    };
    same("allocations", before.allocations, after.allocations);
    same("pinned allocations", before.pinned_allocations, after.pinned_allocations);
    same("nodes of graphs", before.graph_nodes, after.graph_nodes);
    same("events", before.events, after.events);
    same("handles", before.blas_handles, after.blas_handles);
  }

  const ModelVariation variation_;
  Choices choices_;
  ModelPlan plan_;
  BatchSizes sizes_;
  Drawing drawing_;
  Script script_;
  std::vector<StepOutcome> expected_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> CheckRandomModel(const RandomModel& model, ModelVariation variation,
                                          uint64_t seed) {
  return ModelCheck(model, variation, seed).Check();
}

}  // namespace millrace::worker
