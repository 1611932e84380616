#include "worker/device/cpu/cpu_model.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/memory_limit.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "worker/device/cpu/members.h"
#include "worker/device/cpu/memory_need.h"
#include "worker/device/cpu/thread_settings.h"
#include "worker/model/batch_metrics.h"

namespace millrace::worker {
namespace {

// Runs `work`, which returns a Status or a StatusOr; exceptions become statuses.
template <typename Work>
auto CatchErrors(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    return absl::InternalError(
        absl::StrCat("oneDNN: ", error.message, " (status ", static_cast<int>(error.status), ")"));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "no memory is left for the model; use smaller layers or a smaller batch_size");
  }
}

size_t FirstTrainedLayer(const ModelPlan& plan) {
  size_t index = 0;
  while (index < plan.layers.size() && plan.layers[index].kernel < 0) ++index;
  CHECK_LT(index, plan.layers.size()) << "A plan without variables.";
  return index;
}

Shape VariableShape(const VariableSpec& variable) {
  return Shape(variable.shape().begin(), variable.shape().end());
}

// For one example: the largest output of the layers from `first` on, or input after it.
size_t LargestGradient(const ModelPlan& plan, size_t first) {
  size_t largest = 0;
  for (size_t i = first; i < plan.layers.size(); ++i) {
    largest = std::max<size_t>(largest, ElementCount(plan.layers[i].output));
  }
  return largest;
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
      first_trained_(FirstTrainedLayer(plan)),
      heads_(plan_.outputs) {
  for (const VariableSpec& variable : plan_.variables) {
    values_.emplace_back(ElementCount(VariableShape(variable)));
  }
  MakeLayers();
  for (CpuBuffer& gradient : gradients_) {
    gradient = CpuBuffer(batches_.train * LargestGradient(plan_, first_trained_));
  }
  for (const OutputPlan& output : plan_.outputs) {
    const bool is_last = output.layer + 1 == plan_.layers.size();
    output_gradients_.emplace_back(is_last ? 0 : batches_.train * output.width);
  }
}

CpuParameters CpuModel::ParametersOf(const LayerPlan& layer) const {
  CpuParameters parameters;
  if (layer.kernel >= 0) parameters.kernel = values_[layer.kernel].data();
  if (layer.bias >= 0) parameters.bias = values_[layer.bias].data();
  return parameters;
}

void CpuModel::MakeLayers() {
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const LayerPlan& plan = plan_.layers[i];
    layers_.push_back(MakeCpuLayer(&context_, plan, i, ParametersOf(plan),
                                   /*input_gradient=*/i > first_trained_));
    layers_.back()->Prepare(batches_.train);
    if (batches_.evaluation > 0) layers_.back()->Prepare(batches_.evaluation);
    const bool is_view = layers_.back()->IsView();
    outputs_.emplace_back(is_view ? 0 : batches_.largest() * ElementCount(plan.output));
  }
}

absl::Span<float> CpuModel::values(size_t variable) {
  return absl::MakeSpan(values_[variable].data(), values_[variable].size());
}

absl::Status CpuModel::CheckBatch(const Batch& batch, size_t largest) const {
  CHECK_GE(batch.size, 1u);
  CHECK_LE(batch.size, largest);
  CHECK_EQ(batch.features[0].floats.size(), batch.size * ElementCount(plan_.layers.front().input));
  return CheckLabels(plan_.outputs, batch);
}

const float* CpuModel::Input(size_t index, const Batch& batch) const {
  while (index > 0 && layers_[index - 1]->IsView()) --index;
  return index == 0 ? batch.features[0].floats.data() : outputs_[index - 1].data();
}

void CpuModel::Forward(const CpuPass& pass, const Batch& batch) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i]->IsView()) continue;
    layers_[i]->Forward(pass, Input(i, batch), outputs_[i].data());
  }
}

std::vector<CpuOutputHeads::Place> CpuModel::OutputPlaces(const Batch& batch) {
  std::vector<CpuOutputHeads::Place> places;
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& output = plan_.outputs[i];
    const bool is_last = output.layer + 1 == layers_.size();
    places.push_back(
        {absl::MakeConstSpan(Input(output.layer + 1, batch), batch.size * output.width),
         is_last ? gradients_[0].data() : output_gradients_[i].data()});
  }
  return places;
}

void CpuModel::AddOutputGradient(size_t index, size_t batch, float* dy) const {
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (plan_.outputs[i].layer != index || index + 1 == layers_.size()) continue;
    const float* gradient = output_gradients_[i].data();
    for (size_t n = 0; n < batch * plan_.outputs[i].width; ++n) dy[n] += gradient[n];
  }
}

void CpuModel::Backward(const CpuPass& pass, const Batch& batch) {
  float* dy = gradients_[0].data();
  float* dx = gradients_[1].data();
  for (size_t i = layers_.size(); i-- > first_trained_;) {
    AddOutputGradient(i, batch.size, dy);
    if (layers_[i]->IsView()) continue;
    layers_[i]->Backward(pass, Input(i, batch), outputs_[i].data(), dy,
                         i == first_trained_ ? nullptr : dx);
    std::swap(dy, dx);
  }
}

absl::StatusOr<BatchResult> CpuModel::Train(const Batch& batch, uint64_t seed,
                                            GradientSink* gradients) {
  MILLRACE_RETURN_IF_ERROR(CheckBatch(batch, batches_.train));
  const ScopedThreadSettings settings(threads_);
  return CatchErrors([&]() -> absl::StatusOr<BatchResult> {
    const CpuPass pass = {batch.size, /*training=*/true, seed, gradients};
    Forward(pass, batch);
    BatchResult result = heads_.Train(batch, OutputPlaces(batch));
    if (!std::isfinite(result.loss_sum)) {
      return absl::OutOfRangeError(std::isnan(result.loss_sum) ? "the loss is nan"
                                                               : "the loss is infinite");
    }
    Backward(pass, batch);
    return result;
  });
}

absl::Status CpuModel::Evaluate(const Batch& batch, EvaluationSums* sums) {
  MILLRACE_RETURN_IF_ERROR(CheckBatch(batch, batches_.largest()));
  const ScopedThreadSettings settings(threads_);
  return CatchErrors([&]() -> absl::Status {
    CpuPass pass;
    pass.batch = batch.size;
    Forward(pass, batch);
    heads_.Evaluate(batch, OutputPlaces(batch), sums);
    return absl::OkStatus();
  });
}

}  // namespace millrace::worker
