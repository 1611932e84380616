#include "worker/input/example_summary.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/finite.h"
#include "common/status_macros.h"
#include "worker/input/fingerprint.h"

namespace millrace::worker {
namespace {

uint64_t TypeNumber(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return 0;
    case ElementType::kId:
      return 1;
    case ElementType::kByte:
      return 2;
  }
  return 0;
}

void DescribeTensor(const TensorSpec& tensor, std::vector<uint64_t>* numbers) {
  constexpr uint64_t kRagged = ~uint64_t{0};
  numbers->push_back(TypeNumber(tensor.type));
  numbers->push_back(tensor.ragged ? kRagged : tensor.shape.size());
  numbers->insert(numbers->end(), tensor.shape.begin(), tensor.shape.end());
}

// With its names left out: the job has them.
uint64_t FingerprintOfSpec(const ExampleSpec& spec) {
  std::vector<uint64_t> numbers = {spec.features.size(), spec.labels.size()};
  for (const TensorSpec& feature : spec.features) DescribeTensor(feature, &numbers);
  for (const TensorSpec& label : spec.labels) DescribeTensor(label, &numbers);
  return FingerprintOf(0, numbers);
}

absl::Status CheckFloats(const std::vector<float>& floats, const TensorSpec& spec) {
  const size_t wrong = FirstNotFinite(floats);
  if (wrong == floats.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(spec.name, ": element ", wrong, " is ", floats[wrong], "; must be finite"));
}

void ClearTensor(Tensor* tensor) {
  tensor->floats.clear();
  tensor->ids.clear();
  tensor->bytes.clear();
  tensor->ends.clear();
}

}  // namespace

void ClearBatch(const ExampleSpec& spec, Batch* batch) {
  batch->size = 0;
  batch->features.resize(spec.features.size());
  batch->labels.resize(spec.labels.size());
  batch->weights.clear();
  for (Tensor& tensor : batch->features) ClearTensor(&tensor);
  for (Tensor& tensor : batch->labels) ClearTensor(&tensor);
}

ExampleSummary::ExampleSummary(const ExampleSpec& spec)
    : spec_(spec), fingerprint_(FingerprintOfSpec(spec)) {}

absl::Status ExampleSummary::Add(const Batch& example, absl::string_view file, uint64_t number) {
  const size_t tensors = spec_.features.size() + spec_.labels.size();
  for (size_t i = 0; i < tensors; ++i) {
    MILLRACE_RETURN_IF_ERROR(AddTensor(example, i, file, number));
  }
  EndExample();
  return absl::OkStatus();
}

absl::Status ExampleSummary::AddTensor(const Batch& example, size_t tensor, absl::string_view file,
                                       uint64_t number) {
  const size_t features = spec_.features.size();
  if (tensor < features) {
    return AddValues(example.features[tensor], file, number, &spec_.features[tensor]);
  }
  const size_t label = tensor - features;
  return AddValues(example.labels[label], file, number, &spec_.labels[label]);
}

absl::Status ExampleSummary::AddValues(const Tensor& tensor, absl::string_view file,
                                       uint64_t number, TensorSpec* spec) {
  switch (spec->type) {
    case ElementType::kFloat:
      MILLRACE_RETURN_IF_ERROR(CheckFloats(tensor.floats, *spec));
      fingerprint_ = FingerprintOf(fingerprint_, tensor.floats);
      break;
    case ElementType::kByte:
      fingerprint_ = FingerprintOf(fingerprint_, tensor.bytes);
      break;
    case ElementType::kId:
      for (const int64_t id : tensor.ids) {
        if (id < 0 || id == std::numeric_limits<int64_t>::max()) {
          return absl::InvalidArgumentError(
              absl::StrCat(spec->name, ": ", id, "; ids are whole numbers from 0, below 2^63 - 1",
                           id < 0 ? "; numbers that are no ids must be floats (" : "",
                           id < 0 ? kWholeNumbersAsFloats : "", id < 0 ? ")" : ""));
        }
        if (id < spec->limit) continue;
        spec->limit = id + 1;
        spec->largest_id = absl::StrCat(file, ": example ", number);
      }
      fingerprint_ = FingerprintOf(fingerprint_, tensor.ids);
      break;
  }
  return absl::OkStatus();
}

}  // namespace millrace::worker
