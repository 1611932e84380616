#include "coordinator/checkpoint/background_call.h"

#include <memory>

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

}  // namespace
}  // namespace millrace::coordinator
