#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job_spec.h"
#include "common/status_macros.h"
#include "ps/optimizer/adadelta.h"
#include "ps/optimizer/adagrad.h"
#include "ps/optimizer/adam.h"
#include "ps/optimizer/clipping.h"
#include "ps/optimizer/ftrl.h"
#include "ps/optimizer/lamb.h"
#include "ps/optimizer/moving_average.h"
#include "ps/optimizer/nadam.h"
#include "ps/optimizer/optimizer.h"
#include "ps/optimizer/rmsprop.h"
#include "ps/optimizer/sgd.h"

namespace millrace::ps {
namespace {

// nullptr: of no kind.
std::unique_ptr<Optimizer> MakeKind(const OptimizerSpec& spec) {
  switch (spec.kind_case()) {
    case OptimizerSpec::kSgd:
      return MakeSgd(spec.sgd(), spec.schedule());
    case OptimizerSpec::kRmsprop:
      return MakeRmsProp(spec.rmsprop(), spec.schedule());
    case OptimizerSpec::kAdam:
      return MakeAdam(spec.adam(), spec.schedule());
    case OptimizerSpec::kAdamw:
      return MakeAdamW(spec.adamw(), spec.schedule());
    case OptimizerSpec::kNadam:
      return MakeNadam(spec.nadam(), spec.schedule());
    case OptimizerSpec::kAdagrad:
      return MakeAdagrad(spec.adagrad(), spec.schedule());
    case OptimizerSpec::kAdadelta:
      return MakeAdadelta(spec.adadelta(), spec.schedule());
    case OptimizerSpec::kFtrl:
      return MakeFtrl(spec.ftrl());
    case OptimizerSpec::kLamb:
      return MakeLamb(spec.lamb(), spec.schedule());
    case OptimizerSpec::KIND_NOT_SET:
      break;
  }
  return nullptr;
}

}  // namespace

void ApplyToVariable(const Optimizer& optimizer, uint64_t version, const ElementRun& variable) {
  VariableFacts facts = {version, {}};
  for (int pass = 0; pass < optimizer.passes(); ++pass) {
    NormSums sums;
    optimizer.Measure(pass, facts, variable, &sums);
    facts.norms.Add(sums.Totals());
  }
  optimizer.ApplyMeasured(facts, variable);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const OptimizerSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckOptimizerSpec(spec, "optimizer"));
  std::unique_ptr<Optimizer> optimizer = MakeKind(spec);
  if (optimizer == nullptr) return absl::InternalError("optimizer: checked, and of no kind");
  if (spec.has_clip_norm()) return ClipGradientNorms(std::move(optimizer), spec.clip_norm());
  if (!spec.has_clip_value()) return optimizer;
  return ClipGradients(std::move(optimizer), static_cast<float>(spec.clip_value()));
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeSliceRule(const UpdateRule& rule, int slots,
                                                         absl::string_view path) {
  MILLRACE_RETURN_IF_ERROR(CheckUpdateRule(rule, path));
  if (rule.has_frozen()) return nullptr;
  return MakeMovingAverage(rule.moving_average(), slots);
}

}  // namespace millrace::ps
