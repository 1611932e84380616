#include "worker/device/cuda/device_state.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

using ::testing::ElementsAre;

const absl::Status kBurnt = absl::UnavailableError("burnt");

// Keeps what it is told.
class Told {
 public:
  DeviceLost Listener() {
    return [this](const absl::Status& why) {
      MutexLock lock(&mutex_);
      told_.push_back(why);
      changed_.SignalAll();
    };
  }

  std::vector<absl::Status> Await() {
    MutexLock lock(&mutex_);
    while (told_.empty()) changed_.Wait(&mutex_);
    return told_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<absl::Status> told_;
};

TEST(DeviceStateTest, AllAreToldOfALossOnce) {
  DeviceState state("cuda:0", absl::Hours(1));
  Told early;
  Told late;
  state.AddListener(early.Listener());
  EXPECT_FALSE(state.lost());
  state.Lose(kBurnt);
  EXPECT_TRUE(state.lost());
  state.Lose(absl::UnavailableError("and drowned"));
  state.AddListener(late.Listener());
  EXPECT_THAT(early.Await(), ElementsAre(kBurnt));
  EXPECT_THAT(late.Await(), ElementsAre(kBurnt));
  EXPECT_FALSE(state.hangs());
}

TEST(DeviceStateTest, ACallThatDoesNotReturnIsAHang) {
  DeviceState state("cuda:1", absl::Milliseconds(8));
  Told told;
  state.AddListener(told.Listener());
  {
    const DeviceState::Call call(&state, "launches a step", state.timeout());
    EXPECT_FALSE(state.AwaitCalls(absl::ZeroDuration()));
    EXPECT_THAT(told.Await(), ElementsAre(absl::UnavailableError(
                                  "cuda:1: a call of CUDA that launches a step has not returned "
                                  "within 0.008 s")));
  }
  EXPECT_TRUE(state.hangs());
  EXPECT_TRUE(state.lost());
  EXPECT_TRUE(state.AwaitCalls(absl::Hours(1)));
}

// The older one would be told of first, were both asked for the same.
TEST(DeviceStateTest, MakingAModelMayTakeLongerThanAStep) {
  DeviceState state("cuda:0", absl::Milliseconds(8));
  Told told;
  state.AddListener(told.Listener());
  const DeviceState::Call making(&state, "makes a model", state.making_timeout());
  const DeviceState::Call step(&state, "launches a step", state.timeout());
  EXPECT_THAT(told.Await(), ElementsAre(absl::UnavailableError(
                                "cuda:0: a call of CUDA that launches a step has not returned "
                                "within 0.008 s")));
}

TEST(DeviceStateTest, AModelThatIsNotMadeInItsTimeIsAHang) {
  DeviceState state("cuda:0", absl::Milliseconds(1), absl::Milliseconds(8));
  Told told;
  state.AddListener(told.Listener());
  const DeviceState::Call call(&state, "makes a model", state.making_timeout());
  EXPECT_THAT(told.Await(), ElementsAre(absl::UnavailableError(
                                "cuda:0: a call of CUDA that makes a model has not returned "
                                "within 0.008 s")));
}

TEST(DeviceStateTest, MakingAModelMayTakeTheTimeoutIfThatIsLonger) {
  EXPECT_EQ(DeviceState("cuda:0", absl::Seconds(3)).making_timeout(), kLeastMakingTimeout);
  EXPECT_EQ(DeviceState("cuda:0", absl::Hours(3)).making_timeout(), absl::Hours(3));
}

TEST(DeviceStateTest, CallsThatReturnAreNone) {
  DeviceState state("cuda:0", absl::Hours(1));
  { const DeviceState::Call call(&state, "launches a step", state.timeout()); }
  const DeviceState::Call call(&state, "launches a step", state.timeout());
  EXPECT_FALSE(state.hangs());
}

TEST(DeviceStateTest, DevicesOfOneNameShareAState) {
  SharedGpus gpus;
  const auto first = gpus.Of("cuda:0", absl::Seconds(3));
  EXPECT_EQ(gpus.Of("cuda:0", absl::Seconds(5)), first);
  EXPECT_NE(gpus.Of("cuda:1", absl::Seconds(5)), first);
  EXPECT_EQ(first->timeout(), absl::Seconds(3));
  EXPECT_EQ(first->making_timeout(), kLeastMakingTimeout);
}

}  // namespace
}  // namespace millrace::worker
