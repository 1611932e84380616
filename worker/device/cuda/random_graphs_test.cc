// Models of random graphs on a GPU, where layers write over each other's places and take ReLU into
// their own kernels, against the processor, whose layers are plain.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "protos/model.pb.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

const Shape kGraphInput = {5, 4, 3};  // Of all values but the last ones.
constexpr size_t kGraphClasses = 4;

class GraphWriter {
 public:
  explicit GraphWriter(uint64_t seed) : random_(seed) {}

  std::string Write() {
    const size_t layers = 4 + random_() % 10;
    for (size_t i = 0; i < layers; ++i) {
      const std::string before = OneIn(4) ? Taken() : names_.back();
      OneIn(3) ? AddSum(before) : AddLayer(RandomKind(), before);
      if (OneIn(2)) AddRelu();
    }
    AddSumOfWhatNobodyTakes();
    return text_ + "layers { flatten {} } layers { dense { units: 4 } } " +
           (OneIn(3) ? "layers { batch_normalization {} } layers { activation { function: RELU } } "
                     : "") +
           "loss: SPARSE_CATEGORICAL_CROSSENTROPY metrics: ACCURACY";
  }

 private:
  bool OneIn(unsigned n) { return random_() % n == 0; }

  // One of the last three.
  std::string Taken() {
    return names_[names_.size() - 1 - random_() % std::min<size_t>(names_.size(), 3)];
  }

  std::string RandomKind() {
    const std::string frozen = OneIn(3) ? " trainable: false" : "";
    switch (random_() % 8) {
      case 0:
        return "conv2d { filters: 3 kernel_size: 3 padding: SAME }" + frozen;
      case 1:
        return "conv2d { filters: 3 kernel_size: 1 activation: RELU }" + frozen;
      case 2:
        return "activation { function: TANH }";
      case 3:
        return "dropout { rate: 0.3 }";
      case 4:
        return "reshape { target_shape: [5, 4, 3] }";
      default:
        return "batch_normalization {}" + frozen;
    }
  }

  void Add(const std::string& body) {
    names_.push_back(absl::StrCat("layer", names_.size()));
    absl::StrAppend(&text_, "layers { name: '", names_.back(), "' ", body, " } ");
  }

  void AddLayer(const std::string& kind, const std::string& input) {
    Add(absl::StrCat(kind, " inputs: '", input, "'"));
  }

  void AddSum(const std::string& first) {
    std::string body = absl::StrCat("add {} inputs: '", first, "'");
    for (size_t i = 0; i < 1 + random_() % 2; ++i)
      absl::StrAppend(&body, " inputs: '", Taken(), "'");
    Add(body);
  }

  // What it takes may be taken by others afterwards, but seldom is.
  void AddRelu() {
    const std::string input = names_.back();
    AddLayer("activation { function: RELU }", input);
    if (!OneIn(6)) names_[names_.size() - 2] = names_.back();
  }

  void AddSumOfWhatNobodyTakes() {
    ModelSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text_, &spec)) << text_;
    std::set<std::string> untaken;
    for (const auto& layer : spec.layers()) untaken.insert(layer.name());
    for (const auto& layer : spec.layers()) {
      for (const auto& input : layer.inputs()) untaken.erase(input);
    }
    if (untaken.size() < 2) return;
    std::string body = "add {}";
    for (const std::string& name : untaken) absl::StrAppend(&body, " inputs: '", name, "'");
    Add(body);
    if (OneIn(2)) AddRelu();
  }

  std::mt19937_64 random_;
  std::string text_;
  std::vector<std::string> names_ = {"features"};
};

double LargestOf(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  return largest;
}

void ExpectSameGradients(const ModelPlan& plan, const KeptGradients& actual,
                         const KeptGradients& expected) {
  for (size_t v = 0; v < plan.variables.size(); ++v) {
    std::vector<float> difference = actual.gradient(v);
    for (size_t i = 0; i < difference.size(); ++i) difference[i] -= expected.gradient(v)[i];
    EXPECT_LE(LargestOf(difference), 0.01 * std::max(LargestOf(expected.gradient(v)), 0.01))
        << plan.variables[v].name();
  }
}

TEST(RandomGraphsTest, ComputeWhatTheProcessorDoes) {
  constexpr uint64_t kGraphs = 40;
  cuda_emulation::Reset();
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    const std::string text = GraphWriter(seed).Write();
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", text));
    const ModelPlan plan = PlanOrDie(text, kGraphInput, kGraphClasses);
    auto device = *CudaDevice::Open(TestLibrary(), {}, [](const absl::Status&) {});
    const BatchSizes sizes = {5, seed % 2 == 0 ? size_t{9} : size_t{2}};
    const std::unique_ptr<Model> gpu = *device->Compile(plan, sizes);
    const std::unique_ptr<Model> cpu = *CpuDevice(1).Compile(plan, sizes);
    for (Model* const model : {gpu.get(), cpu.get()}) FillValues(/*seed=*/1, 0.6f, model);
    KeptGradients on_gpu(plan), on_cpu(plan);
    // Batch normalization of one example is all rounding.
    for (const size_t size : {5, 3}) {
      const Batch batch = RandomBatch(size + seed, size, kGraphInput, kGraphClasses);
      const double expected = TrainOrDie(batch, /*seed=*/9, cpu.get(), &on_cpu).loss_sum;
      EXPECT_NEAR(TrainOrDie(batch, /*seed=*/9, gpu.get(), &on_gpu).loss_sum, expected,
                  1e-3 * std::abs(expected));
      ExpectSameGradients(plan, on_gpu, on_cpu);
    }
  }
}

}  // namespace
}  // namespace millrace::worker
