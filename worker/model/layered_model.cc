#include "worker/model/layered_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "worker/model/compact_model.h"
#include "worker/model/compact_tables.h"

namespace millrace::worker {
namespace {

// No batch has more examples than its set.
BatchSizes BatchSizesOf(const JobSpec& spec, const Dataset& train, const Dataset* evaluate) {
  BatchSizes batches;
  batches.train = std::min<uint64_t>(spec.batch_size(), train.size());
  if (evaluate != nullptr) {
    batches.evaluation = std::min<uint64_t>(EvaluationBatchSize(spec), evaluate->size());
  }
  return batches;
}

std::string Described(const TensorSpec& feature) {
  const char* const type = feature.type == ElementType::kFloat  ? "floats"
                           : feature.type == ElementType::kByte ? "bytes"
                                                                : "ids";
  return absl::StrCat("'", feature.name, "' of ", feature.ragged ? "lists of " : "", type, " ",
                      ShapeString(feature.shape));
}

// Models see features by their places: names, types and shapes are the same.
absl::Status CheckFeaturesAlike(const std::vector<TensorSpec>& train,
                                const std::vector<TensorSpec>& evaluate) {
  if (train.size() != evaluate.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.evaluate: its examples have ", evaluate.size(),
                     " features, those of data.train ", train.size(), "; they must be the same"));
  }
  for (size_t i = 0; i < train.size(); ++i) {
    if (train[i].shape != evaluate[i].shape && train.size() == 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.evaluate: its examples have the shape ", ShapeString(evaluate[i].shape),
          ", those of data.train ", ShapeString(train[i].shape), "; they must be the same"));
    }
    if (Described(train[i]) == Described(evaluate[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data.evaluate: feature ", i, " of its examples is ", Described(evaluate[i]),
                     ", of those of data.train ", Described(train[i]), "; they must be the same"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Model>> MakeLayeredModel(const std::shared_ptr<Device>& device,
                                                        const JobSpec& spec, const Dataset& train,
                                                        const Dataset* evaluate) {
  if (spec.batch_size() == 0) {
    return absl::InvalidArgumentError("batch_size is 0; it must be at least 1");
  }
  MILLRACE_ASSIGN_OR_RETURN(ModelPlan plan, PlanModel(spec, train.example()));
  if (evaluate != nullptr) MILLRACE_RETURN_IF_ERROR(CheckEvaluationSet(plan, *evaluate));
  const BatchSizes batches = BatchSizesOf(spec, train, evaluate);
  return CompactTables(plan).any() ? CompactModel::Compile(device, plan, batches)
                                   : device->Compile(plan, batches);
}

}  // namespace

absl::Status CheckEvaluationSet(const ModelPlan& plan, const Dataset& evaluate) {
  const ExampleSpec& examples = evaluate.example();
  MILLRACE_RETURN_IF_ERROR(CheckFeaturesAlike(plan.features, examples.features));
  absl::Status status = CheckIds(plan, examples.features);
  if (status.ok()) status = CheckLabels(plan, examples);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat("data.evaluate: ", status.message()));
}

ModelFactory LayeredModelFactory(std::shared_ptr<Device> device) {
  return [device = std::move(device)](const JobSpec& spec, const millrace::worker::Dataset& train,
                                      const millrace::worker::Dataset* evaluate) {
    return MakeLayeredModel(device, spec, train, evaluate);
  };
}

}  // namespace millrace::worker
