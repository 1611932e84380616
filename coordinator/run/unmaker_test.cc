#include "coordinator/run/unmaker.h"

#include "coordinator/run/notices_of.h"
#include "coordinator/run/one_shard_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
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

// There is another server.
class BeginElsewhereTest : public UnmakerTest {
 protected:
  BeginElsewhereTest() {
    other_.Serve();
    Join(other_);
  }

  FakePs other_{"ps-1"};
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

TEST_F(UnmakerTest, WhatIsMadeIsKeptForAWhileForAServerThatIsAway) {
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_THAT(server_.Shards(job_->id()), SizeIs(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(unmaker_.MakeWayInTime(*shards_).value());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value()) << "nothing was made since";
}

TEST_F(UnmakerTest, DisplacedJobIsPlacedNowhere) {
  EXPECT_TRUE(unmaker_.Displace(*shards_, RestoredFrom()).value());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_EQ(job_->record().shards_size(), 0);
}

// It waits for a server since the first call.
TEST_F(BeginElsewhereTest, JobThatAServerHoldsUpForLongBeginsElsewhere) {
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  clock_.Advance(environment_.restore_grace - absl::Seconds(1));
  EXPECT_FALSE(unmaker_.BeginElsewhere(*shards_).value());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(unmaker_.BeginElsewhere(*shards_).value());
  EXPECT_EQ(job_->record().shards_size(), 0);
  EXPECT_TRUE(job_->record().was_placed_elsewhere());
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_TRUE(unmaker_.avoided().Contains(server_.directory_id()));
  EXPECT_FALSE(unmaker_.avoided().Contains(other_.directory_id()));
}

TEST_F(BeginElsewhereTest, JobWhoseServerStaysAwayBeginsElsewhereAndWhatThatHasIsDroppedLater) {
  std::vector<StrayShard> strays;
  environment_.drop_strays = [&strays](const auto& dropped) { strays = dropped; };
  registry_.Remove(1, "it dies");
  EXPECT_NE(shards_->Locate(), "");
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  clock_.Advance(environment_.restore_grace);
  EXPECT_TRUE(unmaker_.BeginElsewhere(*shards_).value());
  EXPECT_EQ(job_->record().shards_size(), 0);
  ASSERT_THAT(strays, SizeIs(1));
  EXPECT_EQ(strays[0].directory_id, server_.directory_id());
  EXPECT_THAT(NoticesOf(*job_),
              Contains(HasSubstr("ps-0 is gone for longer than 2m; the job begins")));
}

TEST_F(BeginElsewhereTest, JobThatWaitedForMemoryMeanwhileWaitsForTheServerOnce) {
  EXPECT_FALSE(unmaker_.MakeWayInTime(*shards_).value());
  clock_.Advance(environment_.restore_grace);
  EXPECT_FALSE(unmaker_.MakeWay(*shards_, NoMemory()).value());
  EXPECT_FALSE(unmaker_.BeginElsewhere(*shards_).value());
}

TEST_F(BeginElsewhereTest, JobStaysWhereItIsWhileTheOthersCannotBeCalled) {
  other_.Kill();
  unmaker_.MakeWayInTime(*shards_).IgnoreError();
  clock_.Advance(environment_.restore_grace);
  EXPECT_FALSE(unmaker_.BeginElsewhere(*shards_).value());
  EXPECT_EQ(job_->record().shards_size(), 1);
}

TEST_F(BeginElsewhereTest, JobStaysWhereItIsWhileThereAreTooFewOthers) {
  environment_.min_ps = 3;
  unmaker_.MakeWayInTime(*shards_).IgnoreError();
  clock_.Advance(environment_.restore_grace);
  EXPECT_FALSE(unmaker_.BeginElsewhere(*shards_).value());
  EXPECT_EQ(job_->record().shards_size(), 1);
}

}  // namespace
}  // namespace millrace::coordinator
