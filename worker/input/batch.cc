#include "worker/input/batch.h"

namespace millrace::worker {
namespace {

template <typename T>
std::vector<T> Between(const std::vector<T>& all, size_t begin, size_t end) {
  return {all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end)};
}

// Of a list that has equally many elements for each of `size` examples.
template <typename T>
std::vector<T> PartOf(const std::vector<T>& all, size_t size, size_t begin, size_t end) {
  const size_t each = all.size() / size;
  return Between(all, begin * each, end * each);
}

Tensor PartOf(const Tensor& tensor, size_t size, size_t begin, size_t end) {
  Tensor part;
  part.floats = PartOf(tensor.floats, size, begin, end);
  part.bytes = PartOf(tensor.bytes, size, begin, end);
  if (tensor.ends.empty()) {
    part.ids = PartOf(tensor.ids, size, begin, end);
    return part;
  }
  const size_t first = begin == 0 ? 0 : tensor.ends[begin - 1];
  part.ids = Between(tensor.ids, first, end == 0 ? 0 : tensor.ends[end - 1]);
  part.ends = Between(tensor.ends, begin, end);
  for (uint64_t& each : part.ends) each -= first;
  return part;
}

std::vector<Tensor> PartsOf(const std::vector<Tensor>& tensors, size_t size, size_t begin,
                            size_t end) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(PartOf(tensor, size, begin, end));
  return parts;
}

}  // namespace

Batch ExamplesOf(const Batch& batch, size_t begin, size_t end) {
  Batch part;
  part.size = end - begin;
  part.features = PartsOf(batch.features, batch.size, begin, end);
  part.labels = PartsOf(batch.labels, batch.size, begin, end);
  part.weights = PartOf(batch.weights, batch.size, begin, end);
  return part;
}

}  // namespace millrace::worker
