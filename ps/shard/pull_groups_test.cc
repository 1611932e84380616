#include "ps/shard/pull_groups.h"

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace millrace::ps {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

PullRequest Part(uint64_t group, uint32_t part, uint32_t parts) {
  PullRequest request;
  request.set_pull_group(group);
  request.set_part(part);
  request.set_parts(parts);
  return request;
}

StatePtr MakeState() { return std::make_shared<ShardState>(); }

TEST(PullGroupsTest, PartsAreOfOneState) {
  PullGroups groups;
  const StatePtr first = MakeState();
  const StatePtr second = MakeState();
  EXPECT_EQ(*groups.Find(Part(1, 0, 2), first, kStart), first);
  EXPECT_EQ(*groups.Find(Part(2, 1, 2), second, kStart), second);
  EXPECT_EQ(*groups.Find(Part(1, 1, 2), second, kStart), first);
  EXPECT_EQ(*groups.Find(Part(2, 0, 2), first, kStart), second);
  EXPECT_TRUE(groups.empty());
}

TEST(PullGroupsTest, PartThatIsAskedForAgainIsOfTheSameStateWhileTheGroupLasts) {
  PullGroups groups;
  const StatePtr first = MakeState();
  EXPECT_EQ(*groups.Find(Part(1, 0, 2), first, kStart), first);
  EXPECT_EQ(*groups.Find(Part(1, 0, 2), MakeState(), kStart), first);
  EXPECT_EQ(*groups.Find(Part(1, 1, 2), MakeState(), kStart), first);
  EXPECT_EQ(groups.Find(Part(1, 1, 2), MakeState(), kStart).status().code(),
            absl::StatusCode::kAborted);
}

TEST(PullGroupsTest, GroupEndsInTime) {
  PullGroups groups;
  std::vector<StatePtr> released;
  ASSERT_TRUE(groups.Find(Part(1, 0, 2), MakeState(), kStart).ok());
  groups.End(kStart, &released);
  EXPECT_EQ(released.size(), 0);
  groups.End(kStart + absl::Seconds(1), &released);
  EXPECT_EQ(released.size(), 1);
  EXPECT_EQ(groups.Find(Part(1, 1, 2), MakeState(), kStart).status().code(),
            absl::StatusCode::kAborted);
}

TEST(PullGroupsTest, NumberOfPartsIsTheSameForAll) {
  PullGroups groups;
  ASSERT_TRUE(groups.Find(Part(1, 0, 2), MakeState(), kStart).ok());
  EXPECT_EQ(groups.Find(Part(1, 1, 3), MakeState(), kStart).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PullGroupsTest, OpenGroupsAreBounded) {
  PullGroups groups;
  const StatePtr first = MakeState();
  ASSERT_TRUE(groups.Find(Part(1, 0, 3), first, kStart).ok());
  absl::Status status;
  for (uint64_t number = 2; number < 100'000 && status.ok(); ++number) {
    status = groups.Find(Part(number, 0, 2), MakeState(), kStart).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(*groups.Find(Part(1, 1, 3), MakeState(), kStart), first) << "it had begun";
}

TEST(PullGroupsTest, GroupsThatAreOverMakeRoomForOthers) {
  PullGroups groups;
  for (uint64_t number = 1; number < 10'000; ++number) {
    ASSERT_TRUE(groups.Find(Part(number, 0, 2), MakeState(), kStart).ok()) << number;
    std::vector<StatePtr> released;
    groups.EndAll(&released);
    ASSERT_EQ(released.size(), 1);
    ASSERT_TRUE(groups.empty());
  }
}

TEST(PullGroupsTest, RemembersGroupsThatAreOverForAWhile) {
  PullGroups groups;
  for (uint64_t number = 1; number <= 10'000; ++number) {
    ASSERT_TRUE(groups.Find(Part(number, 0, 1), MakeState(), kStart).ok());
  }
  EXPECT_TRUE(absl::IsAborted(groups.Find(Part(8000, 0, 1), MakeState(), kStart).status()));
  for (const uint64_t number : {1, 2}) {
    EXPECT_TRUE(groups.Find(Part(number, 0, 1), MakeState(), kStart).ok())
        << "or it would grow for ever";
  }
}

}  // namespace
}  // namespace millrace::ps
