#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "ps/optimizer/adam.h"
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

}  // namespace millrace::ps
