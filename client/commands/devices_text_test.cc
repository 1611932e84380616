#include "client/commands/devices_text.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

JobExplanation TwoWorkers() {
  JobExplanation explanation;
  WorkerReport& gpu = *explanation.add_workers();
  gpu.set_name("worker-0");
  gpu.set_device("cuda:0 (NVIDIA H200)");
  gpu.set_steps_done(1200);
  gpu.mutable_device_use()->set_memory(uint64_t{141} << 30);
  gpu.mutable_device_use()->set_memory_used(uint64_t{3} << 30);
  gpu.mutable_device_use()->set_busy(0.755);
  WorkerReport& cpu = *explanation.add_workers();
  cpu.set_name("worker-1");
  cpu.set_device("cpu/2");
  cpu.set_steps_done(40);
  return explanation;
}

TEST(DevicesTextTest, EachWorkerHasALine) {
  EXPECT_EQ(DevicesText(TwoWorkers()),
            "WORKER    ON                    MEMORY              BUSY  STEPS\n"
            "worker-0  cuda:0 (NVIDIA H200)  3.0 GiB of 141 GiB  76%   1,200\n"
            "worker-1  cpu/2                                           40\n");
}

// It looked like one that has done nothing yet.
TEST(DevicesTextTest, OneThatIsGoneSaysSo) {
  JobExplanation explanation = TwoWorkers();
  explanation.mutable_workers(1)->clear_device();
  explanation.mutable_workers(1)->set_trouble("is gone for 90 s");
  EXPECT_EQ(DevicesText(explanation),
            "WORKER    ON                    MEMORY              BUSY  STEPS\n"
            "worker-0  cuda:0 (NVIDIA H200)  3.0 GiB of 141 GiB  76%   1,200\n"
            "worker-1  is gone for 90 s                                40\n");
}

TEST(DevicesTextTest, WithoutDevicesThereIsNothingToSay) {
  JobExplanation explanation;
  EXPECT_EQ(DevicesText(explanation), "");
  explanation.add_workers()->set_name("worker-of-an-older-cluster");
  EXPECT_EQ(DevicesText(explanation), "");
}

TEST(DevicesTextTest, ProgramsGetNumbers) {
  const std::string expected =
      R"j([{"name":"worker-0","device":"cuda:0 (NVIDIA H200)","steps_done":1200,)j"
      R"j("device_memory":151397597184,"device_memory_used":3221225472,"device_busy":0.755},)j"
      R"j({"name":"worker-1","device":"cpu/2","steps_done":40}])j";
  EXPECT_EQ(DevicesJson(TwoWorkers()).dump(), expected);
}

}  // namespace
}  // namespace millrace::client
