#include "testing/benchmarks/gpu_timing.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>

#include "glog/logging.h"

namespace millrace::testing {
namespace {

constexpr std::chrono::minutes kPatience(5);

}  // namespace

// A wait with a deadline sleeps in between, and wakes up late.
void AwaitCompute(cuda::Gpu* gpu) {
  const std::unique_ptr<cuda::Event> event = gpu->MakeEvent();
  gpu->Record(cuda::Stream::kCompute, event.get());
  const auto begin = std::chrono::steady_clock::now();
  while (!gpu->HostWaitFor(*event, /*seconds=*/0)) {
    CHECK(std::chrono::steady_clock::now() - begin < kPatience) << "the GPU does not finish";
  }
}

Spread SpreadOf(std::vector<double> numbers) {
  CHECK(!numbers.empty());
  std::sort(numbers.begin(), numbers.end());
  return {numbers[numbers.size() / 2], numbers.front(), numbers.back()};
}

Spread SecondsOf(cuda::Gpu* gpu, const std::function<void()>& enqueue, int times, int rounds) {
  gpu->BeginCapture();
  for (int i = 0; i < times; ++i) enqueue();
  const std::unique_ptr<cuda::Graph> graph = gpu->EndCapture();
  gpu->Launch(*graph);
  AwaitCompute(gpu);
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    gpu->Launch(*graph);
    AwaitCompute(gpu);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count() / times);
  }
  return SpreadOf(std::move(seconds));
}

RandomFloats::RandomFloats(cuda::Gpu* gpu, size_t count, uint64_t seed)
    : gpu_(gpu), memory_(gpu->Allocate(count * sizeof(float))) {
  void* const pinned = gpu->AllocatePinned(count * sizeof(float));
  std::minstd_rand random(static_cast<unsigned>(seed + 1));
  float* const values = static_cast<float*>(pinned);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(random() % 65536) / 32768.0f - 1;
  }
  gpu->CopyIn(cuda::Stream::kCompute, memory_, pinned, count * sizeof(float));
  AwaitCompute(gpu);
  gpu->FreePinned(pinned);
}

double ProductRate(cuda::Gpu* gpu, cuda::Precision precision, int64_t size, int rounds) {
  cuda::DenseDescription description;
  description.rows = 1;
  description.inputs = size;
  description.units = size;
  description.precision = precision;
  const std::unique_ptr<cuda::Layer> layer = gpu->Make(description);
  const auto count = static_cast<size_t>(size * size);
  const RandomFloats x(gpu, count, 1), kernel(gpu, count, 2), y(gpu, count, 3);
  layer->Prepare(static_cast<size_t>(size), /*training=*/true);
  const size_t workspace_bytes = layer->WorkspaceBytes(static_cast<size_t>(size));
  const RandomFloats workspace(gpu, workspace_bytes / sizeof(float) + 1, 4);
  const float* const inputs[] = {x.get()};
  const float* const parameters[] = {kernel.get(), nullptr};
  cuda::Pass pass;
  pass.batch = static_cast<size_t>(size);
  pass.parameters = parameters;
  pass.workspace = workspace.get();
  const Spread seconds = SecondsOf(
      gpu, [&] { layer->Forward(pass, inputs, y.get()); }, /*times=*/5, rounds);
  return 2.0 * static_cast<double>(count) * static_cast<double>(size) / seconds.median;
}

}  // namespace millrace::testing
