// Work that was captured takes what stands in device memory when it runs: the seed, and the ids of
// which there may be fewer each time.
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/cuda/gpu_test_util.h"
#include "worker/device/cuda/library.h"

namespace millrace::worker {
namespace {

TEST(ReplayTest, DropoutTakesTheNewSeed) {
  const auto gpu = OpenTestGpu();
  cuda::DropoutDescription description;
  description.threshold = uint32_t{1} << 31;
  description.elements = 100;
  const auto layer = gpu->Make(description);
  const auto ones = OnDevice(gpu.get(), std::vector<float>(100, 1));
  const auto seed = OnDevice(gpu.get(), std::vector<uint64_t>{1});
  DeviceMemory y(gpu.get(), 100 * sizeof(float)), expected(gpu.get(), 100 * sizeof(float));
  cuda::Pass pass;
  pass.batch = 1;
  pass.training = true;
  pass.seed = seed->As<uint64_t>();
  const float* const x[] = {ones->As()};
  gpu->BeginCapture();
  layer->Forward(pass, x, y.As());
  const auto graph = gpu->EndCapture();
  std::vector<std::vector<float>> masks;
  for (const uint64_t value : {1, 2}) {
    seed->Set(&value);
    gpu->Launch(*graph);
    layer->Forward(pass, x, expected.As());
    masks.push_back(y.Values());
    EXPECT_EQ(masks.back(), expected.Values());
  }
  EXPECT_NE(masks[0], masks[1]);
}

// The gradient of one table, on the device.
class TableGradient final : public cuda::Gradients {
 public:
  TableGradient(cuda::Gpu* gpu, size_t elements) : memory_(gpu, elements * sizeof(float)) {}

  float* Buffer(int /*variable*/) override { return memory_.As(); }
  void Finished(int /*variable*/) override {}
  std::vector<float> Values() { return memory_.Values(); }

 private:
  DeviceMemory memory_;
};

TEST(ReplayTest, EmbeddingsTakeTheNewIds) {
  const auto gpu = OpenTestGpu();
  cuda::EmbeddingDescription description;
  description.rows = 1;
  description.ragged = true;
  description.dimension = 1;
  description.table_rows = 4;
  description.variable = 0;
  description.trained = true;
  const auto layer = gpu->Make(description);
  const auto table = OnDevice<float>(gpu.get(), {1, 10, 100, 1000});
  const auto list = OnDevice<int64_t>(gpu.get(), {0, 1, 3});
  const auto rows = OnDevice<int64_t>(gpu.get(), {0, 0, 1});
  const auto ends = OnDevice<uint64_t>(gpu.get(), {2, 3});
  const auto count = OnDevice<uint64_t>(gpu.get(), {3});
  cuda::Ids ids = {list->As<int64_t>(), ends->As<uint64_t>(),  list->As<int64_t>(),
                   rows->As<int64_t>(), count->As<uint64_t>(), /*most=*/3};
  TableGradient gradient(gpu.get(), 4);
  const auto dy = OnDevice<float>(gpu.get(), {5, 7});
  DeviceMemory y(gpu.get(), 2 * sizeof(float));
  const float* const parameters[] = {table->As()};
  float* const dx[] = {nullptr};
  cuda::Pass pass;
  pass.batch = 2;
  pass.training = true;
  pass.ids = &ids;
  pass.parameters = parameters;
  pass.gradients = &gradient;
  gpu->BeginCapture();
  layer->Forward(pass, nullptr, y.As());
  layer->Backward(pass, nullptr, y.As(), dy->As(), dx);
  const auto graph = gpu->EndCapture();
  gpu->Launch(*graph);
  EXPECT_EQ(y.Values(), std::vector<float>({11, 1000}));
  EXPECT_EQ(gradient.Values(), std::vector<float>({5, 5, 0, 7}));
  list->Set(std::vector<int64_t>{2, 0, 3}.data());  // The last one is left over.
  rows->Set(std::vector<int64_t>{1, 0, 1}.data());
  ends->Set(std::vector<uint64_t>{0, 1}.data());
  count->Set(std::vector<uint64_t>{1}.data());
  gpu->Launch(*graph);
  EXPECT_EQ(y.Values(), std::vector<float>({0, 100}));
  EXPECT_EQ(gradient.Values(), std::vector<float>({0, 0, 7, 0}));
}

}  // namespace
}  // namespace millrace::worker
