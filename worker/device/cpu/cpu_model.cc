#include "worker/device/cpu/cpu_model.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/memory_limit.h"
#include "common/status_macros.h"
#include "worker/device/cpu/members.h"
#include "worker/device/cpu/memory_need.h"
#include "worker/device/cpu/thread_settings.h"
#include "worker/model/batch_check.h"
#include "worker/model/memory_budget.h"

namespace millrace::worker {
namespace {

// Runs `work`, which returns a Status or a StatusOr; exceptions become statuses.
template <typename Work>
auto CatchErrors(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) return NoMemoryForModel();
    return absl::InternalError(
        absl::StrCat("oneDNN: ", error.message, " (status ", static_cast<int>(error.status), ")"));
  } catch (const std::bad_alloc&) {
    return NoMemoryForModel();
  }
}

std::vector<CpuBuffer> MakeValues(const ModelPlan& plan) {
  std::vector<CpuBuffer> values;
  for (const VariableSpec& variable : plan.variables) {
    values.emplace_back(ElementCount({variable.shape().begin(), variable.shape().end()}));
  }
  return values;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CpuModel::Compile(const ModelPlan& plan,
                                                         const BatchSizes& batches, int threads) {
  if (batches.train == 0) return absl::InvalidArgumentError("a batch has at least 1 example");
  MILLRACE_RETURN_IF_ERROR(CheckMemory(plan, batches, MemoryLimit()));
  const ScopedThreadSettings settings(threads);
  return CatchErrors([&]() -> absl::StatusOr<std::unique_ptr<Model>> {
    return std::unique_ptr<Model>(new CpuModel(plan, batches, threads));
  });
}

CpuModel::CpuModel(const ModelPlan& plan, const BatchSizes& batches, int threads)
    : plan_(plan),
      batches_(batches),
      threads_(threads),
      values_(MakeValues(plan)),
      next_values_(plan.pulls_ahead ? MakeValues(plan) : std::vector<CpuBuffer>()),
      passes_(plan_, batches, values_),
      heads_(plan_.outputs) {}

size_t CpuModel::bytes() const {
  size_t floats = passes_.floats();
  for (const CpuBuffer& value : values_) floats += value.size();
  for (const CpuBuffer& value : next_values_) floats += value.size();
  return floats * sizeof(float);
}

absl::Span<float> CpuModel::values(size_t variable) {
  return absl::MakeSpan(values_[variable].data(), values_[variable].size());
}

absl::Span<float> CpuModel::next_values(size_t variable) {
  return absl::MakeSpan(next_values_[variable].data(), next_values_[variable].size());
}

void CpuModel::TakeNextValues() {
  std::swap_ranges(values_.begin(), values_.end(), next_values_.begin());
}

std::vector<CpuOutputHeads::Place> CpuModel::OutputPlaces(const CpuPass& pass,
                                                          const Batch& batch) const {
  std::vector<CpuOutputHeads::Place> places;
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    float* const gradient = pass.training ? passes_.OutputGradient(i) : nullptr;
    places.push_back({passes_.Output(pass, batch, i), gradient});
  }
  return places;
}

absl::StatusOr<BatchResult> CpuModel::Train(const Batch& batch, uint64_t seed,
                                            GradientSink* gradients) {
  MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.train));
  const ScopedThreadSettings settings(threads_);
  return CatchErrors([&]() -> absl::StatusOr<BatchResult> {
    const CpuPass pass = {batch.size, /*training=*/true, seed, gradients};
    passes_.Forward(pass, batch);
    BatchResult result = heads_.Train(batch, OutputPlaces(pass, batch));
    result.loss_sum += passes_.Penalty() * static_cast<double>(batch.size);
    if (!std::isfinite(result.loss_sum)) {
      return absl::OutOfRangeError(std::isnan(result.loss_sum) ? "the loss is nan"
                                                               : "the loss is infinite");
    }
    gradients->BackwardBegins();
    passes_.Backward(pass, batch);
    return result;
  });
}

absl::Status CpuModel::Evaluate(const Batch& batch, EvaluationSums* sums) {
  MILLRACE_RETURN_IF_ERROR(CheckBatch(plan_, batch, batches_.largest()));
  const ScopedThreadSettings settings(threads_);
  return CatchErrors([&]() -> absl::Status {
    CpuPass pass;
    pass.batch = batch.size;
    passes_.Forward(pass, batch);
    heads_.Evaluate(batch, OutputPlaces(pass, batch), sums);
    sums->loss_sum += passes_.Penalty() * static_cast<double>(batch.size);
    return absl::OkStatus();
  });
}

}  // namespace millrace::worker
