#include "worker/device/cuda/cuda_model.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/memory_limit.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/device/cuda/cuda_memory_need.h"
#include "worker/device/cuda/cuda_numerics.h"
#include "worker/model/batch_check.h"
#include "worker/model/memory_budget.h"
#include "worker/model/output_results.h"
#include "worker/model/penalty.h"

namespace millrace::worker {
namespace {

using cuda::Stream;

// As a share of the time that a model may take to be made; no longer than a step may take.
constexpr double kPatienceForNccl = 0.25;

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

// As far as it matters to what is prepared before there are any.
Batch OfSize(size_t size) {
  Batch batch;
  batch.size = size;
  return batch;
}

bool HasRagged(const std::vector<TensorSpec>& features) {
  return std::any_of(features.begin(), features.end(),
                     [](const TensorSpec& feature) { return feature.ragged; });
}

// A thread that waits for the GPU sleeps for 20 us at a time (kernels/gpu.cu), to which Linux adds
// 50 us where a thread has not asked for less: some percent of a short step.
void WakeUpInTime() {
  constexpr unsigned long kNanoseconds = 1000;
  thread_local const int asked = prctl(PR_SET_TIMERSLACK, kNanoseconds);
  (void)asked;
}

}  // namespace

template <typename Work>
auto CudaModel::Catch(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const cuda::Error& error) {
    absl::Status status = Told(error);
    return error.kind() == cuda::Error::kLost ? status : Settle(std::move(status));
  } catch (const std::bad_alloc&) {
    return Settle(NoMemoryForModel());
  }
}

absl::Status CudaModel::Told(const cuda::Error& error) {
  absl::Status status = StatusOf(error, replicas_[at_work_]->name());
  // The trouble of one worker ends no job.
  if (absl::IsInternal(status)) status = absl::UnavailableError(status.message());
  if (error.kind() == cuda::Error::kLost) state_->Lose(status);
  return status;
}

// Not for what is copied in: another thread may add values, which are copied from where they stay;
// and a batch that is written over on its way is copied once more, after that.
absl::Status CudaModel::Settle(absl::Status why) {
  try {
    for (size_t i = 0; i < replicas_.size(); ++i) {
      const bool done =
          At(i).Await({Stream::kCompute, Stream::kExchange, Stream::kCopyOut}, timeout_seconds());
      if (!done) return TooLate();
    }
  } catch (const cuda::Error& error) {
    return Told(error);
  }
  return why;
}

void CudaModel::Finish() noexcept {
  for (const auto& replica : replicas_) {
    try {
      const bool done =
          replica->Await({Stream::kCompute, Stream::kExchange, Stream::kCopyOut, Stream::kCopyIn},
                         timeout_seconds());
      if (done) continue;
      TooLate().IgnoreError();
      return;
    } catch (const cuda::Error&) {  // Whoever waited for that work was told.
    }
  }
}

CudaModel::CudaModel(const ModelPlan& plan, const BatchSizes& batches, std::vector<NamedGpu> gpus,
                     std::string device_name, std::shared_ptr<DeviceState> state,
                     std::shared_ptr<DeviceMeter> meter, std::shared_ptr<HostMemory> host_memory)
    : plan_(plan),
      walk_(PlanWalk(plan_, /*for_gpu=*/true)),
      batches_(batches),
      device_name_(std::move(device_name)),
      state_(std::move(state)),
      meter_(std::move(meter)),
      host_memory_(std::move(host_memory)),
      places_(plan_, walk_, gpus.size()),
      buckets_(gpus.size() > 1 ? PlanBuckets(walk_, places_) : std::vector<GradientBucket>()),
      replicas_(MakeReplicas(std::move(gpus))),
      arriving_(places_, [this](size_t begin, size_t bytes) {
        for (const auto& replica : replicas_) replica->CopyInValues(begin, bytes);
      }) {}

std::vector<std::unique_ptr<CudaReplica>> CudaModel::MakeReplicas(
    std::vector<NamedGpu> gpus) const {
  const size_t count = gpus.size();
  std::vector<std::unique_ptr<CudaReplica>> replicas;
  for (NamedGpu& gpu : gpus) {
    replicas.push_back(std::make_unique<CudaReplica>(plan_, walk_, places_, buckets_, count,
                                                     PartSizes(batches_, count), std::move(gpu.gpu),
                                                     std::move(gpu.name)));
  }
  return replicas;
}

// Memory may be of use to another GPU than that which it is given back to.
CudaModel::~CudaModel() {
  gives_back_.emplace(state_.get(), "gives memory back", state_->making_timeout());
  if (sums_ != nullptr && state_->lost() && !state_->hangs()) sums_->Abort();
  if (!state_->hangs()) Finish();
  if (!state_->hangs()) return;
  // Giving memory back would wait for what does not end.
  KeepForEver(std::move(sums_));
  KeepForEver(std::move(host_));
  for (const auto& replica : replicas_) replica->Abandon();
}

absl::StatusOr<std::unique_ptr<Model>> CudaModel::Compile(
    const ModelPlan& plan, const BatchSizes& batches, std::vector<NamedGpu> gpus,
    const std::string& device_name, std::shared_ptr<DeviceState> state,
    std::shared_ptr<DeviceMeter> meter, std::shared_ptr<HostMemory> host_memory) {
  if (batches.train == 0) return absl::InvalidArgumentError("a batch has at least 1 example");
  try {
    std::unique_ptr<CudaModel> model(new CudaModel(plan, batches, std::move(gpus), device_name,
                                                   state, std::move(meter),
                                                   std::move(host_memory)));
    MILLRACE_RETURN_IF_ERROR(model->Catch([&] { return model->TakeMemory(); }));
    return std::unique_ptr<Model>(std::move(model));
  } catch (const cuda::Error& error) {
    const absl::Status status = StatusOf(error, device_name);
    if (error.kind() == cuda::Error::kLost) state->Lose(status);
    return status;
  }
}

absl::Status CudaModel::CheckMemory() {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const CudaReplica& replica = At(i);
    const CudaMemoryNeed need(plan_, walk_, replica.layers(), places_, buckets_, replicas_.size(),
                              batches_, replica.layout());
    if (i == 0) MILLRACE_RETURN_IF_ERROR(need.CheckHost(MemoryLimit()));
    MILLRACE_RETURN_IF_ERROR(need.CheckDevice(replica.gpu()->Properties().free, replica.name()));
  }
  return absl::OkStatus();
}

std::vector<cuda::Gpu*> CudaModel::Gpus() const {
  std::vector<cuda::Gpu*> gpus;
  for (const auto& replica : replicas_) gpus.push_back(replica->gpu());
  return gpus;
}

absl::Status CudaModel::MakeSums() {
  const absl::Duration most = kPatienceForNccl * state_->making_timeout();
  sums_ = MakePieceSums(Gpus(), buckets_, device_name_,
                        absl::ToDoubleSeconds(std::min(state_->timeout(), most)));
  const absl::Status fits = CheckMemory();
  if (fits.ok() || sums_ == nullptr) return fits;
  sums_.reset();
  MILLRACE_RETURN_IF_ERROR(CheckMemory());
  LOG(WARNING) << device_name_ << ": our own kernels add up gradients after all: with NCCL "
               << fits.message();
  return absl::OkStatus();
}

absl::Status CudaModel::TakeMemory() {
  MILLRACE_RETURN_IF_ERROR(MakeSums());
  ChooseProducts(batches_.train, /*training=*/true);
  if (batches_.evaluation > 0) ChooseProducts(batches_.evaluation, /*training=*/false);
  host_ = std::make_unique<HostVariables>(places_, At(0).gpu());
  std::vector<GradientExchange::Member> members;
  uint64_t memory = 0;
  uint64_t free = 0;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    At(i).TakeMemory(host_.get());
    members.push_back(At(i).member());
    const cuda::GpuProperties properties = At(i).gpu()->Properties();
    memory += properties.memory;
    free += properties.free;
  }
  meter_->SetMemory(memory, memory - free);
  if (members.size() > 1) {
    exchange_ = std::make_unique<GradientExchange>(buckets_, std::move(members), sums_.get(),
                                                   places_, *host_, &at_work_);
  }
  Prepare(batches_.train, /*training=*/true);
  if (batches_.evaluation > 0) Prepare(batches_.evaluation, /*training=*/false);
  numerics_ = CudaNumerics(Gpus(), plan_.precision);
  LogProducts(Gpus(), device_name_);
  return absl::OkStatus();
}

void CudaModel::ChooseProducts(size_t size, bool training) {
  const Batch batch = OfSize(size);
  const std::vector<BatchPart> parts = Divide(batch, replicas_.size());
  for (size_t i = 0; i < parts.size(); ++i) At(i).ChooseProducts(parts[i].size, training);
}

void CudaModel::Prepare(size_t size, bool training) {
  const Batch batch = OfSize(size);
  const std::vector<BatchPart> parts = Divide(batch, replicas_.size());
  const GradientPlaces to = PlacesFor(/*sink=*/nullptr);
  for (size_t i = 0; i < parts.size(); ++i) At(i).Prepare(parts[i], training, FromPass(to));
}

CudaReplica& CudaModel::At(size_t replica) {
  at_work_ = replica;
  return *replicas_[replica];
}

absl::Span<float> CudaModel::values(size_t variable) {
  arriving_.Forget(variable);
  return host_->value(variable);
}

void CudaModel::Arrived(size_t variable, size_t first, size_t count) {
  if (state_->hangs()) return;
  const DeviceState::Call call(state_.get(), "takes values", state_->timeout());
  const absl::optional<cuda::Error> error = arriving_.Arrived(variable, first, count);
  if (error.has_value() && error->kind() == cuda::Error::kLost) {
    state_->Lose(StatusOf(*error, device_name_));
  }
}

GradientPlaces CudaModel::PlacesFor(GradientSink* sink) const {
  GradientPlaces places(plan_.variables.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (walk_.variable_uses[i] == 0) continue;
    const absl::Span<float> direct = sink == nullptr ? absl::Span<float>() : sink->DeviceBuffer(i);
    places[i] = direct.empty() ? host_->gradient(i).data() : direct.data();
  }
  return places;
}

bool CudaModel::Stage(const Batch* batch) {
  staged_ = nullptr;
  if (batch == nullptr || state_->hangs()) return false;
  if (within_train_ && (!plan_.pulls_ahead || HasRagged(plan_.features))) return false;
  if (!CheckBatch(plan_, *batch, batches_.train).ok()) return false;
  absl::optional<BusyTime> busy;  // Train counts its own time.
  if (!within_train_) busy.emplace(meter_.get());
  const DeviceState::Call call(state_.get(), "takes a batch", state_->timeout());
  try {
    CopyBatch(Divide(*batch, replicas_.size()), /*training=*/true);
    staged_ = batch;
  } catch (const cuda::Error& error) {
    Told(error).IgnoreError();  // Train tries again.
  } catch (const std::bad_alloc&) {
  }
  return staged_ != nullptr;
}

void CudaModel::CopyBatch(const std::vector<BatchPart>& parts, bool training) {
  for (size_t i = 0; i < parts.size(); ++i) At(i).CopyBatch(parts[i], training);
}

void CudaModel::Launch(const std::vector<BatchPart>& parts, bool staged, uint64_t seed,
                       bool training, const GradientPlaces& to) {
  const DeviceState::Call call(state_.get(), "launches a step", state_->timeout());
  arriving_.CopyRest();
  if (!staged) CopyBatch(parts, training);
  LaunchForward(parts, seed, training, to);
  if (training) LaunchBackward(parts, to);
}

absl::Status CudaModel::TooLate() {
  const absl::Status status = absl::UnavailableError(
      absl::StrCat(device_name_, ": has not finished a step within ", timeout_seconds(), " s"));
  state_->Hang(status);
  return status;
}

void CudaModel::LaunchForward(const std::vector<BatchPart>& parts, uint64_t seed, bool training,
                              const GradientPlaces& to) {
  for (size_t i = 0; i < parts.size(); ++i) At(i).BeginPass(seed);
  for (size_t i = 0; i < parts.size(); ++i) At(i).Prepare(parts[i], training, FromPass(to));
  for (size_t i = 0; i < parts.size(); ++i) At(i).LaunchForward(parts[i], training);
}

void CudaModel::LaunchBackward(const std::vector<BatchPart>& parts, const GradientPlaces& to) {
  if (exchange_ == nullptr) return At(0).LaunchBackward(parts[0], to, /*bucket=*/0);
  exchange_->Begin(parts.size(), to);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (size_t i = 0; i < parts.size(); ++i) At(i).LaunchBackward(parts[i], nowhere_, b);
    exchange_->Enqueue(b);
  }
}

bool CudaModel::AwaitForward(const std::vector<BatchPart>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!At(i).AwaitForward(timeout_seconds())) return false;
  }
  return true;
}

bool CudaModel::AwaitGradients() {
  if (exchange_ != nullptr) return exchange_->Wait(timeout_seconds());
  return At(0).gradients().Wait(timeout_seconds());
}

bool CudaModel::HandOver(const GradientPlaces& to, GradientSink* gradients) {
  if (exchange_ != nullptr) return exchange_->HandOver(timeout_seconds(), gradients);
  return At(0).gradients().HandOver(timeout_seconds(), to, gradients);
}

// While the step's gradients are on their way to the servers.
void CudaModel::MoveIn() {
  if (!plan_.pulls_ahead) return;
  const DeviceState::Call call(state_.get(), "takes values", state_->timeout());
  try {
    for (size_t i = 0; i < replicas_.size(); ++i) At(i).MoveIn();
  } catch (const cuda::Error& error) {
    Told(error).IgnoreError();  // The gradients have left. The next step tries again.
  }
}

OutputBatch CudaModel::OutputAt(size_t output, const std::vector<BatchPart>& parts) {
  const OutputPlan& plan = plan_.outputs[output];
  const Batch& batch = *parts[0].batch;
  if (parts.size() == 1) {
    const float* const values = replicas_[0]->Output(output);
    return OutputOf(plan, absl::MakeConstSpan(values, batch.size * plan.width), batch);
  }
  values_of_output_.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    const float* const values = replicas_[i]->Output(output);
    values_of_output_.insert(values_of_output_.end(), values, values + parts[i].size * plan.width);
  }
  return OutputOf(plan, values_of_output_, batch);
}

double CudaModel::LossAt(size_t output, const std::vector<BatchPart>& parts) const {
  double sum = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double* const losses = replicas_[i]->Losses(output);
    sum = std::accumulate(losses, losses + parts[i].size, sum);
  }
  return sum;
}

double CudaModel::MeanPenalty() {
  double sum = 0;
  for (size_t i = 0; i < plan_.variables.size(); ++i) {
    sum += Penalty(plan_.regularizers[i], host_->value(i));
  }
  return sum;
}

absl::StatusOr<BatchResult> CudaModel::Train(const Batch& batch, uint64_t seed,
                                             GradientSink* gradients) {
  WakeUpInTime();
  const bool staged = std::exchange(staged_, nullptr) == &batch;
  if (state_->hangs()) return TooLate();
  if (!staged) MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.train));
  return Catch([&]() -> absl::StatusOr<BatchResult> {
    const BusyTime busy(meter_.get());
    within_train_ = true;
    const auto trained = absl::MakeCleanup([this] { within_train_ = false; });
    const std::vector<BatchPart> parts = Divide(batch, replicas_.size());
    const GradientPlaces to = PlacesFor(gradients);
    // Gradients stay here until the loss is known.
    Launch(parts, staged, seed, /*training=*/true, to);
    const double penalty = MeanPenalty();  // While the GPU computes.
    if (!AwaitForward(parts)) return TooLate();
    BatchResult result;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      AddOutput(plan_.outputs, plan_.outputs[i], OutputAt(i, parts), LossAt(i, parts), &result);
    }
    result.loss_sum += penalty * static_cast<double>(batch.size);
    if (!std::isfinite(result.loss_sum)) {
      if (!AwaitGradients()) return TooLate();
      return absl::OutOfRangeError(std::isnan(result.loss_sum) ? "the loss is nan"
                                                               : "the loss is infinite");
    }
    gradients->BackwardBegins();
    if (!HandOver(to, gradients)) return TooLate();
    MoveIn();
    return result;
  });
}

absl::Status CudaModel::Evaluate(const Batch& batch, EvaluationSums* sums) {
  WakeUpInTime();
  staged_ = nullptr;
  if (state_->hangs()) return TooLate();
  MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.largest()));
  return Catch([&]() -> absl::Status {
    const BusyTime busy(meter_.get());
    const std::vector<BatchPart> parts = Divide(batch, replicas_.size());
    Launch(parts, /*staged=*/false, /*seed=*/0, /*training=*/false, /*to=*/{});
    const double penalty = MeanPenalty();
    if (!AwaitForward(parts)) return TooLate();
    sums->examples += batch.size;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      AddEvaluatedOutput(plan_.outputs, plan_.outputs[i], OutputAt(i, parts), LossAt(i, parts),
                         sums);
    }
    sums->loss_sum += penalty * static_cast<double>(batch.size);
    return absl::OkStatus();
  });
}

}  // namespace millrace::worker
