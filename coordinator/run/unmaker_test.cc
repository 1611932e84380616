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
class LeaveTest : public UnmakerTest {
 protected:
  LeaveTest() {
    other_.Serve();
    Join(other_);
  }

  // The calls of shard 0 fail so.
  bool LeaveFailed(absl::StatusCode code = absl::StatusCode::kUnavailable) {
    return unmaker_.LeaveFailed(*shards_, absl::Status(code, "")).value();
  }

  // The same again and again, for as long as this.
  bool LeaveFailedFor(absl::Duration time) {
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;) {
      if (LeaveFailed()) return true;
      clock_.Advance(absl::Seconds(30));
    }
    return LeaveFailed();
  }

  void ExpectPlacedNowhere() {
    EXPECT_EQ(job_->record().shards_size(), 0);
    EXPECT_TRUE(job_->record().was_placed_elsewhere());
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

TEST_F(LeaveTest, ServerThatDoesNotServeANewJobForLongIsLeft) {
  EXPECT_FALSE(LeaveFailedFor(environment_.restore_grace - absl::Seconds(30)));
  EXPECT_EQ(job_->record().shards_size(), 1);
  clock_.Advance(absl::Seconds(30));
  EXPECT_TRUE(LeaveFailed());
  ExpectPlacedNowhere();
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_TRUE(unmaker_.avoided().Contains(server_.directory_id()));
  EXPECT_FALSE(unmaker_.avoided().Contains(other_.directory_id()));
}

// It was left for one failure, long after another one.
TEST_F(LeaveTest, ServerThatFailsNowAndThenIsNotLeft) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(LeaveFailed());
    clock_.Advance(environment_.restore_grace);
  }
}

TEST_F(LeaveTest, ServerThatWasGivenAllTheTimeThatACallHasIsLeftAtOnce) {
  EXPECT_TRUE(LeaveFailed(absl::StatusCode::kDeadlineExceeded));
  ExpectPlacedNowhere();
}

TEST_F(LeaveTest, ServerThatStaysAwayIsLeftAndWhatItHasIsDroppedLater) {
  std::vector<StrayShard> strays;
  environment_.drop_strays = [&strays](const auto& dropped) { strays = dropped; };
  registry_.Remove(1, "it dies");
  EXPECT_NE(shards_->Locate(), "");
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(unmaker_.LeaveMissing(*shards_).value());
    clock_.Advance(environment_.restore_grace / 4);
  }
  EXPECT_TRUE(unmaker_.LeaveMissing(*shards_).value());
  ExpectPlacedNowhere();
  ASSERT_THAT(strays, SizeIs(1));
  EXPECT_EQ(strays[0].directory_id, server_.directory_id());
  EXPECT_THAT(NoticesOf(*job_),
              Contains(HasSubstr("ps-0 is gone for longer than 2m; the job begins")));
}

TEST_F(LeaveTest, JobStaysWhereItIsWhileTheOthersCannotBeCalled) {
  other_.Kill();
  EXPECT_FALSE(LeaveFailedFor(environment_.restore_grace));
  EXPECT_EQ(job_->record().shards_size(), 1);
}

TEST_F(LeaveTest, JobStaysWhereItIsWhileThereAreTooFewOthers) {
  environment_.min_ps = 3;
  EXPECT_FALSE(LeaveFailedFor(environment_.restore_grace));
  EXPECT_EQ(job_->record().shards_size(), 1);
}

// It failed, or waited for the memory of one server beside another that was empty.
TEST_F(LeaveTest, JobWithoutRoomWhereItWentTakesMoreServers) {
  for (const auto code :
       {absl::StatusCode::kResourceExhausted, absl::StatusCode::kInvalidArgument}) {
    EXPECT_FALSE(LeaveFailed(code)) << "it is where it was placed first";
  }
  ASSERT_TRUE(job_->Update([](JobRecord& record) { record.set_was_placed_elsewhere(true); }).ok());
  EXPECT_TRUE(LeaveFailed(absl::StatusCode::kResourceExhausted));
  ExpectPlacedNowhere();
  EXPECT_THAT(NoticesOf(*job_), Contains(HasSubstr("and ps-1 is there; the job begins on all")));
}

}  // namespace
}  // namespace millrace::coordinator
