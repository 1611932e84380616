#include "testing/simulation/oracle.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/run/norm_exchange.h"
#include "glog/logging.h"
#include "ps/shard/shard_test_util.h"

namespace millrace::simulation {
namespace {

// Most gradients are longer, and some are not.
constexpr double kClipNorm = 20;

// 1 to 8. Two steps differ in some element, as good as surely.
float WholeGradient(uint64_t step, uint32_t shard, size_t element) {
  uint64_t bits = (step + 1) * 0x9E3779B97F4A7C15 + (shard + 1) * 0xBF58476D1CE4E5B9 + element;
  bits = (bits ^ (bits >> 30)) * 0x94D049BB133111EB;
  return static_cast<float>(1 + (bits >> 40) % 8);
}

}  // namespace

Oracle::Oracle(const JobShape& shape) : shape_(shape) {
  if (shape_.replicas > 0) FindVersions();
}

ShardSpec Oracle::SpecOf(uint32_t shard) const {
  ShardSpec spec =
      ::millrace::testing::MakeSpec({kElements - 2, 2}, shape_.replicas, shape_.total_steps);
  spec.set_shard(shard);
  if (shape_.replicas > 0) {
    Sgd& sgd = *spec.mutable_optimizer()->mutable_sgd();
    sgd.set_learning_rate(0.05F);
    sgd.set_momentum(0.5F);  // So that later values tell of slots, too.
  }
  if (shape_.clips) spec.mutable_optimizer()->set_global_clip_norm(kClipNorm);
  return spec;
}

std::vector<float> Oracle::Gradient(uint64_t step, uint32_t shard,
                                    const std::vector<PulledState>& pulled) const {
  std::vector<float> gradient(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    gradient[i] = WholeGradient(step, shard, i);
    if (shape_.replicas == 0) continue;
    for (const PulledState& state : pulled) gradient[i] += state.values[i] / 3;
  }
  return gradient;
}

void Oracle::FindVersions() {
  std::vector<std::unique_ptr<ps::BlockPool>> pools;
  std::vector<std::unique_ptr<ps::Shard>> shards;
  for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
    pools.push_back(std::make_unique<ps::BlockPool>());
    ps::ShardPlan plan = *ps::PlanShard(SpecOf(shard));
    ps::ShardContents contents;
    contents.state = *ps::MakeInitialState(plan, pools.back().get());
    shards.push_back(std::make_unique<ps::Shard>(std::move(plan), /*generation=*/1,
                                                 std::move(contents), pools.back().get()));
  }
  for (uint64_t step = 0;;) {
    std::vector<PulledState> pulled;
    versions_.emplace_back();
    for (const auto& shard : shards) {
      pulled.push_back(Copy(*::millrace::testing::Newest(shard.get())));
      versions_.back().push_back(pulled.back().values);
    }
    if (step == shape_.total_steps) return;
    const uint64_t end = std::min<uint64_t>(step + shape_.replicas, shape_.total_steps);
    for (; step < end; ++step) {
      for (uint32_t shard = 0; shard < shape_.shards; ++shard) {
        const PushResponse answer =
            ::millrace::testing::PushWhole(shards[shard].get(), step, /*push_id=*/step + 1,
                                           Gradient(step, shard, pulled), ExamplesOf(step));
        CHECK_EQ(answer.code(), 0) << answer.message();
      }
    }
    if (shape_.clips) Clip(versions_.size() - 1, shards);
  }
}

void Oracle::Clip(uint64_t version, const std::vector<std::unique_ptr<ps::Shard>>& shards) {
  MeasureVersionRequest measure;
  measure.set_generation(1);
  measure.set_version(version);
  std::vector<MeasureVersionResponse> measured;
  for (const auto& shard : shards) measured.push_back(*shard->MeasureVersion(measure));
  ApplyVersionRequest apply;
  apply.set_generation(1);
  apply.set_version(version);
  apply.set_norm(coordinator::DecideNorm(measured)->norm.value());
  for (const auto& shard : shards) CHECK(shard->ApplyVersion(apply).ok());
}

std::string Oracle::Check(uint32_t shard, const PulledState& state) const {
  const std::string which = absl::StrCat("shard ", shard, " at version ", state.version);
  std::vector<float> expected(kElements);
  if (shape_.replicas > 0) {
    const uint64_t steps = std::min<uint64_t>(state.version * shape_.replicas, shape_.total_steps);
    if (state.applied.watermark() != steps || !state.applied.above().empty()) {
      return absl::StrCat(which, " has ", state.applied.watermark(), " steps and ",
                          state.applied.above().size(), " above, not the first ", steps);
    }
    if (state.version >= versions_.size()) return absl::StrCat(which, ": there is no such version");
    expected = versions_[state.version][shard];
  } else {
    if (state.version != state.applied.size()) {
      return absl::StrCat(which, " has ", state.applied.size(), " steps");
    }
    for (uint64_t step = 0; step < shape_.total_steps; ++step) {
      if (!state.applied.Contains(step)) continue;
      for (size_t i = 0; i < kElements; ++i) expected[i] -= WholeGradient(step, shard, i);
    }
  }
  if (state.values == expected) return "";
  return absl::StrCat(which, " has values ", absl::StrJoin(state.values, " "), ", not ",
                      absl::StrJoin(expected, " "));
}

PulledState Copy(const ps::ShardState& state) {
  return {::millrace::testing::Values(state), state.applied, state.version};
}

}  // namespace millrace::simulation
