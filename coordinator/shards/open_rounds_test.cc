#include "coordinator/shards/open_rounds.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<CallRound> RoundOf(size_t calls) {
  return std::make_shared<CallRound>(calls, absl::Minutes(1));
}

TEST(OpenRoundsTest, NoneIsTakenInBetweenCancelAndResume) {
  OpenRounds rounds;
  EXPECT_TRUE(rounds.Add(RoundOf(1)));
  rounds.Cancel();
  EXPECT_FALSE(rounds.Add(RoundOf(1)));
  rounds.Resume();
  EXPECT_TRUE(rounds.Add(RoundOf(1)));
}

TEST(OpenRoundsTest, RoundGoesWithItsOwner) {
  OpenRounds rounds;
  auto gone = RoundOf(1);
  const auto stays = RoundOf(1);
  const std::weak_ptr<CallRound> lives = gone;
  rounds.Add(gone);
  rounds.Add(stays);
  gone->Done(0, grpc::Status::OK);
  gone.reset();
  EXPECT_TRUE(lives.expired());
  rounds.Cancel();
  EXPECT_EQ(stays.use_count(), 1);
}

TEST(OpenRoundsTest, RoundTellsWhichCallsAreOpen) {
  const auto round = RoundOf(3);
  round->Done(1, grpc::Status::OK);
  EXPECT_THAT(round->Open(), ElementsAre(0u, 2u));
  round->Done(0, grpc::Status::CANCELLED);
  round->Done(2, grpc::Status::OK);
  EXPECT_THAT(round->Open(), IsEmpty());
}

}  // namespace
}  // namespace millrace::coordinator
