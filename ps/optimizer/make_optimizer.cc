#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "ps/optimizer/adam.h"
#include "ps/optimizer/moving_average.h"
#include "ps/optimizer/optimizer.h"
#include "ps/optimizer/rmsprop.h"
#include "ps/optimizer/sgd.h"

namespace millrace::ps {

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckOptimizerSpec(spec, "optimizer"));
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
      return MakeSgd(spec.sgd());
    case OptimizerSpec::kRmsprop:
      return MakeRmsProp(spec.rmsprop());
    case OptimizerSpec::kAdam:
      return MakeAdam(spec.adam());
    case OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return absl::InternalError("optimizer: checked, and of no kind");
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeSliceRule(const UpdateRule& rule, int slots,
                                                         absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckUpdateRule(rule, path));
  if (rule.has_frozen()) return nullptr;
  return MakeMovingAverage(rule.moving_average(), slots);
}

}  // namespace millrace::ps
