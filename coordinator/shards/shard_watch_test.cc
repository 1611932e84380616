#include "coordinator/shards/shard_watch.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr uint64_t kWatchedGeneration = 5;
constexpr uint64_t kWatchedEpoch = 2;

JobRecord JobOfTwoShards() {
  JobRecord record;
  record.add_shards()->set_server("ps-0");
  record.add_shards()->set_server("ps-1");
  return record;
}

std::vector<ShardStatus> TwoShards(uint64_t version = 0) {
  std::vector<ShardStatus> shards(2);
  for (uint32_t shard = 0; shard < shards.size(); ++shard) {
    shards[shard].set_shard(shard);
    shards[shard].set_generation(kWatchedGeneration);
    shards[shard].set_epoch(kWatchedEpoch);
    shards[shard].set_version(version);
  }
  return shards;
}

// Two shards that are polled at second 0; the second one's answers are the tests'.
class ShardWatchTest : public testing::Test {
 protected:
  ShardWatchTest() {
    watch_.Start(kWatchedGeneration, kWatchedEpoch, TwoShards());
    watch_.Begin(absl::UnixEpoch());
  }

  static absl::Time At(int64_t second) { return absl::FromUnixSeconds(second); }

  static ShardGroup::Poll Answered(uint64_t version = 1) {
    return {{absl::OkStatus(), absl::OkStatus()}, TwoShards(version)};
  }
  static ShardGroup::Poll SecondFails(absl::Status error) {
    return {{absl::OkStatus(), std::move(error)}, {TwoShards(1)[0], ShardStatus()}};
  }
  std::string WhyNotOurs(const ShardGroup::Poll& poll) const {
    return watch_.WhyNotOurs(poll, servers_);
  }

  ShardServers servers_{JobOfTwoShards(), /*registry=*/nullptr};
  ShardWatch watch_;
};

TEST_F(ShardWatchTest, PollThatWasBegunBeforeSaysNothing) {
  EXPECT_TRUE(watch_.has_begun());
  watch_.Start(kWatchedGeneration + 1, kWatchedEpoch, TwoShards());
  EXPECT_FALSE(watch_.has_begun());
  watch_.Begin(absl::UnixEpoch());
  EXPECT_TRUE(watch_.has_begun());
  EXPECT_FALSE(ShardWatch().has_begun());
}

// What was of another generation, or before we stood still, is no trouble in a row with this one.
TEST_F(ShardWatchTest, OneIsUnservedSinceThisGenerationBeganAndWeWatchedWithoutABreak) {
  const absl::Status error = absl::UnavailableError("nobody listens");
  watch_.NoteAnswers(SecondFails(error), At(1));
  watch_.NoteAnswers(SecondFails(error), At(20));
  ASSERT_TRUE(watch_.UnservedLongest());
  EXPECT_EQ(watch_.UnservedLongest()->shard, 1u);
  EXPECT_EQ(watch_.UnservedLongest()->since, At(1));
  EXPECT_EQ(watch_.UnservedLongest()->last, At(20));
  watch_.NoteAnswers(SecondFails(error), At(60));
  EXPECT_EQ(watch_.UnservedLongest()->since, At(60));
  watch_.Start(kWatchedGeneration + 1, kWatchedEpoch, TwoShards());
  EXPECT_FALSE(watch_.UnservedLongest());
}

TEST_F(ShardWatchTest, OneThatDoesNotAnswerHidesNoneThatIsNotOurs) {
  ShardGroup::Poll poll = Answered();
  poll.errors[0] = absl::UnavailableError("nobody listens");
  EXPECT_EQ(WhyNotOurs(poll), "");
  poll.shards[1].set_generation(kWatchedGeneration + 4);
  EXPECT_EQ(WhyNotOurs(poll),
            "shard 1 on ps-1 is at generation 9, which this coordinator did not set");
}

TEST_F(ShardWatchTest, NewsAreWhatShardsSaidLast) {
  EXPECT_EQ(watch_.news()[1].status->version(), 0u) << "when training began";
  EXPECT_TRUE(watch_.NoteAnswers(Answered(/*version=*/7), At(1)));
  EXPECT_EQ(watch_.news()[1].status->version(), 7u);
  EXPECT_TRUE(watch_.NoteAnswers(SecondFails(absl::UnavailableError("gone")), At(1)));
  EXPECT_EQ(watch_.news()[1].status->version(), 7u) << "the last that it said";
  EXPECT_EQ(watch_.news()[1].error, "gone");
  EXPECT_EQ(watch_.news()[1].silent_since, absl::UnixEpoch());
  EXPECT_TRUE(watch_.NoteAnswers(Answered(), At(1)));
  EXPECT_EQ(watch_.news()[1].error, "");
  EXPECT_EQ(watch_.news()[1].silent_since, absl::InfiniteFuture());
}

TEST_F(ShardWatchTest, ShardIsSilentSinceThePollThatItDidNotAnswer) {
  EXPECT_FALSE(watch_.NoteUnanswered({1}, At(1))) << "too soon to tell";
  EXPECT_TRUE(watch_.NoteUnanswered({1}, At(2)));
  EXPECT_EQ(watch_.news()[1].silent_since, absl::UnixEpoch());
  EXPECT_EQ(watch_.news()[0].silent_since, absl::InfiniteFuture());
  watch_.Begin(At(10));
  EXPECT_TRUE(watch_.NoteUnanswered({1}, At(12)));
  EXPECT_EQ(watch_.news()[1].silent_since, absl::UnixEpoch()) << "still";
}

TEST_F(ShardWatchTest, ShardIsSilentLongestOnlyASecondAfterThatWasNoticed) {
  EXPECT_TRUE(watch_.NoteUnanswered({1}, At(100)));
  EXPECT_FALSE(watch_.SilentLongest(At(100))) << "the coordinator may have stood still itself";
  EXPECT_TRUE(watch_.NoteUnanswered({1}, At(101)));
  EXPECT_THAT(watch_.SilentLongest(At(101)), Optional(1)) << "it was noticed before";
}

TEST_F(ShardWatchTest, ShardIsUnservedSinceTheFirstOfThePollsInWhichItCouldNotBeCalled) {
  EXPECT_TRUE(watch_.NoteAnswers(SecondFails(absl::UnavailableError("gone")), At(10)));
  EXPECT_TRUE(watch_.NoteAnswers(SecondFails(absl::UnavailableError("gone")), At(20)));
  ASSERT_TRUE(watch_.UnservedLongest());
  EXPECT_EQ(watch_.UnservedLongest()->shard, 1u);
  EXPECT_EQ(watch_.UnservedLongest()->since, At(10));
  EXPECT_EQ(watch_.UnservedLongest()->last, At(20));
  EXPECT_TRUE(watch_.NoteAnswers(SecondFails(absl::DeadlineExceededError("slow")), At(30)));
  EXPECT_FALSE(watch_.UnservedLongest()) << "it could be called";
  EXPECT_TRUE(watch_.NoteAnswers(SecondFails(absl::UnavailableError("gone")), At(40)));
  EXPECT_EQ(watch_.UnservedLongest()->since, At(40));
  EXPECT_TRUE(watch_.NoteAnswers(Answered(), At(50)));
  EXPECT_FALSE(watch_.UnservedLongest());
}

TEST_F(ShardWatchTest, ShardThatWasNoticedFirstIsSilentLongest) {
  EXPECT_TRUE(watch_.NoteUnanswered({1}, At(100)));
  EXPECT_TRUE(watch_.NoteUnanswered({0, 1}, At(101)));
  EXPECT_THAT(watch_.SilentLongest(At(110)), Optional(1));
  ShardGroup::Poll poll = Answered();
  poll.errors[0] = absl::UnavailableError("gone");
  EXPECT_TRUE(watch_.NoteAnswers(poll, At(110)));
  EXPECT_THAT(watch_.SilentLongest(At(110)), Optional(0)) << "the other one has answered";
}

TEST_F(ShardWatchTest, AnErrorIsNoAnswerButAnAnswerIs) {
  const ShardGroup::Poll fails = SecondFails(absl::UnavailableError("gone"));
  EXPECT_TRUE(watch_.NoteAnswers(fails, At(1)));
  EXPECT_THAT(watch_.SilentLongest(At(3)), Optional(1));
  EXPECT_TRUE(watch_.NoteAnswers(Answered(), At(4)));
  EXPECT_FALSE(watch_.SilentLongest(At(100)));
  EXPECT_TRUE(watch_.NoteAnswers(fails, At(100)));
  EXPECT_FALSE(watch_.SilentLongest(At(100))) << "noticed anew";
}

TEST_F(ShardWatchTest, WhereTrainingBeginsAnewNoneIsSilent) {
  EXPECT_TRUE(watch_.NoteUnanswered({1}, At(100)));
  watch_.Start(kWatchedGeneration + 1, kWatchedEpoch, TwoShards());
  EXPECT_FALSE(watch_.SilentLongest(At(200)));
}

TEST_F(ShardWatchTest, CancelledPollIsNoNews) {
  const ShardGroup::Poll poll = SecondFails(absl::CancelledError("the job ends"));
  EXPECT_FALSE(watch_.NoteAnswers(poll, At(1)));
  EXPECT_FALSE(watch_.TakeWarnings(poll, servers_).has_value());
  EXPECT_EQ(watch_.news()[1].error, "");
}

TEST_F(ShardWatchTest, PeopleAreWarnedOfShardsThatFailTwiceInARow) {
  const ShardGroup::Poll fails = SecondFails(absl::UnavailableError("gone"));
  EXPECT_THAT(*watch_.TakeWarnings(fails, servers_), IsEmpty()) << "it may be started again";
  EXPECT_THAT(*watch_.TakeWarnings(fails, servers_),
              UnorderedElementsAre(Pair("shard 1 on ps-1", "gone")));
  EXPECT_THAT(*watch_.TakeWarnings(Answered(), servers_), IsEmpty());
  EXPECT_THAT(*watch_.TakeWarnings(fails, servers_), IsEmpty()) << "not in a row";
}

TEST_F(ShardWatchTest, TroubleOfAServerIsTold) {
  ShardGroup::Poll poll = Answered();
  poll.shards[0].set_trouble("disk\rfull");
  EXPECT_THAT(*watch_.TakeWarnings(poll, servers_),
              UnorderedElementsAre(Pair("ps-0", "disk\\x0dfull")));
}

TEST_F(ShardWatchTest, ShardsThatAreWhatTheyWereAreOurs) {
  EXPECT_EQ(WhyNotOurs(Answered()), "");
  EXPECT_EQ(WhyNotOurs(SecondFails(absl::UnavailableError("gone"))), "") << "nobody knows";
}

TEST_F(ShardWatchTest, ShardsThatSomebodyElseHasChangedAreNotOurs) {
  ShardGroup::Poll poll = Answered();
  poll.shards[1].set_generation(9);
  EXPECT_EQ(WhyNotOurs(poll),
            "shard 1 on ps-1 is at generation 9, which this coordinator did not set");
  poll = Answered();
  poll.shards[1].set_epoch(3);
  EXPECT_EQ(WhyNotOurs(poll), "shard 1 on ps-1 is in epoch 3, not 2");
  poll = Answered();
  poll.shards[1].set_closed(true);
  EXPECT_THAT(WhyNotOurs(poll), testing::StartsWith("shard 1 on ps-1 was made anew"));
}

TEST_F(ShardWatchTest, ShardThatIsNotThereIsNotOurs) {
  EXPECT_EQ(WhyNotOurs(SecondFails(absl::NotFoundError("no shard 1"))), "no shard 1");
  EXPECT_EQ(WhyNotOurs(SecondFails(absl::FailedPreconditionError("generation"))), "generation");
}

TEST_F(ShardWatchTest, EpochsMeanNothingToAnAsynchronousJob) {
  watch_.Start(kWatchedGeneration, absl::nullopt, TwoShards());
  ShardGroup::Poll poll = Answered();
  poll.shards[1].set_epoch(3);
  EXPECT_EQ(WhyNotOurs(poll), "");
}

}  // namespace
}  // namespace millrace::coordinator
