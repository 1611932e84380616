// Steps a second of a job's model on a device, through the worker's own Device and Model: from the
// copy of values and batch to the last gradient in the host's memory. Examples are random ones in
// memory; there are no servers and no optimizer. Of one GPU also without these copies
// (compute_steps_per_second), where the host looks at no losses and waits for no single step: what
// is left of a step is what these take.
//
//   MILLRACE_TEST_GPU=/path/libmillrace_cuda.so gpu_benchmark --job=examples/wide_mlp.textproto
//
// --ahead, which gives no other figure: values and batch of the next step are there once the loss
// is known, as in a job that pulls ahead from servers that are quick, and go to the device while
// the backward pass runs.
//
// Prints one line of JSON; gpus is how many this process could have. Without MILLRACE_TEST_GPU
// --device=cuda is the emulated GPU, whose times say nothing. The peak that shares are given of,
// share_of_peak with the copies and compute_share_of_peak without them, is that of one large
// product of matrices through the same library, in the same precision, neither factor transposed.
// In BFLOAT16 that includes the rounding of both factors, as in a step: the GPU's own peak
// (product_benchmark) is higher, and the share of that less.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/job_spec.h"
#include "common/process.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "ps/dense/initial_value.h"
#include "testing/benchmarks/gpu_timing.h"
#include "worker/device/cuda/batch_part.h"
#include "worker/device/cuda/cuda_replica.h"
#include "worker/device/cuda/gradient_buckets.h"
#include "worker/device/cuda/host_variables.h"
#include "worker/device/cuda/library.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/device.h"
#include "worker/devices.h"
#include "worker/input/example_spec.h"
#include "worker/model/flops.h"
#include "worker/model/model_plan.h"
#include "worker/model/walk.h"
#include "worker/training/gradient_pool.h"

namespace millrace::testing {
namespace {

struct Options {
  std::string job;
  std::string device = "cuda";
  std::string precision = "FLOAT32";
  size_t batch = 0;
  int steps = 20;
  int rounds = 15;
  int warmup = 10;
  int64_t peak_size = 8192;
  int threads = 1;
  bool deterministic = true;
  bool ahead = false;
};

// As a worker has them: on the host, where the device copies them by itself if it can.
class HostGradients final : public worker::GradientSink {
 public:
  explicit HostGradients(const worker::Model& model)
      : gradients_(Sizes(model.variables()), model.host_memory()) {}

  absl::Span<float> Buffer(size_t variable) override { return gradients_.variable(variable); }
  absl::Span<float> DeviceBuffer(size_t variable) override {
    return gradients_.is_host_memory() ? Buffer(variable) : absl::Span<float>();
  }
  void BackwardBegins() override {
    if (backward_begins_) backward_begins_();
  }
  void Finished(size_t /*variable*/) override {}

  void SetBackwardBegins(std::function<void()> backward_begins) {
    backward_begins_ = std::move(backward_begins);
  }

 private:
  static std::vector<uint64_t> Sizes(const std::vector<VariableSpec>& variables) {
    std::vector<uint64_t> sizes;
    for (const VariableSpec& variable : variables) {
      sizes.push_back(variable.update().has_frozen() ? 0 : 1);
      for (const uint64_t dimension : variable.shape()) sizes.back() *= dimension;
    }
    return sizes;
  }

  worker::GradientSet gradients_;
  std::function<void()> backward_begins_;
};

absl::StatusOr<JobSpec> ReadJob(const Options& options) {
  std::ifstream file(options.job);
  if (!file.good()) return absl::NotFoundError(absl::StrCat("--job: ", options.job));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  MILLRACE_ASSIGN_OR_RETURN(JobSpec spec, ParseJobSpec(text, options.job));
  MILLRACE_RETURN_IF_ERROR(SetField(absl::StrCat("precision.compute=", options.precision), &spec));
  return spec;
}

// As those files' readers have them: pictures of floats in ten classes.
absl::StatusOr<worker::ExampleSpec> ExamplesOf(const JobSpec& spec) {
  if (spec.data().train().has_cifar()) return worker::FloatsAndClass({32, 32, 3}, 10);
  if (spec.data().train().has_idx()) return worker::FloatsAndClass({28, 28, 1}, 10);
  return absl::InvalidArgumentError("--job: must train on cifar or idx files");
}

worker::Batch RandomBatch(const worker::ExampleSpec& examples, size_t size) {
  std::mt19937 random(1);
  std::vector<float> pixels(size * worker::TensorBytes(examples.features[0]) / sizeof(float));
  for (float& pixel : pixels) pixel = static_cast<float>(random() % 256) / 255.0f;
  std::vector<int64_t> classes(size);
  for (int64_t& label : classes) label = random() % 10;
  return worker::FloatsAndClasses(std::move(pixels), std::move(classes));
}

// Of all that a step computes: as much as forwards for the gradients of a layer's variables, and
// for that by its input, but for what nobody asks for, as of the first layer's.
double StepFlops(const worker::ModelPlan& plan, size_t batch) {
  const worker::Walk walk = worker::PlanWalk(plan);
  double flops = 0;
  for (const worker::ForwardStep& step : walk.forward) {
    flops += worker::ForwardFlops(plan.layers[step.layer]);
  }
  for (const worker::BackwardStep& step : walk.backward) {
    const worker::LayerPlan& layer = plan.layers[step.layer];
    const bool asked =
        std::any_of(step.gradients.begin(), step.gradients.end(),
                    [](worker::GradientUse use) { return use != worker::GradientUse::kNone; });
    flops += (static_cast<int>(worker::IsTrained(layer)) + static_cast<int>(asked)) *
             worker::ForwardFlops(layer);
  }
  return flops * static_cast<double>(batch);
}

// What is measured: a model, the first values of its variables, and a batch.
struct Task {
  JobSpec spec;
  worker::ModelPlan plan;
  worker::Batch batch;
};

absl::StatusOr<Task> ReadTask(const Options& options) {
  Task task;
  MILLRACE_ASSIGN_OR_RETURN(task.spec, ReadJob(options));
  MILLRACE_ASSIGN_OR_RETURN(const worker::ExampleSpec examples, ExamplesOf(task.spec));
  MILLRACE_ASSIGN_OR_RETURN(task.plan, worker::PlanModel(task.spec, examples));
  task.plan.pulls_ahead = options.ahead;
  task.batch = RandomBatch(examples, options.batch > 0 ? options.batch : task.spec.batch_size());
  return task;
}

// Writes them to `values(variable)`.
template <typename Values>
void FillValues(const Task& task, const Values& values) {
  for (size_t v = 0; v < task.plan.variables.size(); ++v) {
    const VariableSpec& variable = task.plan.variables[v];
    ps::FillInitialValues(variable.initial_value(), task.spec.seed(), variable.name(), 0,
                          values(v));
  }
}

// Of `run`, which does so many steps.
template <typename Run>
absl::StatusOr<Spread> RatesOf(const Options& options, const Run& run) {
  MILLRACE_RETURN_IF_ERROR(run(options.warmup));
  std::vector<double> rates;
  for (int round = 0; round < options.rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(run(options.steps));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    rates.push_back(options.steps / took.count());
  }
  return SpreadOf(std::move(rates));
}

// What a step needs that follows the one under way: the same values, from where they are, and the
// same batch.
void BringNext(const Task& task, worker::Model* model) {
  for (size_t v = 0; v < task.plan.variables.size(); ++v) {
    model->Arrived(v, 0, model->next_values(v).size());
  }
  model->Stage(&task.batch);
}

absl::StatusOr<Spread> StepRates(const Task& task, worker::Device* device, const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<worker::Model> model,
                            device->Compile(task.plan, {task.batch.size, /*evaluation=*/0}));
  FillValues(task, [&](size_t variable) { return model->values(variable); });
  HostGradients gradients(*model);
  bool filled = false;  // Both sets of values, where there are two.
  const auto bring_next = [&] {
    if (!std::exchange(filled, true)) {
      FillValues(task, [&](size_t variable) { return model->next_values(variable); });
    }
    BringNext(task, model.get());
  };
  if (options.ahead) gradients.SetBackwardBegins(bring_next);
  uint64_t step = 0;
  return RatesOf(options, [&](int steps) -> absl::Status {
    for (int i = 0; i < steps; ++i) {
      MILLRACE_RETURN_IF_ERROR(model->Train(task.batch, step++, &gradients).status());
      if (options.ahead) model->TakeNextValues();
    }
    return absl::OkStatus();
  });
}

// The GPU that is measured; below 0: the processor is, or several GPUs are.
int GpuOf(const std::string& device) {
  if (device == "cuda") return 0;
  absl::string_view number = device;
  int index = 0;
  return absl::ConsumePrefix(&number, "cuda:") && absl::SimpleAtoi(number, &index) ? index : -1;
}

std::unique_ptr<cuda::Gpu> OpenGpu(const Options& options) {
  return worker::TestLibrary()->Open(GpuOf(options.device),
                                     {.deterministic = options.deterministic});
}

// As StepRates, but nothing is copied from or to the host but the outputs and their losses, and the
// host waits for the last step alone. A replica that is one of two leaves its gradients on the GPU,
// where the other one would fetch them.
absl::StatusOr<Spread> ComputeRates(const Task& task, const Options& options) {
  const worker::Walk walk = worker::PlanWalk(task.plan, /*for_gpu=*/true);
  const worker::VariablePlaces places(task.plan, walk);
  std::vector<worker::GradientBucket> whole_pass(1);
  whole_pass[0].steps = walk.backward.size();
  worker::CudaReplica replica(task.plan, walk, places, whole_pass, /*replicas=*/2,
                              {task.batch.size, /*evaluation=*/0}, OpenGpu(options),
                              options.device);
  replica.ChooseProducts(task.batch.size, /*training=*/true);
  const worker::HostVariables host(places, replica.gpu());
  FillValues(task, [&](size_t variable) { return host.value(variable); });
  replica.TakeMemory(&host);
  const worker::BatchPart part = worker::AllOf(task.batch);
  replica.CopyInValues(0, places.values_bytes);
  replica.CopyBatch(part, /*training=*/true);
  replica.BeginPass(/*seed=*/0);
  replica.Prepare(part, /*training=*/true, /*to=*/{});
  return RatesOf(options, [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      replica.LaunchForward(part, /*training=*/true);
      replica.LaunchBackward(part, /*to=*/{}, /*bucket=*/0);
    }
    AwaitCompute(replica.gpu());
    return absl::OkStatus();
  });
}

// 0: not asked for.
double PeakOf(const Options& options, const JobSpec& spec) {
  if (options.peak_size == 0) return 0;
  cuda::Precision precision = cuda::Precision::kFloat32;
  if (spec.precision().compute() == PrecisionSpec::TF32) precision = cuda::Precision::kTf32;
  if (spec.precision().compute() == PrecisionSpec::BFLOAT16) precision = cuda::Precision::kBfloat16;
  return ProductRate(OpenGpu(options).get(), precision, options.peak_size, /*rounds=*/9);
}

// What is of one GPU alone. `flops`: of a step.
absl::Status AddGpuFigures(const Task& task, const Options& options, double flops,
                           nlohmann::ordered_json* line) {
  MILLRACE_ASSIGN_OR_RETURN(const Spread compute, ComputeRates(task, options));
  (*line)["gpus"] = worker::TestLibrary()->GpuCount();
  (*line)["compute_steps_per_second"] = compute.median;
  (*line)["compute_flops_per_second"] = flops * compute.median;
  const double peak = PeakOf(options, task.spec);
  if (peak == 0) return absl::OkStatus();
  (*line)["peak_flops_per_second"] = peak;
  (*line)["share_of_peak"] = flops * line->at("steps_per_second").get<double>() / peak;
  (*line)["compute_share_of_peak"] = flops * compute.median / peak;
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const Task task, ReadTask(options));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<worker::Device> device,
                            worker::OpenDevice(
                                {.name = options.device,
                                 .threads = options.threads,
                                 .deterministic = options.deterministic},
                                [](const absl::Status&) {}, [] { return worker::TestLibrary(); }));
  MILLRACE_ASSIGN_OR_RETURN(const Spread rate, StepRates(task, device.get(), options));
  const double flops = StepFlops(task.plan, task.batch.size);
  nlohmann::ordered_json line = {{"what", "millrace"},
                                 {"job", task.spec.name()},
                                 {"device", device->description()},
                                 {"precision", absl::AsciiStrToLower(options.precision)},
                                 {"deterministic", options.deterministic},
                                 {"ahead", options.ahead},
                                 {"batch", task.batch.size},
                                 {"steps_per_second", rate.median},
                                 {"least", rate.least},
                                 {"most", rate.most},
                                 {"flops_per_second", flops * rate.median}};
  if (GpuOf(options.device) >= 0 && !options.ahead) {
    MILLRACE_RETURN_IF_ERROR(AddGpuFigures(task, options, flops, &line));
  }
  std::cout << line << std::endl;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  InitProcess(argv[0]);
  Options options;
  CLI::App app("How many steps of a job's model a device does in a second.");
  app.add_option("--job", options.job, "its file")->required();
  app.add_option("--device", options.device, "cuda, cuda:N or cpu");
  app.add_option("--precision", options.precision, "FLOAT32, TF32 or BFLOAT16");
  app.add_option("--batch", options.batch, "examples; 0: the job's batch_size");
  app.add_option("--steps", options.steps, "of a round")->check(CLI::PositiveNumber);
  app.add_option("--rounds", options.rounds, "whose median counts")->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "steps that do not count");
  app.add_option("--peak_size", options.peak_size, "of the product; 0: without");
  app.add_option("--threads", options.threads, "of --device=cpu")->check(CLI::PositiveNumber);
  app.add_option("--deterministic", options.deterministic, "false: sums in any order");
  app.add_flag("--ahead", options.ahead, "the next step's values come while a step computes");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::cerr << "gpu_benchmark: " << status.message() << std::endl;
  return 1;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) { return millrace::testing::Main(argc, argv); }
