#include "coordinator/run/mover.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/run/notices_of.h"
#include "coordinator/run/one_shard_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Beside the shard's server there is another one. Looks at the shard take no time.
class MoverTest : public OneShardFixture {
 protected:
  MoverTest() : mover_(job_.get(), &environment_, &inbox_, reporter_.get(), tries_.get()) {
    other_.Serve();
    Join(other_);
  }

  // The shard's server does not do what it is asked, in a look that takes so long.
  bool LeaveAfterAFailure(absl::Duration takes = absl::ZeroDuration()) {
    server_.set_on_get([] { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk"); });
    const absl::Time began = clock_.Now();
    EXPECT_THAT(shards_->Get().status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(shards_->unserved(), ElementsAre(0));
    clock_.Advance(takes);
    mover_.NoteUnserved(*shards_, began);
    return mover_.Leave(*shards_).value();
  }

  // The same again and again, for as long as this.
  bool LeaveAfterFailuresFor(absl::Duration time) {
    for (const absl::Time end = clock_.Now() + time; clock_.Now() < end;) {
      if (LeaveAfterAFailure()) return true;
      clock_.Advance(absl::Seconds(30));
    }
    return LeaveAfterAFailure();
  }

  void ExpectPlacedNowhere() {
    EXPECT_EQ(job_->record().shards_size(), 0);
    EXPECT_TRUE(job_->record().was_placed_elsewhere());
  }

  FakePs other_{"ps-1"};
  Mover mover_;
};

TEST_F(MoverTest, ServerThatDoesNotServeANewJobForLongIsLeft) {
  EXPECT_FALSE(LeaveAfterFailuresFor(environment_.restore_grace - absl::Seconds(30)));
  EXPECT_EQ(job_->record().shards_size(), 1);
  EXPECT_TRUE(environment_.memory_turn->Take(job_->id()));
  clock_.Advance(absl::Seconds(30));
  EXPECT_TRUE(LeaveAfterAFailure());
  ExpectPlacedNowhere();
  EXPECT_TRUE(environment_.memory_turn->Take("another")) << "it has made nothing any more";
  EXPECT_THAT(server_.Shards(job_->id()), IsEmpty());
  EXPECT_TRUE(mover_.avoided().Contains(server_.directory_id()));
  EXPECT_FALSE(mover_.avoided().Contains(other_.directory_id()));
  EXPECT_THAT(NoticesOf(*job_),
              Contains("shard 0 on ps-0 is not served for 2m; the job begins on other servers"));
}

// It was left for one failure, long after another one.
TEST_F(MoverTest, ServerThatFailsNowAndThenIsNotLeft) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(LeaveAfterAFailure());
    clock_.Advance(environment_.restore_grace);
  }
}

// Others read for long in each of these looks, and it was never left.
TEST_F(MoverTest, ServerThatFailsInLongLooksInARowIsLeft) {
  EXPECT_FALSE(LeaveAfterAFailure(/*takes=*/environment_.restore_grace));
  clock_.Advance(absl::Seconds(30));
  EXPECT_TRUE(LeaveAfterAFailure(/*takes=*/environment_.restore_grace));
}

TEST_F(MoverTest, ServerThatStaysAwayIsLeftAndWhatItHasIsDroppedLater) {
  std::vector<StrayShard> strays;
  environment_.drop_strays = [&strays](const auto& dropped) { strays = dropped; };
  registry_.Remove(1, "it dies");
  EXPECT_NE(shards_->Locate(), "");
  for (int i = 0; i < 4; ++i) {
    mover_.NoteMissing(*shards_, clock_.Now());
    EXPECT_FALSE(mover_.Leave(*shards_).value());
    clock_.Advance(environment_.restore_grace / 4);
  }
  mover_.NoteMissing(*shards_, clock_.Now());
  EXPECT_TRUE(mover_.Leave(*shards_).value());
  ExpectPlacedNowhere();
  ASSERT_THAT(strays, SizeIs(1));
  EXPECT_EQ(strays[0].directory_id, server_.directory_id());
  EXPECT_THAT(NoticesOf(*job_), Contains("ps-0 is gone for 2m; the job begins on other servers"));
}

TEST_F(MoverTest, JobStaysWhereItIsWhileTheOthersCannotBeCalled) {
  other_.Kill();
  EXPECT_FALSE(LeaveAfterFailuresFor(environment_.restore_grace));
  EXPECT_EQ(job_->record().shards_size(), 1);
}

TEST_F(MoverTest, JobStaysWhereItIsWhileThereAreTooFewOthers) {
  environment_.min_ps = 3;
  EXPECT_FALSE(LeaveAfterFailuresFor(environment_.restore_grace));
  EXPECT_EQ(job_->record().shards_size(), 1);
}

// It was moved between two servers without a pause.
TEST_F(MoverTest, EachMoveHasAGraceOfItsOwnAndAPauseBeforeIt) {
  EXPECT_TRUE(LeaveAfterFailuresFor(environment_.restore_grace));
  EXPECT_FALSE(LeaveAfterAFailure());
  EXPECT_FALSE(LeaveAfterFailuresFor(environment_.restore_grace - absl::Seconds(30)));
}

// It failed, or waited for the memory of one server beside another that was empty.
class NoRoomTest : public MoverTest {
 protected:
  void MarkPlacedElsewhere() {
    ASSERT_TRUE(
        job_->Update([](JobRecord& record) { record.set_was_placed_elsewhere(true); }).ok());
  }

  const absl::Status no_room_ = absl::InvalidArgumentError("needs more than the server has");
};

TEST_F(NoRoomTest, JobWhereItWasPlacedFirstStaysAndEnds) {
  EXPECT_FALSE(mover_.TakeMoreServers(*shards_).value());
  EXPECT_FALSE(mover_.MayFindRoom(no_room_));
}

TEST_F(NoRoomTest, JobThatWasMovedTakesMoreServersOnceTheyAreThere) {
  MarkPlacedElsewhere();
  EXPECT_TRUE(mover_.TakeMoreServers(*shards_).value());
  ExpectPlacedNowhere();
  EXPECT_THAT(NoticesOf(*job_), Contains(HasSubstr("and ps-1 is there; it is placed again")));
  clock_.Advance(absl::Hours(1));
  EXPECT_FALSE(mover_.TakeMoreServers(*shards_).value()) << "they are the same ones";
  FakePs third("ps-2");
  third.Serve();
  Join(third);
  clock_.Advance(absl::Hours(1));
  EXPECT_TRUE(mover_.TakeMoreServers(*shards_).value());
}

TEST_F(NoRoomTest, JobThatWasMovedWaitsForRoomForAWhile) {
  MarkPlacedElsewhere();
  EXPECT_TRUE(mover_.MayFindRoom(no_room_));
  clock_.Advance(environment_.member_timeout - absl::Seconds(1));
  EXPECT_TRUE(mover_.MayFindRoom(no_room_));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(mover_.MayFindRoom(no_room_));
}

}  // namespace
}  // namespace millrace::coordinator
