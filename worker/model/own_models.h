// Models that a worker binary brings, found by the name that a job's ModelSpec.custom says.
#ifndef MILLRACE_WORKER_MODEL_OWN_MODELS_H_
#define MILLRACE_WORKER_MODEL_OWN_MODELS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "protos/model.pb.h"
#include "worker/model/model.h"

namespace millrace::worker {

struct OwnModel {
  // CustomModel.name.
  std::string name;
  // Makes the model; see ModelFactory. `layers` makes models of ModelSpec layers on the worker's
  // device, for a model that is built of them. Called by several threads at once.
  std::function<absl::StatusOr<std::unique_ptr<Model>>(const JobSpec& spec, const Dataset& train,
                                                       const Dataset* evaluate,
                                                       const ModelFactory& layers)>
      make;
};

// INVALID_ARGUMENT: a model has no name, no `make`, or the name of another one.
absl::Status CheckOwnModels(const std::vector<OwnModel>& own);

// Makes what a job's ModelSpec says: the one of `own` that its `custom` names, else its layers.
// UNAVAILABLE: none of them has the name ("model.custom.name: 'x'; this worker knows ..."), so that
// the job is left to workers that know it. REQUIRES: CheckOwnModels is OK.
ModelFactory ModelsByName(std::vector<OwnModel> own, ModelFactory layers);

// Options of a custom model. All return INVALID_ARGUMENT with the path, the value and what is
// allowed: "model.custom.options[1].value: 'many'; must be a whole number from 1 to 64".

// Whether the options are all among `known`.
absl::Status CheckOptionNames(const CustomModel& model, absl::Span<const absl::string_view> known);
// The option's value; `unset` where it is not there.
absl::StatusOr<uint64_t> NumberOption(const CustomModel& model, absl::string_view name,
                                      uint64_t unset, uint64_t lowest, uint64_t highest);
absl::StatusOr<double> RealOption(const CustomModel& model, absl::string_view name, double unset,
                                  double lowest, double highest);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_MODEL_OWN_MODELS_H_
