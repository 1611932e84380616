#include "worker/device/cuda/cuda_model.h"

#include <cmath>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/memory_limit.h"
#include "common/status_macros.h"
#include "worker/device/cuda/cuda_memory_need.h"
#include "worker/model/batch_check.h"
#include "worker/model/output_results.h"
#include "worker/model/penalty.h"

namespace millrace::worker {
namespace {

absl::Status StatusOf(const cuda::Error& error, const std::string& device_name) {
  const std::string message = absl::StrCat(device_name, ": ", error.what());
  switch (error.kind()) {
    case cuda::Error::kMemory:
      return absl::ResourceExhaustedError(message);
    case cuda::Error::kLost:
      return absl::UnavailableError(message);
    case cuda::Error::kOther:
      break;
  }
  return absl::InternalError(message);
}

// Counts the time from here to the end of the block.
class BusyTime {
 public:
  explicit BusyTime(DeviceMeter* meter) : meter_(meter), begin_(absl::Now()) {}
  ~BusyTime() { meter_->AddBusy(absl::Now() - begin_); }

 private:
  DeviceMeter* const meter_;
  const absl::Time begin_;
};

const char* NameOf(PrecisionSpec::Compute precision) {
  switch (precision) {
    case PrecisionSpec::TF32:
      return "tf32";
    case PrecisionSpec::BFLOAT16:
      return "bfloat16";
    default:
      return "float32";
  }
}

std::vector<std::unique_ptr<CudaReplica>> MakeReplicas(const ModelPlan& plan, const Walk& walk,
                                                       const VariablePlaces& places,
                                                       const BatchSizes& batches,
                                                       std::unique_ptr<cuda::Gpu> gpu,
                                                       const std::string& device_name) {
  std::vector<std::unique_ptr<CudaReplica>> replicas;
  replicas.push_back(
      std::make_unique<CudaReplica>(plan, walk, places, batches, std::move(gpu), device_name));
  return replicas;
}

// What the bits of results depend on.
std::string CudaNumerics(const cuda::GpuProperties& gpu, PrecisionSpec::Compute precision) {
  const char* const order = gpu.deterministic ? "" : ", any order";
  return absl::StrCat("cuda, ", gpu.name, " (sm_", gpu.major, gpu.minor, "), ", NameOf(precision),
                      ", ", gpu.release, ", ", gpu.products, order);
}

}  // namespace

template <typename Work>
auto CudaModel::Catch(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const cuda::Error& error) {
    absl::Status status = StatusOf(error, device_name_);
    // The trouble of one worker ends no job.
    if (absl::IsInternal(status)) status = absl::UnavailableError(status.message());
    if (error.kind() == cuda::Error::kLost) state_->Lose(status);
    return status;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "no memory is left for the model; use smaller layers or a smaller batch_size");
  }
}

CudaModel::CudaModel(const ModelPlan& plan, const BatchSizes& batches,
                     std::unique_ptr<cuda::Gpu> gpu, std::string device_name,
                     std::shared_ptr<DeviceState> state, std::shared_ptr<DeviceMeter> meter)
    : plan_(plan),
      walk_(PlanWalk(plan_)),
      batches_(batches),
      device_name_(std::move(device_name)),
      state_(std::move(state)),
      meter_(std::move(meter)),
      places_(plan_, walk_),
      replicas_(MakeReplicas(plan_, walk_, places_, batches_, std::move(gpu), device_name_)),
      numerics_(CudaNumerics(replicas_[0]->gpu()->Properties(), plan_.precision)) {}

CudaModel::~CudaModel() {
  gives_back_.emplace(state_.get(), "gives memory back");
  if (!state_->hangs()) return;
  // Giving memory back would wait for what does not end.
  KeepForEver(std::move(host_));
  for (const auto& replica : replicas_) replica->Abandon();
}

absl::StatusOr<std::unique_ptr<Model>> CudaModel::Compile(const ModelPlan& plan,
                                                          const BatchSizes& batches,
                                                          std::unique_ptr<cuda::Gpu> gpu,
                                                          const std::string& device_name,
                                                          std::shared_ptr<DeviceState> state,
                                                          std::shared_ptr<DeviceMeter> meter) {
  if (batches.train == 0) return absl::InvalidArgumentError("a batch has at least 1 example");
  try {
    std::unique_ptr<CudaModel> model(
        new CudaModel(plan, batches, std::move(gpu), device_name, state, std::move(meter)));
    MILLRACE_RETURN_IF_ERROR(model->Catch([&] { return model->TakeMemory(); }));
    return std::unique_ptr<Model>(std::move(model));
  } catch (const cuda::Error& error) {
    const absl::Status status = StatusOf(error, device_name);
    if (error.kind() == cuda::Error::kLost) state->Lose(status);
    return status;
  }
}

absl::Status CudaModel::TakeMemory() {
  CudaReplica& replica = *replicas_[0];
  const CudaMemoryNeed need(plan_, walk_, replica.layers(), places_, batches_, replica.layout());
  MILLRACE_RETURN_IF_ERROR(need.CheckHost(MemoryLimit()));
  MILLRACE_RETURN_IF_ERROR(need.CheckDevice(replica.gpu()->Properties().free, device_name_));
  host_ = std::make_unique<HostVariables>(places_, replica.gpu());
  replica.TakeMemory(host_.get());
  const cuda::GpuProperties properties = replica.gpu()->Properties();
  meter_->SetMemory(properties.memory, properties.memory - properties.free);
  return absl::OkStatus();
}

absl::Span<float> CudaModel::values(size_t variable) { return host_->value(variable); }

void CudaModel::Launch(const Batch& batch, uint64_t seed, bool training) {
  const DeviceState::Call call(state_.get(), "launches a step");
  CudaReplica& replica = *replicas_[0];
  replica.EnqueueInputs(batch, seed, training);
  replica.Prepare(batch.size, training);
  replica.LaunchForward(batch.size, training);
  if (training) replica.LaunchBackward(batch.size);
}

absl::Status CudaModel::TooLate() {
  const absl::Status status = absl::UnavailableError(
      absl::StrCat(device_name_, ": has not finished a step within ", timeout_seconds(), " s"));
  state_->Hang(status);
  return status;
}

OutputBatch CudaModel::OutputAt(size_t output, const Batch& batch) const {
  const OutputPlan& plan = plan_.outputs[output];
  const float* const values = replicas_[0]->Output(output);
  return OutputOf(plan, absl::MakeConstSpan(values, batch.size * plan.width), batch);
}

double CudaModel::LossAt(size_t output, const Batch& batch) const {
  const double* const losses = replicas_[0]->Losses(output);
  return std::accumulate(losses, losses + batch.size, 0.0);
}

double CudaModel::MeanPenalty() {
  double sum = 0;
  for (size_t i = 0; i < plan_.variables.size(); ++i) {
    sum += Penalty(plan_.regularizers[i], values(i));
  }
  return sum;
}

absl::StatusOr<BatchResult> CudaModel::Train(const Batch& batch, uint64_t seed,
                                             GradientSink* gradients) {
  if (state_->hangs()) return TooLate();
  MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.train));
  return Catch([&]() -> absl::StatusOr<BatchResult> {
    const BusyTime busy(meter_.get());
    const CudaReplica& replica = *replicas_[0];
    Launch(batch, seed, /*training=*/true);  // Gradients stay here until the loss is known.
    if (!replica.AwaitForward(timeout_seconds())) return TooLate();
    BatchResult result;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      AddOutput(plan_.outputs, plan_.outputs[i], OutputAt(i, batch), LossAt(i, batch), &result);
    }
    result.loss_sum += MeanPenalty() * static_cast<double>(batch.size);
    if (!std::isfinite(result.loss_sum)) {
      if (!replica.gradients().Wait(timeout_seconds())) return TooLate();
      return absl::OutOfRangeError(std::isnan(result.loss_sum) ? "the loss is nan"
                                                               : "the loss is infinite");
    }
    if (!replica.gradients().HandOver(timeout_seconds(), gradients)) return TooLate();
    return result;
  });
}

absl::Status CudaModel::Evaluate(const Batch& batch, EvaluationSums* sums) {
  if (state_->hangs()) return TooLate();
  MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.largest()));
  return Catch([&]() -> absl::Status {
    const BusyTime busy(meter_.get());
    const CudaReplica& replica = *replicas_[0];
    Launch(batch, /*seed=*/0, /*training=*/false);
    if (!replica.AwaitForward(timeout_seconds())) return TooLate();
    sums->examples += batch.size;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      AddEvaluatedOutput(plan_.outputs, plan_.outputs[i], OutputAt(i, batch), LossAt(i, batch),
                         sums);
    }
    sums->loss_sum += MeanPenalty() * static_cast<double>(batch.size);
    return absl::OkStatus();
  });
}

}  // namespace millrace::worker
