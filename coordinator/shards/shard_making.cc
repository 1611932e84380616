#include "coordinator/shards/shard_making.h"

#include <algorithm>

#include "common/job_spec.h"
#include "common/proto_duration.h"
#include "coordinator/job/plan_check.h"
#include "coordinator/job/shard_placement.h"

namespace millrace::coordinator {
namespace {

// Makes a shard of any size, in memory. Retention relies on it: see kSettling there.
constexpr absl::Duration kMakePatience = absl::Minutes(5);
// What a copy may take beside its bytes.
constexpr absl::Duration kCopyPatience = absl::Seconds(30);
// One that is read from files, perhaps a network's, may take as long as that takes with so many
// bytes a second.
constexpr double kSlowestRead = 10 << 20;

}  // namespace

ShardMaking::ShardMaking(const JobRecord& record)
    : job_id_(record.job_id()),
      spec_(record.spec()),
      plan_(record.plan()),
      total_steps_(record.total_steps()),
      checks_wire_(record.wire_is_checked() && BitsDependOnWire(record.spec())),
      warm_start_(record.warm_start().begin(), record.warm_start().end()) {}

ShardSpec ShardMaking::SpecOf(uint32_t shard, const ShardPlacement& placement) const {
  ShardSpec spec;
  spec.set_job_id(job_id_);
  spec.set_shard(shard);
  for (const Slice& slice : placement.slices()) {
    const VariableSpec& variable = plan_.variables(slice.variable());
    ShardSlice& part = *spec.add_slices();
    *part.mutable_slice() = slice;
    part.set_variable_name(variable.name());
    *part.mutable_initial_value() = variable.initial_value();
    if (slice.variable() < warm_start_.size() && !warm_start_[slice.variable()].name().empty()) {
      *part.mutable_initial_value()->mutable_stored() = warm_start_[slice.variable()];
    }
    *part.mutable_shape() = variable.shape();
    if (variable.has_update()) *part.mutable_update() = variable.update();
  }
  if (placement.has_restore()) *spec.mutable_restore() = placement.restore();
  *spec.mutable_optimizer() = spec_.optimizer();
  spec.set_replicas(Replicas(spec_));
  spec.set_total_steps(total_steps_);
  spec.set_seed(spec_.seed());
  *spec.mutable_cut_period() = ToProto(CutPeriod(spec_));
  if (checks_wire_) spec.set_wire(spec_.precision().wire());
  return spec;
}

absl::Duration ShardMaking::Patience(absl::Span<const ShardPlacement> placements) const {
  const bool reads = std::any_of(placements.begin(), placements.end(),
                                 [](const auto& placement) { return placement.has_restore(); }) ||
                     !warm_start_.empty();
  if (!reads) return kMakePatience;
  return std::max(kReadPatience, absl::Seconds(MostBytes(placements) / kSlowestRead));
}

absl::Duration ShardMaking::CopyPatience(absl::Span<const ShardPlacement> placements) const {
  return kCopyPatience + absl::Seconds(MostBytes(placements) / kSlowestRead);
}

double ShardMaking::MostBytes(absl::Span<const ShardPlacement> placements) const {
  uint64_t most = 0;
  for (const ShardPlacement& placement : placements) most = std::max(most, ElementsOf(placement));
  const size_t arrays = 1 + OptimizerSlots(spec_.optimizer()).size();
  return static_cast<double>(most) * static_cast<double>(arrays * sizeof(float));
}

}  // namespace millrace::coordinator
