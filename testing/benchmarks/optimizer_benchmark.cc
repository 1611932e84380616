// How fast the optimizers are, one thread: a gradient of 64 MiB over blocks of 1 MiB, new blocks
// written beside the old ones as a ps server does; and one whose gradient is in the cache, as that
// of a block that has just been received. memcpy, which reads and writes as much memory as
// it copies, is the measure of what the machine can do.
//
// "bytes_per_second" counts the gradient; "moved" also what is read and written of the blocks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "ps/block/block.h"
#include "ps/optimizer/optimizer.h"

namespace millrace::testing {
namespace {

constexpr size_t kBlockFloats = size_t{1} << 18;
constexpr size_t kBlocks = 64;

std::unique_ptr<ps::Optimizer> Make(const std::string& text) {
  OptimizerSpec spec;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  auto optimizer = ps::MakeOptimizer(spec);
  CHECK(optimizer.ok()) << optimizer.status();
  return *std::move(optimizer);
}

using Blocks = std::vector<std::shared_ptr<ps::Block>>;

Blocks MakeBlocks(ps::BlockPool* pool, int slots) {
  Blocks blocks(kBlocks);
  for (auto& block : blocks) {
    block = pool->Allocate(kBlockFloats, slots);
    for (int i = 0; i <= slots; ++i) std::fill_n(block->array(i), kBlockFloats, 0.5f);
  }
  return blocks;
}

// Applies a gradient to one block in runs of `run` floats.
void ApplyToBlock(const ps::Optimizer& optimizer, uint64_t version, const float* gradient,
                  size_t run, const ps::Block& from, ps::Block* to) {
  for (size_t offset = 0; offset < kBlockFloats; offset += run) {
    const size_t count = std::min(run, kBlockFloats - offset);
    const float* in[8];
    float* out[8];
    for (int i = 0; i <= from.slots(); ++i) {
      in[i] = from.array(i) + offset;
      out[i] = to->array(i) + offset;
    }
    optimizer.Apply(version, reinterpret_cast<const char*>(gradient + offset), count, in, out);
  }
}

// Arguments: floats of a run, which is what lies together in a received slice; blocks of gradient
// that are there, to be used again and again.
void BM_Optimizer(benchmark::State& state, const std::string& spec) {
  const std::unique_ptr<ps::Optimizer> optimizer = Make(spec);
  const size_t run = static_cast<size_t>(state.range(0));
  const size_t blocks = static_cast<size_t>(state.range(1));
  ps::BlockPool pool;
  Blocks from = MakeBlocks(&pool, optimizer->slots());
  Blocks to = MakeBlocks(&pool, optimizer->slots());
  const std::vector<float> gradient(blocks * kBlockFloats, 0.01f);
  uint64_t version = 0;
  for (auto _ : state) {
    ++version;
    for (size_t i = 0; i < kBlocks; ++i) {
      ApplyToBlock(*optimizer, version, &gradient[i % blocks * kBlockFloats], run, *from[i],
                   to[i].get());
    }
    std::swap(from, to);
    benchmark::ClobberMemory();
  }
  const double bytes = static_cast<double>(kBlocks * kBlockFloats * sizeof(float));
  const double arrays = 1 + 2 * (1 + optimizer->slots());
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * kBlocks * kBlockFloats * sizeof(float)));
  state.counters["moved"] = benchmark::Counter(
      bytes * arrays, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1024);
}

void BM_Memcpy(benchmark::State& state) {
  const std::vector<float> from(kBlocks * kBlockFloats, 0.5f);
  std::vector<float> to(from.size());
  for (auto _ : state) {
    for (size_t i = 0; i < kBlocks; ++i) {
      std::memcpy(&to[i * kBlockFloats], &from[i * kBlockFloats], kBlockFloats * sizeof(float));
    }
    benchmark::ClobberMemory();
  }
  const size_t bytes = from.size() * sizeof(float);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
  state.counters["moved"] = benchmark::Counter(2.0 * static_cast<double>(bytes),
                                               benchmark::Counter::kIsIterationInvariantRate,
                                               benchmark::Counter::kIs1024);
}

// Whole blocks from memory; slices of 64 KiB that do not keep to the grid, from the cache.
#define MILLRACE_OPTIMIZER_BENCHMARK(name, spec)  \
  BENCHMARK_CAPTURE(BM_Optimizer, name, spec)     \
      ->ArgNames({"run", "blocks"})               \
      ->Args({kBlockFloats, kBlocks})             \
      ->Args({(64 << 10) / sizeof(float) - 1, 1}) \
      ->Unit(benchmark::kMillisecond)

BENCHMARK(BM_Memcpy)->Unit(benchmark::kMillisecond);
MILLRACE_OPTIMIZER_BENCHMARK(sgd, "sgd {}");
MILLRACE_OPTIMIZER_BENCHMARK(momentum, "sgd { momentum: 0.9 }");
MILLRACE_OPTIMIZER_BENCHMARK(nesterov, "sgd { momentum: 0.9 nesterov: true }");
MILLRACE_OPTIMIZER_BENCHMARK(rmsprop, "rmsprop {}");
MILLRACE_OPTIMIZER_BENCHMARK(adam, "adam {}");
MILLRACE_OPTIMIZER_BENCHMARK(amsgrad, "adam { amsgrad: true }");
MILLRACE_OPTIMIZER_BENCHMARK(adamw, "adamw {}");
MILLRACE_OPTIMIZER_BENCHMARK(nadam, "nadam {}");
MILLRACE_OPTIMIZER_BENCHMARK(adagrad, "adagrad {}");
MILLRACE_OPTIMIZER_BENCHMARK(adadelta, "adadelta {}");
MILLRACE_OPTIMIZER_BENCHMARK(ftrl, "ftrl {}");
MILLRACE_OPTIMIZER_BENCHMARK(ftrl_of_another_power, "ftrl { learning_rate_power: -0.7 }");
MILLRACE_OPTIMIZER_BENCHMARK(clipped, "sgd {} clip_value: 1");
// Each run is a variable.
MILLRACE_OPTIMIZER_BENCHMARK(clipped_by_norm, "sgd {} clip_norm: 1");
MILLRACE_OPTIMIZER_BENCHMARK(lamb, "lamb {}");
MILLRACE_OPTIMIZER_BENCHMARK(scheduled,
                             "sgd {} schedule { cosine_restarts { first_decay_steps: 9 } }");

}  // namespace
}  // namespace millrace::testing

BENCHMARK_MAIN();
