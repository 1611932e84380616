#include "ps/dense/shard_plan.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checksum.h"
#include "common/plain_name.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/proto_fields.h"
#include "common/status_macros.h"
#include "ps/dense/initial_value.h"
#include "ps/dense/push_assembly.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kDefaultCutPeriod = absl::Seconds(10);
constexpr size_t kMaxNameBytes = 1000;
// Asynchronous gradients under way that have a place reserved; more find room in what the server
// has to spare.
constexpr uint64_t kReservedPushes = 2;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  return b != 0 && a > kNoLimit / b ? kNoLimit : a * b;
}

std::string FieldOf(int slice, absl::string_view field) {
  return absl::StrCat("spec.slices[", slice, "].", field);
}

// A variable's slice [begin, end) and its place in the spec.
struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
  int slice = 0;
};
absl::Status CheckName(const ShardSlice& slice, int index) {
  const std::string& name = slice.variable_name();
  if (!name.empty() && name.size() <= kMaxNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(FieldOf(index, "variable_name"), ": ", name.size(),
                                                 " bytes; must be 1 to ", kMaxNameBytes));
}

// Of the whole variable.
uint64_t ElementsByShape(const ShardSlice& slice) {
  uint64_t elements = 1;
  for (const uint64_t size : slice.shape()) elements = SaturatingMultiply(elements, size);
  return elements;
}

// Where the variable's shape is told. REQUIRES: the slice's end is below 2^64.
absl::Status CheckWithinShape(const ShardSlice& slice, int index) {
  if (slice.shape().empty()) return absl::OkStatus();
  const uint64_t elements = ElementsByShape(slice);
  const uint64_t end = slice.slice().offset() + slice.slice().length();
  if (end <= elements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(FieldOf(index, "slice"), ": ends at element ", end, " of variable '",
                   PrintableName(slice.variable_name()), "'; by its shape that has ", elements));
}

// Of one variable, in any order.
absl::Status CheckApart(const std::string& name, std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin >= extents[i - 1].end) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(FieldOf(extents[i].slice, "slice"), ": elements ", extents[i].begin, " to ",
                     extents[i].end - 1, " of variable '", PrintableName(name), "'; overlaps ",
                     FieldOf(extents[i - 1].slice, "slice"), ", elements ", extents[i - 1].begin,
                     " to ", extents[i - 1].end - 1));
  }
  return absl::OkStatus();
}

// Whether each variable has one name, and each name is one variable's.
absl::Status CheckNames(const ShardSpec& spec) {
  absl::btree_map<std::string, uint32_t> variables;  // By name.
  absl::btree_map<uint32_t, int> first;              // Slices, by variable.
  for (int i = 0; i < spec.slices_size(); ++i) {
    const std::string& name = spec.slices(i).variable_name();
    const uint32_t variable = spec.slices(i).slice().variable();
    MILLRACE_RETURN_IF_ERROR(CheckName(spec.slices(i), i));
    if (const uint32_t other = variables.try_emplace(name, variable).first->second;
        other != variable) {
      return absl::InvalidArgumentError(
          absl::StrCat(FieldOf(i, "variable_name"), ": '", PrintableName(name),
                       "' is the name of variable ", other, " too; names must differ"));
    }
    const int other = first.try_emplace(variable, i).first->second;
    if (spec.slices(other).variable_name() == name) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(FieldOf(i, "variable_name"), ": '", PrintableName(name), "'; must be '",
                     PrintableName(spec.slices(other).variable_name()), "' as in ",
                     FieldOf(other, "variable_name"), ", since both are of variable ", variable));
  }
  return absl::OkStatus();
}

// Whether each element of a variable is there once.
absl::Status CheckSlices(const ShardSpec& spec) {
  absl::btree_map<uint32_t, std::vector<Extent>> extents;  // By variable.
  for (int i = 0; i < spec.slices_size(); ++i) {
    const uint64_t offset = spec.slices(i).slice().offset();
    const uint64_t length = spec.slices(i).slice().length();
    if (length > kNoLimit - offset) {
      return absl::InvalidArgumentError(absl::StrCat(FieldOf(i, "slice"), ": offset ", offset,
                                                     " and length ", length,
                                                     "; the end must be below 2^64"));
    }
    MILLRACE_RETURN_IF_ERROR(CheckWithinShape(spec.slices(i), i));
    extents[spec.slices(i).slice().variable()].push_back({offset, offset + length, i});
  }
  for (const auto& [variable, of_variable] : extents) {
    const std::string& name = spec.slices(of_variable.front().slice).variable_name();
    MILLRACE_RETURN_IF_ERROR(CheckApart(name, of_variable));
  }
  return absl::OkStatus();
}

// Whether slices may be taken for whole variables, as far as that can be seen here.
absl::Status CheckWhole(const ShardSpec& spec) {
  absl::btree_map<uint32_t, int> first;  // Slices, by variable.
  for (int i = 0; i < spec.slices_size(); ++i) {
    if (spec.slices(i).has_update()) continue;
    const Slice& slice = spec.slices(i).slice();
    const bool alone = first.try_emplace(slice.variable(), i).second;
    const bool whole =
        spec.slices(i).shape().empty() || ElementsByShape(spec.slices(i)) == slice.length();
    if (slice.offset() == 0 && alone && whole) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(FieldOf(i, "slice"), ": elements ", slice.offset(), " to ",
                     slice.offset() + slice.length() - 1, " of variable '",
                     PrintableName(spec.slices(i).variable_name()),
                     "'; must be all of it: the optimizer needs the norms of whole variables "
                     "(lamb, clip_norm)"));
  }
  return absl::OkStatus();
}

// It is part of files' names.
absl::Status CheckJobId(const std::string& id) {
  if (!id.empty() && id.size() <= kMaxJobIdBytes && IsPlainName(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("spec.job_id: '", PrintableName(id),
                                                 "'; must be 1 to ", kMaxJobIdBytes,
                                                 " letters, digits, '_', '-' and '.'"));
}

absl::Status CheckRestore(const ShardRestore& restore) {
  MILLRACE_RETURN_IF_ERROR(CheckAbsolutePath("spec.restore.directory", restore.directory()));
  if (restore.checkpoint() == 0) {
    return absl::InvalidArgumentError("spec.restore.checkpoint: 0; must be at least 1");
  }
  const std::string& checksum = restore.manifest_checksum();
  if (IsChecksum(checksum)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("spec.restore.manifest_checksum: '",
                                                 PrintableName(checksum), "'; must be ",
                                                 kChecksumDigits, " digits of 0 to 9 and a to f"));
}

absl::Status CheckWire(const ShardSpec& spec) {
  if (!spec.has_wire() || Encoding::Kind_IsValid(spec.wire())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("spec.wire: ", static_cast<int>(spec.wire()),
                                                 "; must be FLOAT32, FLOAT16 or BFLOAT16"));
}

absl::Status CheckFields(const ShardSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckJobId(spec.job_id()));
  if (spec.has_restore()) MILLRACE_RETURN_IF_ERROR(CheckRestore(spec.restore()));
  MILLRACE_RETURN_IF_ERROR(CheckWire(spec));
  if (spec.total_steps() == 0) {
    return absl::InvalidArgumentError("spec.total_steps: 0; must be at least 1");
  }
  for (int i = 0; i < spec.slices_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(CheckInitialValue(spec.slices(i).initial_value(),
                                               absl::StrCat("spec.slices[", i, "].initial_value")));
  }
  return CheckAllKnown(spec, "the shard's spec");
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

absl::StatusOr<SliceRules> MakeSliceRules(const ShardSpec& spec, int slots) {
  SliceRules rules(static_cast<size_t>(spec.slices_size()));
  for (int i = 0; i < spec.slices_size(); ++i) {
    if (!spec.slices(i).has_update()) continue;
    MILLRACE_ASSIGN_OR_RETURN(rules[static_cast<size_t>(i)],
                              MakeSliceRule(spec.slices(i).update(), slots, FieldOf(i, "update")));
  }
  return rules;
}

}  // namespace

absl::StatusOr<ShardPlan> PlanShard(const ShardSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(CheckFields(spec));
  MILLRACE_RETURN_IF_ERROR(CheckNames(spec));
  MILLRACE_RETURN_IF_ERROR(CheckSlices(spec));
  MILLRACE_ASSIGN_OR_RETURN(BlockLayout layout, BlockLayout::Create(spec));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(spec.optimizer()));
  if (optimizer->passes() > 0) MILLRACE_RETURN_IF_ERROR(CheckWhole(spec));
  MILLRACE_ASSIGN_OR_RETURN(SliceRules rules, MakeSliceRules(spec, optimizer->slots()));
  MILLRACE_ASSIGN_OR_RETURN(const absl::Duration cut_period, CutPeriod(spec));
  return ShardPlan{spec, std::move(layout), std::move(optimizer), std::move(rules), cut_period};
}

bool StartsFromFiles(const ShardSpec& spec) {
  return spec.has_restore() ||
         std::any_of(spec.slices().begin(), spec.slices().end(),
                     [](const ShardSlice& slice) { return slice.initial_value().has_stored(); });
}

bool AwaitsNorms(const ShardSpec& spec) {
  return spec.replicas() > 0 && spec.optimizer().has_global_clip_norm();
}

uint64_t StateBytes(const ShardPlan& plan) {
  return plan.layout.elements() * sizeof(float) *
         static_cast<uint64_t>(plan.optimizer->slots() + 1);
}

uint64_t FrozenBytes(const ShardPlan& plan) {
  return (plan.layout.elements() - plan.layout.pushed_elements()) * sizeof(float) *
         static_cast<uint64_t>(plan.optimizer->slots() + 1);
}

// A piece for each block: so workers cut gradients, and what is cut otherwise and waits for others
// of its version is gathered so.
uint64_t ReceiveBytes(const ShardPlan& plan) {
  const uint64_t gradient = plan.layout.pushed_elements() * sizeof(float) +
                            plan.layout.blocks().size() * (kPieceOverhead + kIntervalBytes);
  const uint64_t pushes = plan.spec.replicas() > 0 ? plan.spec.replicas() : kReservedPushes;
  return SaturatingMultiply(gradient, std::min<uint64_t>(pushes, plan.spec.total_steps()));
}

uint64_t MemoryNeed(const ShardPlan& plan) {
  const uint64_t frozen = FrozenBytes(plan);
  const uint64_t changing = StateBytes(plan) - frozen;
  const uint64_t receive = ReceiveBytes(plan);
  const uint64_t sum = plan.layout.pushed_elements() * sizeof(float);
  // The sum of contributions serves as the gathered gradient, unless that is clipped first.
  const bool gathers = plan.optimizer->passes() > 0 &&
                       (plan.spec.replicas() == 0 || plan.spec.optimizer().has_global_clip_norm());
  const uint64_t gathered = gathers ? sum : 0;
  // The current one, the one being computed, a cut's and a pinned one.
  const uint64_t fixed = plan.spec.replicas() == 0 ? frozen + 4 * changing + gathered
                                                   : 2 * frozen + 5 * changing + sum + gathered;
  return receive > kNoLimit - fixed ? kNoLimit : receive + fixed;
}

void FillInitialSlots(const Optimizer& optimizer, Block* block) {
  for (int slot = 1; slot <= block->slots(); ++slot) {
    std::fill_n(block->array(slot), block->elements(), optimizer.initial_slot(slot));
  }
}

absl::StatusOr<std::vector<std::shared_ptr<Block>>> AllocateBlocks(const ShardPlan& plan,
                                                                   BlockPool* pool) {
  const int slots = plan.optimizer->slots();
  std::vector<std::shared_ptr<Block>> blocks;
  for (const BlockLayout::BlockPlace& place : plan.layout.blocks()) {
    blocks.push_back(pool->Allocate(place.elements, slots));
    if (blocks.back() != nullptr) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat(ShardName(plan.spec.job_id(), plan.spec.shard()),
                     ": the system gives no more memory for its ", plan.layout.elements(),
                     " elements with ", slots, " optimizer slots each; use more ps servers"));
  }
  return blocks;
}

absl::StatusOr<StatePtr> MakeInitialState(const ShardPlan& plan, BlockPool* pool) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Block>> blocks,
                            AllocateBlocks(plan, pool));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockLayout::BlockPlace& place = plan.layout.blocks()[i];
    const ShardSlice& slice = plan.spec.slices(static_cast<int>(place.slice));
    FillInitialValues(slice.initial_value(), plan.spec.seed(), slice.variable_name(),
                      slice.slice().offset() + place.offset,
                      absl::MakeSpan(blocks[i]->array(0), place.elements));
    FillInitialSlots(*plan.optimizer, blocks[i].get());
  }
  auto state = std::make_shared<ShardState>();
  state->blocks.assign(blocks.begin(), blocks.end());
  return state;
}

std::string ShardName(absl::string_view job_id, uint32_t shard) {
  return absl::StrCat("shard ", shard, " of job '", PrintableName(job_id), "'");
}

}  // namespace millrace::ps
