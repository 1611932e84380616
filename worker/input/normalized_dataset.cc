#include "worker/input/normalized_dataset.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

class NormalizedDataset final : public Dataset {
 public:
  // `means` and `stddevs` are of each channel.
  NormalizedDataset(std::unique_ptr<Dataset> dataset, std::vector<float> means,
                    std::vector<float> stddevs)
      : dataset_(std::move(dataset)), means_(std::move(means)), stddevs_(std::move(stddevs)) {}

  uint64_t size() const override { return dataset_->size(); }
  const ExampleSpec& example() const override { return dataset_->example(); }

  // Of the data, as they are in the files: all workers have the same job.
  uint64_t fingerprint() const override { return dataset_->fingerprint(); }

  absl::Status Read(absl::Span<const uint64_t> indices, Batch* batch) const override {
    MILLRACE_RETURN_IF_ERROR(dataset_->Read(indices, batch));
    size_t channel = 0;
    for (float& value : batch->features[0].floats) {
      value = (value - means_[channel]) / stddevs_[channel];
      channel = channel + 1 < means_.size() ? channel + 1 : 0;
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Dataset> dataset_;
  const std::vector<float> means_;
  const std::vector<float> stddevs_;
};

// For each channel.
absl::StatusOr<std::vector<float>> SpreadOut(const google::protobuf::RepeatedField<double>& numbers,
                                             uint64_t channels, float if_none,
                                             const std::string& field) {
  if (numbers.empty()) return std::vector<float>(channels, if_none);
  if (numbers.size() == 1) return std::vector<float>(channels, static_cast<float>(numbers[0]));
  if (static_cast<uint64_t>(numbers.size()) == channels) {
    return std::vector<float>(numbers.begin(), numbers.end());
  }
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", numbers.size(),
                                                 " numbers; must be one, or one for each of the ",
                                                 channels, " channels"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Normalize(std::unique_ptr<Dataset> dataset,
                                                   const Normalization& spec,
                                                   const std::string& field) {
  const std::string path = absl::StrCat(field, ".normalization");
  MILLRACE_RETURN_IF_ERROR(CheckNormalization(spec, path));
  const ExampleSpec& example = dataset->example();
  const TensorSpec& feature = example.features[0];
  if (example.features.size() != 1 || feature.shape.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": examples have ", example.features.size(), " features, the first of the shape [",
        absl::StrJoin(feature.shape, ", "), "]; must be pictures, [height, width, channels]"));
  }
  if (feature.type != ElementType::kFloat) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the feature '", feature.name, "' is of whole numbers; must be of floats: give it ",
        "divide_by, 255 for pictures of bytes to be from 0 to 1, 1 to keep the values as they are",
        feature.type == ElementType::kId ? " (of tfrecord's INT64: type: FLOAT)" : ""));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::vector<float> means, SpreadOut(spec.mean(), feature.shape[2], 0.0f,
                                                                absl::StrCat(path, ".mean")));
  MILLRACE_ASSIGN_OR_RETURN(
      std::vector<float> stddevs,
      SpreadOut(spec.stddev(), feature.shape[2], 1.0f, absl::StrCat(path, ".stddev")));
  return std::make_unique<NormalizedDataset>(std::move(dataset), std::move(means),
                                             std::move(stddevs));
}

}  // namespace millrace::worker
