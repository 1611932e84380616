#include "testing/chaos/proxy/fault.h"

#include "gtest/gtest.h"

namespace millrace::chaos {
namespace {

constexpr char kPush[] = "/millrace.ParameterServer/Push";
const absl::Time kNow = absl::UnixEpoch();

FaultOptions Always(FaultKind kind) {
  FaultOptions options;
  options.kind = kind;
  options.probability = 1;
  return options;
}

MessageFaults::Fate First(const FaultOptions& options, Direction direction, FaultCounts* counts) {
  return MessageFaults(options, kPush, direction, /*call=*/0, counts).Next(kNow);
}

TEST(MessageFaultsTest, WithoutAFaultAMessagePassesAtOnce) {
  FaultCounts counts;
  const auto fate = First(FaultOptions(), Direction::kRequests, &counts);
  EXPECT_EQ(fate.deliveries, std::vector<absl::Time>{kNow});
  EXPECT_EQ(counts.requests, 1u);
  EXPECT_EQ(counts.faults, 0u);
}

TEST(MessageFaultsTest, ADroppedMessageTakesItsCallWithIt) {
  FaultCounts counts;
  const auto fate = First(Always(FaultKind::kDrop), Direction::kRequests, &counts);
  EXPECT_TRUE(fate.deliveries.empty());
  EXPECT_TRUE(fate.break_call);
  EXPECT_EQ(counts.faults, 1u);
}

TEST(MessageFaultsTest, TheOtherDirectionAndOtherMethodsAreLeftAlone) {
  FaultCounts counts;
  EXPECT_FALSE(First(Always(FaultKind::kDrop), Direction::kReplies, &counts).break_call);
  FaultOptions options = Always(FaultKind::kDrop);
  options.methods = "/millrace.Membership/";
  EXPECT_FALSE(First(options, Direction::kRequests, &counts).break_call);
  EXPECT_EQ(counts.replies, 1u);
  EXPECT_EQ(counts.requests, 1u);
  EXPECT_EQ(counts.faults, 0u);
}

TEST(MessageFaultsTest, ADelayedMessageHoldsUpThoseBehindIt) {
  FaultCounts counts;
  MessageFaults faults(Always(FaultKind::kDelay), kPush, Direction::kRequests, 0, &counts);
  absl::Time before = kNow;
  for (int i = 0; i < 20; ++i) {
    const auto fate = faults.Next(kNow);
    ASSERT_EQ(fate.deliveries.size(), 1u);
    EXPECT_GE(fate.deliveries[0], before);
    EXPECT_LE(fate.deliveries[0], kNow + FaultOptions().longest_delay);
    before = fate.deliveries[0];
  }
  EXPECT_GT(before, kNow);
}

TEST(MessageFaultsTest, ADuplicatedMessageComesAtOnceAndAgain) {
  FaultCounts counts;
  const auto fate = First(Always(FaultKind::kDuplicate), Direction::kRequests, &counts);
  ASSERT_EQ(fate.deliveries.size(), 2u);
  EXPECT_EQ(fate.deliveries[0], kNow);
  EXPECT_GE(fate.deliveries[1], kNow);
}

TEST(MessageFaultsTest, ReorderedMessagesOvertakeOneAnother) {
  FaultCounts counts;
  MessageFaults faults(Always(FaultKind::kReorder), kPush, Direction::kRequests, 0, &counts);
  bool overtaken = false;
  absl::Time before = kNow;
  for (int i = 0; i < 20; ++i) {
    const absl::Time due = faults.Next(kNow).deliveries.at(0);
    overtaken = overtaken || due < before;
    before = due;
  }
  EXPECT_TRUE(overtaken);
}

TEST(MessageFaultsTest, TheSameSeedDoesTheSame) {
  FaultOptions options;
  options.kind = FaultKind::kDelay;
  FaultCounts counts;
  MessageFaults one(options, kPush, Direction::kRequests, 7, &counts);
  MessageFaults other(options, kPush, Direction::kRequests, 7, &counts);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(one.Next(kNow).deliveries, other.Next(kNow).deliveries);
  EXPECT_GT(counts.faults, 20u);
  EXPECT_LT(counts.faults, 80u);
}

}  // namespace
}  // namespace millrace::chaos
