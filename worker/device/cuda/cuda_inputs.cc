#include "worker/device/cuda/cuda_inputs.h"

#include <algorithm>

#include "worker/model/output_results.h"

namespace millrace::worker {
namespace {

// Of what a whole batch has.
template <typename T>
void CopyPart(const std::vector<T>& values, const BatchPart& part, size_t place,
              const MirroredMemory& memory, CopiesIn* copies) {
  const size_t of_example = values.size() / part.whole();
  const T* const begin = values.data() + part.first * of_example;
  copies->CopyAndAdd(begin, part.size * of_example * sizeof(T), memory.Host<T>(place),
                     memory.Device<T>(place));
}

}  // namespace

CudaInputs::CudaInputs(const ModelPlan& plan, size_t batch, MemoryLayout* layout)
    : plan_(plan), begin_(layout->bytes()) {
  for (const TensorSpec& feature : plan.features) {
    const bool is_id = feature.type == ElementType::kId;
    features_.push_back(layout->Add(is_id ? 0 : batch * TensorBytes(feature)));
  }
  for (const TensorSpec& label : plan.labels) {
    labels_.push_back(layout->Add(batch * TensorBytes(label)));
  }
  for (const OutputPlan& output : plan.outputs) {
    weights_.push_back(layout->Add(batch * sizeof(double)));
    if (std::find(learned_.begin(), learned_.end(), output.label) == learned_.end()) {
      learned_.push_back(output.label);
    }
  }
  seed_ = layout->Add(sizeof(uint64_t));
  bytes_ = layout->bytes() - begin_;
}

void CudaInputs::CopyBatch(const BatchPart& part, bool classes, const MirroredMemory& memory,
                           CopiesIn* copies) const {
  const Batch& batch = *part.batch;
  for (size_t i = 0; i < features_.size(); ++i) {
    CopyPart(batch.features[i].floats, part, features_[i], memory, copies);
    CopyPart(batch.features[i].bytes, part, features_[i], memory, copies);
  }
  for (const size_t label : learned_) {
    CopyPart(batch.labels[label].floats, part, labels_[label], memory, copies);
    CopyPart(batch.labels[label].ids, part, labels_[label], memory, copies);
  }
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputBatch values = OutputOf(plan_.outputs[i], {}, batch);
    std::vector<double> weights = ExampleWeights(plan_.outputs[i], values, batch, classes);
    weights.resize(batch.size, 1);  // Where there are none.
    CopyPart(weights, part, weights_[i], memory, copies);
  }
}

void CudaInputs::EnqueueSeed(uint64_t seed, const MirroredMemory& memory) const {
  *memory.Host<uint64_t>(seed_) = seed;
  memory.CopyIn(seed_, sizeof(uint64_t));
}

void CudaInputs::SetLabels(size_t output, const MirroredMemory& memory,
                           cuda::LossPass* pass) const {
  const size_t label = plan_.outputs[output].label;
  const bool is_id = plan_.labels[label].type == ElementType::kId;
  pass->ids = is_id ? memory.Device<int64_t>(labels_[label]) : nullptr;
  pass->floats = is_id ? nullptr : memory.Device<float>(labels_[label]);
  pass->weights = memory.Device<double>(weights_[output]);
}

}  // namespace millrace::worker
