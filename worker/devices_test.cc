#include "worker/devices.h"

#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/numerics.h"

namespace millrace::worker {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<cuda::Library*> NoLibrary() {
  return absl::UnavailableError("the CUDA library cannot be loaded: no such file");
}

absl::StatusOr<std::shared_ptr<Device>> OpenWithoutCuda(const std::string& name) {
  return OpenDevice(
      {.name = name, .threads = 2}, [](const absl::Status&) {}, NoLibrary);
}

TEST(DevicesTest, AutoIsTheProcessorWhereThereIsNoCuda) {
  for (const std::string name : {"auto", "cpu"}) {
    const auto device = OpenWithoutCuda(name);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ((*device)->name(), "cpu");
    EXPECT_EQ((*device)->description(), absl::StrCat("cpu/2 (", CpuInstructionSet(), ")"));
  }
}

TEST(DevicesTest, AGpuThatIsNamedMustBeThere) {
  for (const std::string name : {"cuda", "cuda:1", "cuda:0,1", "cuda:3,0,2"}) {
    EXPECT_EQ(OpenWithoutCuda(name).status(),
              absl::UnavailableError("device: the CUDA library cannot be loaded: no such file; "
                                     "--device=cpu does without a GPU"));
  }
}

// A worker whose GPU's driver hung was there, and never joined.
TEST(DevicesTest, AGpuThatIsNotOpenedInTimeIsAnErrorAlsoOfAuto) {
  for (const std::string name : {"cuda:1", "auto"}) {
    const auto opens = std::make_shared<std::promise<void>>();
    const DeviceOptions options = {.name = name, .opening_timeout = absl::Milliseconds(1)};
    const absl::Status status = OpenDevice(
                                    options, [](const absl::Status&) {},
                                    [opens]() -> absl::StatusOr<cuda::Library*> {
                                      opens->get_future().wait();
                                      return NoLibrary();
                                    })
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()), HasSubstr(" was not opened in 1ms"));
    opens->set_value();
  }
}

TEST(DevicesTest, OtherNamesAreRefused) {
  for (const std::string name :
       {"", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:a", "cuda:0,", "cuda:,0", "cuda:0,,1",
        "cuda:0,0", "cuda:1,-1", "cuda0", "cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"}) {
    const absl::Status expected = absl::InvalidArgumentError(
        absl::StrCat("device: '", name,
                     "'; must be auto, cpu, cuda, or cuda: with the numbers of up to 16 GPUs, each "
                     "once, such as cuda:0 or cuda:0,1"));
    EXPECT_EQ(CheckDeviceName(name), expected);
    EXPECT_EQ(OpenWithoutCuda(name).status(), expected);
  }
}

}  // namespace
}  // namespace millrace::worker
