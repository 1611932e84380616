// The examples of one step, as a model takes them.
#ifndef MILLRACE_WORKER_INPUT_BATCH_H_
#define MILLRACE_WORKER_INPUT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace millrace::worker {

// One feature or label of all examples of a batch, one after the other, each row-major. What its
// TensorSpec says decides which list is used. A value type.
struct Tensor {
  std::vector<float> floats;
  std::vector<int64_t> ids;
  std::vector<uint8_t> bytes;
  // Ragged: example i has ids[ends[i - 1]] to ids[ends[i] - 1], the first one from 0.
  std::vector<uint64_t> ends;
};

inline Tensor FloatTensor(std::vector<float> floats) {
  Tensor tensor;
  tensor.floats = std::move(floats);
  return tensor;
}

inline Tensor IdTensor(std::vector<int64_t> ids) {
  Tensor tensor;
  tensor.ids = std::move(ids);
  return tensor;
}

// A value type. Its lists are used again for later batches: whoever fills one in sets all that the
// data set's ExampleSpec names.
struct Batch {
  size_t size = 0;               // Examples.
  std::vector<Tensor> features;  // As ExampleSpec::features.
  std::vector<Tensor> labels;    // As ExampleSpec::labels.
  std::vector<float> weights;    // How much each example counts; empty: 1.
};

// With one feature of floats and one label, a class for each example.
inline Batch FloatsAndClasses(std::vector<float> features, std::vector<int64_t> classes) {
  Batch batch;
  batch.size = classes.size();
  batch.features = {FloatTensor(std::move(features))};
  batch.labels = {IdTensor(std::move(classes))};
  return batch;
}

// Examples [begin, end) of a batch. REQUIRES: begin <= end <= batch.size, which is 1 or more.
Batch ExamplesOf(const Batch& batch, size_t begin, size_t end);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_BATCH_H_
