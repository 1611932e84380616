#include "worker/training/pull_under_way.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace millrace::worker {
namespace {

class CancelCount final : public ParameterClient::StartedPull {
 public:
  absl::Status Wait(absl::Time /*deadline*/) override { return absl::OkStatus(); }
  void Cancel() override { ++cancels; }

  int cancels = 0;
};

TEST(PullUnderWayTest, PullThatIsUnderWayIsCalledOff) {
  CancelCount pull;
  PullUnderWay under_way;
  under_way.Begin(&pull, 7);
  EXPECT_EQ(under_way.step(), 7u);
  EXPECT_FALSE(under_way.called_off());
  under_way.CallOff();
  EXPECT_EQ(pull.cancels, 1);
  EXPECT_TRUE(under_way.called_off());
}

TEST(PullUnderWayTest, WhereNothingIsPulledNothingIsCalledOff) {
  CancelCount pull;
  PullUnderWay under_way;
  under_way.CallOff();
  EXPECT_FALSE(under_way.called_off()) << "none has begun";
  under_way.Begin(nullptr, 7);
  under_way.CallOff();
  EXPECT_FALSE(under_way.called_off()) << "the step has nothing to pull";
  under_way.Begin(&pull, 7);
  under_way.End();
  under_way.CallOff();
  EXPECT_FALSE(under_way.called_off()) << "it has ended";
  EXPECT_EQ(pull.cancels, 0);
}

TEST(PullUnderWayTest, EvaluationsAndIdleLoopsPullForNoStep) {
  CancelCount pull;
  PullUnderWay under_way;
  EXPECT_FALSE(under_way.step().has_value());
  under_way.Begin(&pull, absl::nullopt);
  EXPECT_FALSE(under_way.step().has_value());
  under_way.Begin(&pull, 7);
  under_way.End();
  EXPECT_FALSE(under_way.step().has_value());
}

TEST(PullUnderWayTest, WorkThatWasCalledOffIsSoUntilTheNext) {
  CancelCount pull;
  PullUnderWay under_way;
  under_way.Begin(&pull, 7);
  under_way.CallOff();
  under_way.End();
  EXPECT_TRUE(under_way.called_off());
  under_way.Forget();
  EXPECT_FALSE(under_way.called_off());
  under_way.CallOffBefore();
  EXPECT_TRUE(under_way.called_off());
}

}  // namespace
}  // namespace millrace::worker
