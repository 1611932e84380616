// What the examples of a data set look like: named, typed tensors.
#ifndef MILLRACE_WORKER_INPUT_EXAMPLE_SPEC_H_
#define MILLRACE_WORKER_INPUT_EXAMPLE_SPEC_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace::worker {

enum class ElementType {
  kFloat,
  kId,    // int64: a class, or a row of an embedding.
  kByte,  // 0 to 255, as an image has them; a model takes them for floats of that value.
};

// One feature or label of an example. A value type.
struct TensorSpec {
  std::string name;
  ElementType type = ElementType::kFloat;
  std::vector<uint64_t> shape;  // Of one example; {}: one number. Ragged: {}.
  // Of ids alone: an example has any number of them, none included.
  bool ragged = false;
  // Of ids: they are 0 .. limit - 1. 0: not known; any that is not negative.
  int64_t limit = 0;
  // Where the largest id is, for messages: "t10k-labels-idx1-ubyte.gz: example 17". Empty: unknown.
  std::string largest_id;
};

// A value type.
struct ExampleSpec {
  std::vector<TensorSpec> features;  // At least one; names differ.
  std::vector<TensorSpec> labels;    // Names differ.
};

// For messages: what makes floats of whole numbers, where these are no ids.
inline constexpr char kWholeNumbersAsFloats[] = "numpy's divide_by: 1, tfrecord's type: FLOAT";

// What most formats have: floats, called "features", and a class below `classes`, called "label".
inline ExampleSpec FloatsAndClass(std::vector<uint64_t> shape, int64_t classes,
                                  std::string largest_id = "") {
  ExampleSpec spec;
  spec.features.resize(1);
  spec.features[0].name = "features";
  spec.features[0].shape = std::move(shape);
  spec.labels.resize(1);
  spec.labels[0].name = "label";
  spec.labels[0].type = ElementType::kId;
  spec.labels[0].limit = classes;
  spec.labels[0].largest_id = std::move(largest_id);
  return spec;
}

// Of one of its tensors in an example; of a ragged one nothing.
inline uint64_t TensorBytes(const TensorSpec& tensor) {
  if (tensor.ragged) return 0;
  uint64_t bytes = tensor.type == ElementType::kFloat ? sizeof(float)
                   : tensor.type == ElementType::kId  ? sizeof(int64_t)
                                                      : 1;
  for (const uint64_t dimension : tensor.shape) bytes *= dimension;
  return bytes;
}

// Of an example in memory: all features and labels, but ragged ones.
inline uint64_t ExampleBytes(const ExampleSpec& spec) {
  uint64_t sum = 0;
  for (const TensorSpec& feature : spec.features) sum += TensorBytes(feature);
  for (const TensorSpec& label : spec.labels) sum += TensorBytes(label);
  return sum;
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_EXAMPLE_SPEC_H_
