// Which gradients leave a GPU together, and what that costs the graph of a step.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/cuda_emulation/control.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_gradients.h"
#include "worker/device/cuda/test_library.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class GradientGroupsTest : public ::testing::Test {
 protected:
  GradientGroupsTest() { cuda_emulation::Reset(); }
  ~GradientGroupsTest() override { cuda_emulation::Reset(); }
  void SetUp() override { MILLRACE_NEEDS_EMULATION(); }

  std::unique_ptr<Model> Compile(const ModelPlan& plan, absl::Duration timeout = absl::Seconds(1)) {
    CudaDeviceOptions options;
    options.timeout = timeout;
    auto device = *CudaDevice::Open(TestLibrary(), options, [](const absl::Status&) {});
    auto model = *device->Compile(plan, {1, 0});
    FillValues(/*seed=*/1, 0.1f, model.get());
    return model;
  }
};

std::string Convolution(const std::string& name, const std::string& input, int filters, int size,
                        int strides) {
  return absl::StrCat("layers { name: '", name, "' inputs: '", input,
                      "' conv2d { filters: ", filters, " kernel_size: ", size,
                      " strides: ", strides, " padding: SAME no_bias: true } } layers { name: '",
                      name, "_norm' batch_normalization {} }");
}

std::string Relu(const std::string& name) {
  return absl::StrCat("layers { name: '", name, "' activation { function: RELU } }");
}

// As in examples/cifar10_resnet.textproto, which is made for larger images.
std::string ResNet20() {
  std::string text =
      "layers { conv2d { filters: 16 kernel_size: 3 padding: SAME no_bias: true } } "
      "layers { batch_normalization {} }" +
      Relu("stem");
  std::string input = "stem";
  for (const int filters : {16, 32, 64}) {
    for (int block = 1; block <= 3; ++block) {
      const std::string name = absl::StrCat("block_", filters, "_", block);
      const bool narrows = filters > 16 && block == 1;
      std::string shortcut = input;
      absl::StrAppend(&text, Convolution(name + "_1", input, filters, 3, narrows ? 2 : 1),
                      Relu(name + "_relu"),
                      Convolution(name + "_2", name + "_relu", filters, 3, 1));
      if (narrows) {
        shortcut = name + "_shortcut_norm";
        absl::StrAppend(&text, Convolution(name + "_shortcut", input, filters, 1, 2));
      }
      absl::StrAppend(&text, "layers { name: '", name, "_add' inputs: ['", name, "_2_norm', '",
                      shortcut, "'] add {} }", Relu(name));
      input = name;
    }
  }
  return text +
         "layers { global_average_pooling2d {} } layers { dense { units: 10 } } "
         "loss: SPARSE_CATEGORICAL_CROSSENTROPY";
}

// Beside its kernels a step has copies of the outputs and of the losses, and for each group of
// gradients its own, which are neighbours, and a copy and an event that tell that it is there.
TEST_F(GradientGroupsTest, AResidualNetworksGraphsHaveFewNodesThatAreNoKernels) {
  const ModelPlan plan = PlanOrDie(ResNet20(), {8, 8, 3}, 10);
  size_t bytes = 0;
  for (const VariableSpec& variable : plan.variables) {
    const auto& shape = variable.shape();
    bytes += ElementCount({shape.begin(), shape.end()}) * sizeof(float);
  }
  ASSERT_THAT(plan.variables, SizeIs(107));
  const size_t most_groups = bytes / CudaGradients::kGroupBytes + 1;
  const cuda_emulation::Counts before = cuda_emulation::Counted();
  Compile(plan);
  const cuda_emulation::Counts after = cuda_emulation::Counted();
  const uint64_t kernels = after.launches - before.launches;
  EXPECT_LE(after.graph_nodes - before.graph_nodes - kernels, 3 * most_groups + 2);
}

TEST_F(GradientGroupsTest, RegularizersOfAGroupAreOneKernel) {
  const auto kernels = [&](const std::string& regularizer) {
    std::string layers;
    for (int i = 0; i < 5; ++i) {
      absl::StrAppend(&layers, "layers { dense { units: 4 ", regularizer, " } }");
    }
    const ModelPlan plan = PlanOrDie(layers + "loss: SPARSE_CATEGORICAL_CROSSENTROPY", {8}, 4);
    const std::unique_ptr<Model> model = Compile(plan);
    KeptGradients gradients(plan);
    const uint64_t before = cuda_emulation::Counted().kernels;
    TrainOrDie(RandomBatch(1, 1, {8}, 4), 1, model.get(), &gradients);
    return cuda_emulation::Counted().kernels - before;
  };
  EXPECT_EQ(kernels("kernel_regularizer { l2: 0.1 } bias_regularizer { l1: 0.1 }"),
            kernels("") + 1);
}

// However many groups its bytes would make, it is one.
TEST_F(GradientGroupsTest, ALargeGradientTakesAsManyEventsAsASmallOne) {
  const auto events = [&](uint64_t rows) {
    const size_t before = cuda_emulation::InUse().events;
    const std::unique_ptr<Model> model = Compile(PlanOrDie(
        "layers { dense { units: 4 no_bias: true } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", {rows},
        4));
    return cuda_emulation::InUse().events - before;
  };
  EXPECT_EQ(events(CudaGradients::kGroupBytes), events(8));
}

// But for the number of the step, which comes with them, the gradients of the step before would be
// taken for its own.
TEST_F(GradientGroupsTest, AnEventThatSpeaksOfTheStepBeforeIsNotBelieved) {
  const ModelPlan plan =
      PlanOrDie("layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", {8}, 4);
  const std::unique_ptr<Model> model = Compile(plan);
  const Batch batch = RandomBatch(1, 1, {8}, 4);
  KeptGradients expected(plan);
  TrainOrDie(batch, 1, model.get(), &expected);
  cuda_emulation::SetLateRecords(true);
  for (const uint64_t order : {0, 1, 2, 3}) {
    cuda_emulation::SetOrder(order);
    KeptGradients gradients(plan);
    TrainOrDie(RandomBatch(2, 1, {8}, 4), 1, model.get(), &gradients);
    EXPECT_NE(gradients.gradients(), expected.gradients());
    TrainOrDie(batch, 1, model.get(), &gradients);
    EXPECT_EQ(gradients.gradients(), expected.gradients()) << order;
  }
}

// Once it was told as a step that takes too long: what the event said was believed, and then only
// the number of the step looked at, which did not come.
TEST_F(GradientGroupsTest, AFaultIsToldWhereTheEventSpeaksOfTheStepBefore) {
  const ModelPlan plan =
      PlanOrDie("layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY", {8}, 4);
  const std::unique_ptr<Model> model = Compile(plan, absl::Minutes(1));
  const Batch batch = RandomBatch(1, 1, {8}, 4);
  KeptGradients gradients(plan);
  const uint64_t before = cuda_emulation::Counted().kernels;
  TrainOrDie(batch, 1, model.get(), &gradients);
  const auto last = static_cast<int>(cuda_emulation::Counted().kernels - before);
  cuda_emulation::SetLateRecords(true);
  KeptGradients late(plan);
  TrainOrDie(batch, 1, model.get(), &late);
  EXPECT_EQ(late.gradients(), gradients.gradients());
  cuda_emulation::FailKernel(last);
  const absl::Status status = model->Train(batch, 1, &late).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
}

// The pass never ends, since its last kernel does not. Behind that one runs another, which looks at
// the last group.
TEST_F(GradientGroupsTest, ALargeGradientLeavesBeforeThePassEndsAndSmallOnesBeforeItWithIt) {
  const ModelPlan plan = PlanOrDie(
      "layers { dense { units: 1024 activation: RELU } } layers { dense { units: 64 } } "
      "layers { dense { units: 4 } } loss: SPARSE_CATEGORICAL_CROSSENTROPY",
      {8}, 4);
  const std::unique_ptr<Model> model = Compile(plan);
  KeptGradients gradients(plan);
  const uint64_t before = cuda_emulation::Counted().kernels;
  TrainOrDie(RandomBatch(1, 1, {8}, 4), 1, model.get(), &gradients);
  EXPECT_THAT(gradients.finished(), ElementsAre(5, 4, 3, 2, 1, 0));
  cuda_emulation::HangKernel(static_cast<int>(cuda_emulation::Counted().kernels - before) - 1);
  KeptGradients early(plan);
  EXPECT_EQ(model->Train(RandomBatch(1, 1, {8}, 4), 1, &early).status(),
            absl::UnavailableError("cuda:0: has not finished a step within 1 s"));
  EXPECT_THAT(early.finished(), ElementsAre(5, 4, 3, 2));
  for (const size_t v : {5, 4, 3, 2}) EXPECT_EQ(early.gradient(v), gradients.gradient(v)) << v;
}

}  // namespace
}  // namespace millrace::worker
