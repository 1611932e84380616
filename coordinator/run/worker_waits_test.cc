#include "coordinator/run/worker_waits.h"

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/proto_duration.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr WorkerWaitsLimits kLimits = {absl::Seconds(3), absl::Minutes(10)};
const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

// A worker that told a second ago what it had been doing for `since`.
MemberNews Worker(Activity::Kind kind, absl::Duration since, absl::optional<uint32_t> shard = {},
                  const std::string& job = "job") {
  MemberNews news;
  news.is_worker = true;
  news.told = kNow - absl::Seconds(1);
  Activity activity;
  activity.set_job_id(job);
  activity.set_kind(kind);
  *activity.mutable_since() = ToProto(since);
  if (shard) activity.set_shard(*shard);
  news.activities.push_back(activity);
  return news;
}

// Shard 0 is on the server "a", shard 1 on "b".
bool WaitFor(const std::string& server, const std::vector<MemberNews>& members) {
  std::vector<ShardPlacement> placements(2);
  placements[0].set_directory_id("a");
  placements[1].set_directory_id("b");
  return WorkersWaitFor(server, "job", placements, members, kNow, kLimits);
}

TEST(WorkerWaitsTest, WhoPullsFromAServerOrPushesToItForLongWaitsForIt) {
  EXPECT_TRUE(WaitFor("b", {Worker(Activity::PULLING, absl::Seconds(2), 1)}));
  EXPECT_TRUE(WaitFor("b", {Worker(Activity::PUSHING, absl::Seconds(2), 1)}));
  EXPECT_FALSE(WaitFor("b", {Worker(Activity::PUSHING, absl::Seconds(1), 1)}));
  EXPECT_FALSE(WaitFor("a", {Worker(Activity::PUSHING, absl::Seconds(2), 1)}));
  EXPECT_FALSE(WaitFor("b", {Worker(Activity::PUSHING, absl::Seconds(2))}));
  EXPECT_FALSE(WaitFor("b", {Worker(Activity::PUSHING, absl::Seconds(2), 2)})) << "no such shard";
  EXPECT_FALSE(WaitFor("b", {Worker(Activity::PUSHING, absl::Seconds(2), 1, "other")}));
  EXPECT_FALSE(WaitFor("b", {}));
}

TEST(WorkerWaitsTest, NobodyIsWaitedForWhileAWorkerIsAtWork) {
  const MemberNews waits = Worker(Activity::PUSHING, absl::Minutes(1), 1);
  for (const Activity::Kind kind : {Activity::READING, Activity::COMPUTING}) {
    EXPECT_FALSE(WaitFor("b", {waits, Worker(kind, absl::Minutes(9))}));
    EXPECT_TRUE(WaitFor("b", {waits, Worker(kind, absl::Minutes(1), {}, "other")}));
  }
}

// One that hung in its data kept a server that nobody could reach from being given up.
TEST(WorkerWaitsTest, WhoHangsIsNotAtWork) {
  const MemberNews waits = Worker(Activity::PUSHING, absl::Minutes(1), 1);
  for (const Activity::Kind kind : {Activity::READING, Activity::COMPUTING}) {
    EXPECT_TRUE(WaitFor("b", {Worker(kind, absl::Minutes(10)), waits}));
  }
  EXPECT_TRUE(WaitFor("b", {Worker(Activity::PREPARING, absl::Seconds(1)), waits}));
}

}  // namespace
}  // namespace millrace::coordinator
