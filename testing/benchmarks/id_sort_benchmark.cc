// How long it takes to bring the ids of a batch into order for an embedding's gradient, one thread:
// 8,192 examples with an id each, of tables of several sizes. std::stable_sort of the same is the
// measure.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "worker/device/cuda/id_sorter.h"

namespace millrace::testing {
namespace {

constexpr size_t kIds = 8192;

std::vector<worker::IdOfRow> IdsBelow(int64_t limit) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> any(0, limit - 1);
  std::vector<worker::IdOfRow> ids;
  for (size_t i = 0; i < kIds; ++i) ids.push_back({any(random), static_cast<int64_t>(i)});
  return ids;
}

void BM_IdSorter(benchmark::State& state) {
  const std::vector<worker::IdOfRow> ids = IdsBelow(state.range(0));
  worker::IdSorter sorter;
  std::vector<worker::IdOfRow> taken;
  for (auto _ : state) {
    taken = ids;
    benchmark::DoNotOptimize(sorter.Sort(absl::MakeSpan(taken)).data());
  }
}

void BM_StableSort(benchmark::State& state) {
  const std::vector<worker::IdOfRow> ids = IdsBelow(state.range(0));
  std::vector<worker::IdOfRow> taken;
  for (auto _ : state) {
    taken = ids;
    std::stable_sort(taken.begin(), taken.end(),
                     [](const auto& a, const auto& b) { return a.id < b.id; });
    benchmark::DoNotOptimize(taken.data());
  }
}

BENCHMARK(BM_IdSorter)->RangeMultiplier(100)->Range(100, 100'000'000);
BENCHMARK(BM_StableSort)->RangeMultiplier(100)->Range(100, 100'000'000);

}  // namespace
}  // namespace millrace::testing

BENCHMARK_MAIN();
