#include "worker/device/cuda/cuda_passes.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "worker/device/cuda/describe.h"
#include "worker/device/cuda/gradient_exchange.h"

namespace millrace::worker {
namespace {

using cuda::Stream;

constexpr size_t kRoles = 4;  // A layer has no more kinds of variables.

// Of the inputs of one layer.
template <typename Pointer>
using Pointers = absl::InlinedVector<Pointer, 8>;

std::vector<size_t> AddOutputs(const ModelPlan& plan, size_t batch, MemoryLayout* layout) {
  std::vector<size_t> places;
  for (const OutputPlan& output : plan.outputs) {
    places.push_back(layout->Add(batch * output.width * sizeof(float)));
  }
  return places;
}

std::vector<size_t> AddLosses(const ModelPlan& plan, size_t batch, MemoryLayout* layout) {
  std::vector<size_t> places;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    places.push_back(layout->Add(batch * sizeof(double)));
  }
  return places;
}

// Of the layers that the backward pass comes to.
std::vector<size_t> AddCarried(const Walk& walk, const CudaLayers& layers, size_t batch,
                               MemoryLayout* layout) {
  std::vector<size_t> places(layers.layers.size(), kNoPlace);
  for (const BackwardStep& step : walk.backward) {
    const size_t bytes = layers.layers[step.layer]->CarriedBytes(batch);
    if (bytes > 0) places[step.layer] = layout->Add(bytes);
  }
  return places;
}

}  // namespace

CudaLayers::CudaLayers(const ModelPlan& plan, const Walk& walk, cuda::Gpu* gpu)
    : layers(plan.layers.size()) {
  const cuda::Precision precision = PrecisionOf(plan.precision);
  for (const ForwardStep& step : walk.forward) {
    layers[step.layer] = MakeCudaLayer(gpu, plan.layers[step.layer], step, precision);
  }
  for (const OutputPlan& output : plan.outputs) losses.push_back(MakeCudaLoss(gpu, output));
}

size_t CudaLayers::WorkspaceBytes(const BatchSizes& batches) const {
  size_t bytes = 0;
  for (const auto& layer : layers) {
    if (layer == nullptr) continue;
    bytes = std::max(
        {bytes, layer->WorkspaceBytes(batches.train), layer->WorkspaceBytes(batches.largest())});
  }
  return bytes;
}

void CudaLayers::Prepare(size_t batch, bool training) const {
  for (const auto& layer : layers) {
    if (layer != nullptr) layer->Prepare(batch, training);
  }
}

CudaLayout::CudaLayout(const ModelPlan& plan, const Walk& walk, const CudaLayers& layers,
                       const VariablePlaces& places, const BatchSizes& batches,
                       const std::vector<GradientBucket>& buckets, size_t replicas)
    : training(PlanMemory(plan, walk, batches.train, /*training=*/true)),
      evaluation(PlanMemory(plan, walk, batches.largest(), /*training=*/false)),
      gradients(plan, walk, places, /*alone=*/replicas == 1, &memory),
      inputs(plan, batches.largest(), &memory),
      outputs(AddOutputs(plan, batches.largest(), &memory)),
      losses(AddLosses(plan, batches.largest(), &memory)),
      marks(memory.Add(GradientExchange::MarksBytes(buckets))),
      marks_copied(memory.Add(GradientExchange::MarksBytes(buckets))),
      mirrored_bytes(memory.bytes()) {
  values = memory.Add(places.values_bytes);
  if (plan.pulls_ahead) {
    inputs_ahead = memory.Add(inputs.bytes());
    values_ahead = memory.Add(places.values_bytes);
  }
  gradients.AddRest(&memory);
  received = memory.Add(GradientExchange::ReceivedBytes(buckets, replicas));
  passes = memory.Add(std::max(training.size, evaluation.size) * sizeof(float));
  carried = AddCarried(walk, layers, batches.train, &memory);
  workspace = memory.Add(layers.WorkspaceBytes(batches));
}

CudaPasses::CudaPasses(const ModelPlan& plan, const Walk& walk, const VariablePlaces& places,
                       const CudaLayers& layers, CudaLayout* layout, const MirroredMemory& memory,
                       const CudaIds& ids, cuda::Gpu* gpu)
    : plan_(plan),
      walk_(walk),
      layers_(layers),
      layout_(layout),
      memory_(memory),
      ids_(ids),
      gpu_(gpu) {
  const float* const values = memory.Device<float>(layout->values);
  layout_->gradients.Bind(gpu, &memory_, values);
  for (const LayerPlan& layer : plan.layers) {
    std::vector<const float*> parameters(kRoles);
    for (size_t role = 0; role < layer.variables.size(); ++role) {
      const int variable = layer.variables[role];
      if (variable < 0) continue;
      parameters[role] = values + places.values[static_cast<size_t>(variable)] / sizeof(float);
    }
    parameters_.push_back(std::move(parameters));
  }
}

float* CudaPasses::At(size_t place) const {
  return place == kNoPlace ? nullptr : memory_.Device<float>(layout_->passes) + place;
}

const float* CudaPasses::Value(const MemoryPlan& places, size_t value) const {
  if (places.values[value] != kNoPlace) return At(places.values[value]);
  return value < plan_.features.size() ? layout_->inputs.Floats(value, memory_) : nullptr;
}

cuda::Pass CudaPasses::PassOf(const MemoryPlan& places, size_t layer, const BatchPart& part,
                              bool training) const {
  cuda::Pass pass;
  pass.batch = part.size;
  pass.first = part.first;
  pass.training = training;
  pass.seed = layout_->inputs.Seed(memory_);
  pass.ids = ids_.slots();
  pass.parameters = parameters_[layer].data();
  pass.kept = At(places.kept[layer]);
  const size_t carried = layout_->carried[layer];
  if (training && carried != kNoPlace) pass.carried = memory_.Device<char>(carried);
  pass.workspace = memory_.Device<char>(layout_->workspace);
  pass.gradients = &layout_->gradients;
  return pass;
}

void CudaPasses::ConvertBytes(const MemoryPlan& places, size_t batch) const {
  for (size_t i = 0; i < plan_.features.size(); ++i) {
    const TensorSpec& feature = plan_.features[i];
    if (feature.type != ElementType::kByte || places.values[i] == kNoPlace) continue;
    gpu_->ToFloats(layout_->inputs.Bytes(i, memory_), batch * ElementCount(feature.shape),
                   At(places.values[i]));
  }
}

void CudaPasses::EnqueueForward(const BatchPart& part, bool training) {
  const MemoryPlan& places = PlacesOf(training);
  ConvertBytes(places, part.size);
  for (const ForwardStep& step : walk_.forward) {
    Pointers<const float*> x;
    for (const size_t input : step.inputs) x.push_back(Value(places, input));
    layers_.layers[step.layer]->Forward(PassOf(places, step.layer, part, training), x.data(),
                                        At(places.values[step.output]));
  }
  EnqueueLosses(places, part, training);
}

void CudaPasses::EnqueueLosses(const MemoryPlan& places, const BatchPart& part,
                               bool training) const {
  const size_t batch = part.size;
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const size_t values = batch * plan_.outputs[i].width;
    cuda::LossPass pass;
    pass.batch = batch;
    pass.mean_of = part.whole();
    pass.output = Value(places, walk_.outputs[i]);
    layout_->inputs.SetLabels(i, memory_, &pass);
    pass.losses = memory_.Device<double>(layout_->losses[i]);
    memory_.CopyOut(Stream::kCompute, pass.output, layout_->outputs[i], values * sizeof(float));
    if (training) pass.gradient = At(layout_->training.output_gradients[i].place);
    layers_.losses[i]->Compute(pass);
    memory_.CopyOut(Stream::kCompute, pass.losses, layout_->losses[i], batch * sizeof(double));
    if (training) AddUp(layout_->training.output_gradients[i], values);
  }
}

void CudaPasses::AddUp(const GradientPlace& gradient, size_t count) const {
  if (gradient.sum != kNoPlace) gpu_->Add(At(gradient.place), count, At(gradient.sum));
}

void CudaPasses::EnqueueStep(const BatchPart& part, size_t index) {
  const MemoryPlan& places = layout_->training;
  const BackwardStep& step = walk_.backward[index];
  const BackwardPlaces& of_step = places.backward[index];
  Pointers<const float*> x;
  Pointers<float*> dx;
  for (const size_t input : step.inputs) x.push_back(Value(places, input));
  for (const GradientPlace& gradient : of_step.input_gradients) dx.push_back(At(gradient.place));
  layers_.layers[step.layer]->Backward(PassOf(places, step.layer, part, /*training=*/true),
                                       x.data(), At(places.values[step.output]),
                                       At(of_step.output_gradient), dx.data());
  for (size_t k = 0; k < dx.size(); ++k) {
    AddUp(of_step.input_gradients[k], part.size * ElementCount(plan_.layers[step.layer].inputs[k]));
  }
}

void CudaPasses::EnqueueBackward(const BatchPart& part, const GradientPlaces& to, size_t begin,
                                 size_t end) {
  if (begin == 0) layout_->gradients.Begin(part, to);
  for (size_t i = begin; i < end; ++i) EnqueueStep(part, i);
  layout_->gradients.MakeFinal();
  if (end == walk_.backward.size()) layout_->gradients.End();
}

}  // namespace millrace::worker
