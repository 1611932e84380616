#include "coordinator/run/unmaker.h"

#include "coordinator/run/one_shard_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Status& NoMemory() {
  static const auto* const status = new absl::Status(absl::ResourceExhaustedError("no memory"));
  return *status;
}

class UnmakerTest : public OneShardFixture {
 protected:
  UnmakerTest() : unmaker_(job_.get(), &environment_, &inbox_, reporter_.get(), tries_.get()) {
    unmaker_.Begin();
  }

  Unmaker unmaker_;
};

TEST_F(UnmakerTest, JobThatHasTheTurnForMemoryKeepsWhatItHasMade) {
  EXPECT_FALSE(unmaker_.MakeWay(*shards_, NoMemory()).value());
  EXPECT_THAT(server_.Shards(job_->id()), SizeIs(1));
  EXPECT_EQ(tries_->generation(), 4u);
}

TEST_F(UnmakerTest, JobWithoutTheTurnGivesUpWhatItHasMadeAndGoesOnInANewGeneration) {
  environment_.memory_turn->Take("another job");
  EXPECT_TRUE(unmaker_.MakeWay(*shards_, NoMemory()).value());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_EQ(tries_->generation(), 5u);
}

// They have steps that nothing else has.
TEST_F(UnmakerTest, RunningJobKeepsTheShardsThatAreNotToBeMade) {
  ASSERT_TRUE(job_->SetState(RUNNING, "").ok());
  environment_.memory_turn->Take("another job");
  EXPECT_TRUE(unmaker_.MakeWay(*shards_, NoMemory()).value());
  EXPECT_THAT(server_.Shards(job_->id()), SizeIs(1));
}

TEST_F(UnmakerTest, WhatCannotBeDroppedIsTriedAgainLater) {
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  clock_.Advance(absl::Seconds(10));
  server_.set_on_drop([] { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk"); });
  EXPECT_TRUE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_EQ(tries_->generation(), 5u) << "the call may arrive yet";
  server_.set_on_drop(nullptr);
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_THAT(server_.Shards(job_->id()), SizeIs(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
}

TEST_F(UnmakerTest, WhatIsMadeIsKeptForAWhileForAServerThatIsAway) {
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_THAT(server_.Shards(job_->id()), SizeIs(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value()) << "nothing was made since";
  clock_.Advance(absl::Minutes(1));
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
}

TEST_F(UnmakerTest, DisplacedJobIsPlacedNowhere) {
  EXPECT_TRUE(unmaker_.Displace(*shards_, RestoredFrom()).value());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_EQ(job_->record().shards_size(), 0);
}

}  // namespace
}  // namespace millrace::coordinator
