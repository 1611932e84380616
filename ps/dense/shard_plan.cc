#include "ps/dense/shard_plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "ps/dense/initial_value.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kDefaultCutPeriod = absl::Seconds(10);
constexpr size_t kMaxJobIdBytes = 1000;

absl::Status CheckFields(const ShardSpec& spec) {
  if (spec.job_id().empty() || spec.job_id().size() > kMaxJobIdBytes) {
    return absl::InvalidArgumentError(absl::StrCat("spec.job_id: ", spec.job_id().size(),
                                                   " bytes; must be 1 to ", kMaxJobIdBytes));
  }
  if (spec.total_steps() == 0) {
    return absl::InvalidArgumentError("spec.total_steps: 0; must be at least 1");
  }
  for (int i = 0; i < spec.slices_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckInitialValue(spec.slices(i).initial_value(),
                                               absl::StrCat("spec.slices[", i, "].initial_value")));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> CutPeriod(const ShardSpec& spec) {
  if (!spec.has_cut_period()) return kDefaultCutPeriod;
  const absl::Duration period = FromProto(spec.cut_period());
  if (!IsValid(spec.cut_period()) || period <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.cut_period: ", absl::FormatDuration(period), "; must be above 0"));
  }
  return period;
}

}  // namespace

absl::StatusOr<ShardPlan> PlanShard(const ShardSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckFields(spec));
  MILLRACE_ASSIGN_OR_RETURN(BlockLayout layout, BlockLayout::Create(spec));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(spec.optimizer()));
  MILLRACE_ASSIGN_OR_RETURN(const absl::Duration cut_period, CutPeriod(spec));
  return ShardPlan{spec, std::move(layout), std::move(optimizer), cut_period};
}

uint64_t MemoryNeed(const ShardPlan& plan) {
  const uint64_t values = plan.layout.elements() * sizeof(float);
  const uint64_t state = values * static_cast<uint64_t>(plan.optimizer->slots() + 1);
  if (plan.spec.replicas() == 0) return 2 * state;
  return 3 * state + plan.spec.replicas() * values;
}

absl::StatusOr<StatePtr> MakeInitialState(const ShardPlan& plan, BlockPool* pool) {
  auto state = std::make_shared<ShardState>();
  const int slots = plan.optimizer->slots();
  for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
    std::shared_ptr<Block> block = pool->Allocate(place.elements, slots);
    if (block == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat(ShardName(plan.spec.job_id(), plan.spec.shard()),
                       ": the system gives no more memory for its ", plan.layout.elements(),
                       " elements with ", slots, " optimizer slots each; use more ps servers"));
    }
    const ShardSlice& slice = plan.spec.slices(static_cast<int>(place.slice));
    FillInitialValues(slice.initial_value(), plan.spec.seed(), slice.variable_name(),
                      slice.slice().offset() + place.offset,
                      absl::MakeSpan(block->array(0), place.elements));
    for (int i = 1; i <= slots; ++i) std::fill_n(block->array(i), place.elements, 0.0f);
    state->blocks.push_back(std::move(block));
  }
  return state;
}

std::string ShardName(absl::string_view job_id, uint32_t shard) {
  return absl::StrCat("shard ", shard, " of job '", job_id, "'");
}

}  // namespace millrace::ps
