#include "coordinator/checkpoint/background_call.h"

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/testing/gate.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

TEST(BackgroundCallTest, TellsWhenItHasEnded) {
  int result = 0;
  Gate told;
  const BackgroundCall call([&] { result = 17; }, [&] { told.Open(); });
  told.Pass();
  ASSERT_TRUE(call.AwaitFor(absl::Seconds(60)));
  EXPECT_TRUE(call.status().ok());
  EXPECT_TRUE(call.HasEnded());
  EXPECT_EQ(result, 17);
}

TEST(BackgroundCallTest, NobodyWaitsForOneThatHangsNorIsToldOfItsEnd) {
  const auto gate = std::make_shared<Gate>();
  const auto ended = std::make_shared<Gate>();
  {
    const BackgroundCall call(
        [gate, ended] {
          gate->Pass();
          ended->Open();
        },
        [] { ADD_FAILURE() << "told"; });
    gate->AwaitSomebody();
    EXPECT_FALSE(call.AwaitFor(absl::ZeroDuration()));
    EXPECT_FALSE(call.HasEnded());
  }
  gate->Open();
  ended->Pass();
}

// It was made here, and whoever must not block hung with it.
TEST(BackgroundCallTest, OneForWhichThereIsNoThreadIsNotMadeAndHasEnded) {
  bool told = false;
  const BackgroundCall call([] { ADD_FAILURE() << "made"; }, [&] { told = true; },
                            [](const std::function<void()>&) -> absl::StatusOr<std::thread> {
                              return absl::ResourceExhaustedError("no memory");
                            });
  EXPECT_EQ(call.status(), absl::UnavailableError(
                               "the coordinator has no thread to work on files with (no memory)"));
  EXPECT_TRUE(told);
  EXPECT_TRUE(call.HasEnded());
  EXPECT_TRUE(call.AwaitFor(absl::ZeroDuration()));
}

}  // namespace
}  // namespace millrace::coordinator
