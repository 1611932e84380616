#include "coordinator/checkpoint/checkpoint_answers.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

bool HasCut(const ShardStatus& shard, uint64_t epoch, uint64_t version) {
  return std::any_of(shard.cuts().begin(), shard.cuts().end(), [&](const CutName& cut) {
    return cut.epoch() == epoch && cut.version() == version;
  });
}

absl::Status CheckAnswer(const CheckpointShard& shard, uint32_t expected,
                         const absl::optional<CutName>& cut, absl::optional<uint64_t> exact_step) {
  if (shard.shard() != expected) {
    return absl::AbortedError(
        absl::StrCat("shard ", expected, " was asked, and shard ", shard.shard(), " answered"));
  }
  if (cut && (shard.epoch() != cut->epoch() || shard.version() != cut->version())) {
    return absl::AbortedError(absl::StrCat("shard ", expected, " wrote version ", shard.version(),
                                           " of epoch ", shard.epoch(), ", not version ",
                                           cut->version(), " of epoch ", cut->epoch()));
  }
  const StepSet& applied = shard.applied();
  if (exact_step && (applied.watermark() != *exact_step || !applied.above().empty())) {
    return absl::AbortedError(absl::StrCat("shard ", expected, " wrote the steps before ",
                                           applied.watermark(), " and ", applied.above_size(),
                                           " more, not exactly those before ", *exact_step));
  }
  return absl::OkStatus();
}

}  // namespace

absl::optional<CutName> OldestCommonCut(absl::Span<const ShardStatus> shards, uint64_t epoch,
                                        uint64_t version) {
  absl::optional<CutName> oldest;
  for (const CutName& cut : shards[0].cuts()) {
    if (cut.epoch() != epoch || cut.version() < version) continue;
    if (oldest && oldest->version() <= cut.version()) continue;
    const bool is_common = std::all_of(shards.begin(), shards.end(), [&](const ShardStatus& shard) {
      return HasCut(shard, epoch, cut.version());
    });
    if (is_common) oldest = cut;
  }
  return oldest;
}

absl::StatusOr<CheckpointState> MergeAnswers(absl::Span<const WriteCheckpointResponse> answers,
                                             const absl::optional<CutName>& cut,
                                             absl::optional<uint64_t> exact_step) {
  CheckpointState state;
  for (uint32_t i = 0; i < answers.size(); ++i) {
    const CheckpointShard& shard = answers[i].shard();
    MILLRACE_RETURN_IF_ERROR(CheckAnswer(shard, i, cut, exact_step));
    const uint64_t step = shard.applied().watermark();
    const bool same = i == 0 || step == state.step;
    state.exact = (i == 0 || state.exact) && same && shard.applied().above().empty();
    state.step = i == 0 ? step : std::min(state.step, step);
    state.bytes += shard.bytes();
    state.bytes_written += shard.bytes_written();
  }
  if (cut && !state.exact) {
    return absl::AbortedError(absl::StrCat("the shards' cuts of version ", cut->version(),
                                           " differ in the steps that they have"));
  }
  return state;
}

uint64_t MostExtraMemory(absl::Span<const WriteCheckpointResponse> answers,
                         absl::Span<const std::string> servers) {
  std::map<std::string, uint64_t> used;
  uint64_t most = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    most = std::max(most, used[servers[i]] += answers[i].extra_memory());
  }
  return most;
}

}  // namespace millrace::coordinator
