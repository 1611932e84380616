// Variables that several layers use, on several GPUs: their gradients are sums over these layers
// and over the GPUs' parts of the batch. They are compared with the processor's, of a model whose
// layers have variables of their own with equal values.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/substitute.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;
using ::testing::SizeIs;

constexpr size_t kMostExamples = 7;
constexpr int kMostGpusHere = 3;

// Of a variable of the layer 'a' or 'b': what it is called where 'b' has those of 'a'.
std::string SharedName(const std::string& name) {
  return name.compare(0, 2, "b/") == 0 ? "a/" + name.substr(2) : name;
}

ModelPlan PlanLayersOrDie(const std::string& layers, const ExampleSpec& examples) {
  ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      layers + "layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", &spec))
      << layers;
  absl::StatusOr<ModelPlan> plan = PlanModel(spec, examples);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

class SharedVariablesTest : public ::testing::Test {
 protected:
  SharedVariablesTest() {
    cuda_emulation::Reset();
    cuda_emulation::SetDeviceCount(kMostGpusHere);
  }
  ~SharedVariablesTest() override { cuda_emulation::Reset(); }

  static std::unique_ptr<Model> CompileOnGpus(const ModelPlan& plan, int gpus) {
    CudaDeviceOptions options;
    options.gpus.clear();
    for (int i = 0; i < gpus; ++i) options.gpus.push_back(i);
    auto device = CudaDevice::Open(TestLibrary(/*gpus=*/2), options, [](const absl::Status&) {});
    EXPECT_TRUE(device.ok()) << device.status();
    auto model = (*device)->Compile(plan, {kMostExamples, 0});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  // Gives each variable the value of that which it would share.
  static void CopyValues(Model* from, Model* to) {
    std::map<std::string, absl::Span<const float>> values;
    for (size_t v = 0; v < from->variables().size(); ++v) {
      values[from->variables()[v].name()] = from->values(v);
    }
    for (size_t v = 0; v < to->variables().size(); ++v) {
      const absl::Span<const float> value = values.at(SharedName(to->variables()[v].name()));
      std::copy(value.begin(), value.end(), to->values(v).begin());
    }
  }

  static void ExpectSumsOverUses(const ModelPlan& plan, const KeptGradients& actual,
                                 const ModelPlan& apart, const KeptGradients& by_use) {
    std::map<std::string, std::vector<float>> sums;
    for (size_t v = 0; v < apart.variables.size(); ++v) {
      const std::vector<float>& gradient = by_use.gradient(v);
      std::vector<float>& sum = sums[SharedName(apart.variables[v].name())];
      sum.resize(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) sum[i] += gradient[i];
    }
    for (size_t v = 0; v < plan.variables.size(); ++v) {
      const std::string& name = plan.variables[v].name();
      EXPECT_THAT(actual.gradient(v), Pointwise(FloatNear(2e-5f), sums.at(name))) << name;
    }
  }

  // `layers` has layers 'a' and 'b', and $0 where 'b' may say that it has the variables of 'a'.
  static void ExpectGradientsOfASharedModel(const std::string& layers, const ExampleSpec& examples,
                                            const std::vector<Batch>& batches) {
    const ModelPlan plan = PlanLayersOrDie(absl::Substitute(layers, "variables_of: 'a'"), examples);
    const ModelPlan apart = PlanLayersOrDie(absl::Substitute(layers, ""), examples);
    ASSERT_LT(plan.variables.size(), apart.variables.size());
    const std::unique_ptr<Model> cpu = *CpuDevice(1).Compile(apart, {kMostExamples, 0});
    const int most = std::min(kMostGpusHere, TestLibrary(/*gpus=*/2)->GpuCount());
    for (int gpus = 1; gpus <= most; ++gpus) {
      cuda_emulation::SetOrder(static_cast<uint64_t>(gpus));
      const std::unique_ptr<Model> model = CompileOnGpus(plan, gpus);
      FillValues(/*seed=*/1, 0.5f, model.get());
      CopyValues(model.get(), cpu.get());
      for (const Batch& batch : batches) {
        SCOPED_TRACE(::testing::Message() << batch.size << " examples on " << gpus << " GPUs");
        KeptGradients actual(plan);
        KeptGradients by_use(apart);
        const double loss = TrainOrDie(batch, /*seed=*/9, model.get(), &actual).loss_sum;
        EXPECT_NEAR(loss, TrainOrDie(batch, /*seed=*/9, cpu.get(), &by_use).loss_sum, 1e-5 * loss);
        EXPECT_THAT(actual.finished(), SizeIs(plan.variables.size()));
        ExpectSumsOverUses(plan, actual, apart, by_use);
      }
    }
  }

  static std::vector<Batch> BatchesOf(const Shape& shape) {
    std::vector<Batch> batches;
    for (const size_t size : {7, 2, 1, 6}) batches.push_back(RandomBatch(size, size, shape, 4));
    return batches;
  }
};

TEST_F(SharedVariablesTest, OfALayerThatIsCalledTwiceInAChain) {
  const Shape shape = {6};
  ExpectGradientsOfASharedModel(
      "layers { name: 'a' dense { units: 6 activation: TANH } } "
      "layers { name: 'b' dense { units: 6 activation: TANH } $0 } ",
      FloatsAndClass(shape, 4), BatchesOf(shape));
}

TEST_F(SharedVariablesTest, OfAConvolutionThatIsCalledTwice) {
  const Shape shape = {4, 3, 2};
  ExpectGradientsOfASharedModel(
      "layers { name: 'a' conv2d { filters: 2 kernel_size: 3 padding: SAME activation: TANH } } "
      "layers { name: 'b' conv2d { filters: 2 kernel_size: 3 padding: SAME activation: TANH } $0 } "
      "layers { flatten {} } ",
      FloatsAndClass(shape, 4), BatchesOf(shape));
}

TEST_F(SharedVariablesTest, OfALayerThatIsCalledBesideItself) {
  const Shape shape = {6};
  ExpectGradientsOfASharedModel(
      "layers { name: 'a' dense { units: 5 } } "
      "layers { name: 'dropped' dropout { rate: 0.4 } inputs: 'features' } "
      "layers { name: 'b' dense { units: 5 } inputs: 'dropped' $0 } "
      "layers { multiply {} inputs: ['a', 'b'] } ",
      FloatsAndClass(shape, 4), BatchesOf(shape));
}

// Rows that both features ask for, one of them, and none.
TEST_F(SharedVariablesTest, OfATableForTwoFeatures) {
  ExampleSpec examples = FloatsAndClass({}, 4);
  examples.features[0].type = ElementType::kId;
  examples.features[0].limit = 9;
  examples.features[0].ragged = true;
  examples.features.resize(2, examples.features[0]);
  examples.features[0].name = "x";
  examples.features[1].name = "y";
  Batch batch;
  batch.size = 5;
  batch.labels = {IdTensor({0, 3, 1, 2, 0})};
  batch.features.resize(2);
  for (int64_t i = 0; i < 11; ++i) batch.features[0].ids.push_back(i * 7 % 8);
  batch.features[0].ends = {2, 2, 7, 10, 11};
  batch.features[1].ids = {1, 8, 1, 0, 5};
  batch.features[1].ends = {0, 3, 3, 4, 5};
  ExpectGradientsOfASharedModel(
      "layers { name: 'a' embedding { input_dim: 9 output_dim: 5 pooling: MEAN } inputs: 'x' } "
      "layers { name: 'b' embedding { input_dim: 9 output_dim: 5 pooling: SUM } inputs: 'y' $0 } "
      "layers { concatenate {} inputs: ['a', 'b'] } ",
      examples, {batch});
}

}  // namespace
}  // namespace millrace::worker
