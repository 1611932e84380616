#include "worker/device/cpu/numerics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/model_tests/model_test_util.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;

TEST(NumericsTest, ThreadsMakeADifference) {
  EXPECT_EQ(CpuNumerics(2), CpuNumerics(2));
  EXPECT_NE(CpuNumerics(1), CpuNumerics(2));
  EXPECT_THAT(CpuNumerics(1), HasSubstr("cpu, 1 thread, oneDNN "));
}

// Less than the processor has, as ONEDNN_MAX_CPU_ISA asks for. Only a process that has not computed
// anything yet can choose, so it is chosen in a process of the test's own.
TEST(NumericsDeathTest, InstructionSetIsTheOneThatIsUsed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const bool chosen = dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41) == dnnl::status::success;
        const bool told = CpuNumerics(1).find(" on sse41,") != std::string::npos;
        _exit(chosen && told ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(NumericsTest, ModelSaysHowItComputes) {
  const ModelPlan plan = PlanOrDie(R"pb(
                                     layers { dense { units: 2 } }
                                     loss: SPARSE_CATEGORICAL_CROSSENTROPY
                                   )pb",
                                   {3}, 2);
  CpuDevice device(2);
  const auto model = device.Compile(plan, {.train = 1});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->numerics(), CpuNumerics(2));
}

}  // namespace
}  // namespace millrace::worker
