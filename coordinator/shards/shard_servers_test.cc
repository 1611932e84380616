#include "coordinator/shards/shard_servers.h"

#include <memory>
#include <string>

#include "common/clock.h"
#include "coordinator/membership/silent_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A job with a shard in each of the directories "d0" and "d1", which were served as ps-0 and ps-1.
JobRecord JobOfTwoServers() {
  JobRecord record;
  record.set_state(RUNNING);
  for (const char* number : {"0", "1"}) {
    ShardPlacement& shard = *record.add_shards();
    shard.set_directory_id(std::string("d") + number);
    shard.set_server(std::string("ps-") + number);
    shard.set_address(std::string("127.0.0.1:222") + number);
  }
  return record;
}

class ShardServersTest : public testing::Test {
 protected:
  uint64_t Join(const std::string& name, const std::string& directory, const std::string& address) {
    RegisterPs ps;
    ps.set_name(name);
    ps.set_directory_id(directory);
    ps.set_address(address);
    ps.set_incarnation(++incarnation_);
    return registry_.AddPs(ps, std::make_shared<SilentLink>()).value();
  }
  uint64_t JoinAsBefore(int shard) {
    const JobRecord record = JobOfTwoServers();
    const ShardPlacement& placement = record.shards(shard);
    return Join(placement.server(), placement.directory_id(), placement.address());
  }

  SimulatedClock clock_;
  MemberRegistry registry_{absl::Seconds(2), &clock_};
  ShardServers servers_{JobOfTwoServers(), &registry_};
  uint64_t incarnation_ = 0;
};

TEST_F(ShardServersTest, BeforeTheyAreLocatedNoneIsThere) {
  JoinAsBefore(0);
  EXPECT_FALSE(servers_.IsLocated(0));
  EXPECT_FALSE(servers_.IsThere(0));
  EXPECT_EQ(servers_.Moved(), "ps-0, ps-1");
}

TEST_F(ShardServersTest, ServersThatAreGoneAreNamed) {
  JoinAsBefore(0);
  EXPECT_EQ(servers_.Locate(), "ps-1 (127.0.0.1:2221), gone");
  EXPECT_THAT(servers_.missing(), SizeIs(1));
  EXPECT_FALSE(servers_.only_directories_are_lost());
  EXPECT_TRUE(servers_.IsLocated(0));
  EXPECT_FALSE(servers_.IsLocated(1));
  JoinAsBefore(1);
  EXPECT_EQ(servers_.Locate(), "");
  EXPECT_THAT(servers_.missing(), IsEmpty());
  EXPECT_EQ(servers_.Moved(), "");
}

TEST_F(ShardServersTest, ShardThatIsDroppedIsNotMissed) {
  JobRecord record = JobOfTwoServers();
  record.mutable_shards(1)->set_dropped(true);
  JoinAsBefore(0);
  ShardServers servers(record, &registry_);
  EXPECT_EQ(servers.Locate(), "");
  EXPECT_TRUE(servers.IsLocated(0));
  EXPECT_FALSE(servers.IsLocated(1));
}

TEST_F(ShardServersTest, ShardIsWhereItsDirectoryIsServed) {
  JoinAsBefore(0);
  Join("ps-new", "d1", "127.0.0.1:9999");
  EXPECT_EQ(servers_.Locate(), "");
  EXPECT_EQ(servers_.NameOf(1), "shard 1 on ps-new");
  EXPECT_EQ(servers_.DescribeServer(1), "ps-new (127.0.0.1:9999)");
  const Routing routing = servers_.RoutingAt(5);
  EXPECT_EQ(routing.generation(), 5u);
  ASSERT_EQ(routing.shards_size(), 2);
  EXPECT_EQ(routing.shards(1).shard(), 1u);
  EXPECT_EQ(routing.shards(1).address(), "127.0.0.1:9999");
}

TEST_F(ShardServersTest, ServerThatIsBackWithoutItsDirectoryHasLostIt) {
  JoinAsBefore(0);
  const uint64_t another = Join("ps-1", "another", "127.0.0.1:9999");
  EXPECT_EQ(servers_.Locate(),
            "ps-1 (127.0.0.1:2221), which is back with another data directory (start it on its old "
            "one, or cancel the job)");
  EXPECT_TRUE(servers_.HasLostDirectory(1));
  EXPECT_FALSE(servers_.HasLostDirectory(0));
  EXPECT_TRUE(servers_.only_directories_are_lost());
  registry_.Remove(another, "it stops");
  JoinAsBefore(1);
  EXPECT_EQ(servers_.Locate(), "");
  EXPECT_FALSE(servers_.HasLostDirectory(1)) << "it is back";
}

TEST_F(ShardServersTest, WhereAnotherIsGoneNotOnlyDirectoriesAreLost) {
  Join("ps-1", "another", "127.0.0.1:9999");
  EXPECT_THAT(servers_.Locate(), HasSubstr("ps-0 (127.0.0.1:2220), gone, ps-1"));
  EXPECT_FALSE(servers_.only_directories_are_lost());
  JoinAsBefore(0);
  servers_.Locate();
  EXPECT_TRUE(servers_.only_directories_are_lost());
}

TEST_F(ShardServersTest, JobThatHasEndedIsNotToBeCancelled) {
  JobRecord record = JobOfTwoServers();
  record.set_state(SUCCEEDED);
  Join("ps-1", "another", "127.0.0.1:9999");
  ShardServers ended(record, &registry_);
  EXPECT_THAT(ended.Locate(), HasSubstr("(start it on its old one)"));
  record.mutable_checkpoint()->set_directory("/c");
  record.mutable_checkpoint()->set_number(7);
  ShardServers saved(record, &registry_);
  const std::string missing = saved.Locate();
  EXPECT_THAT(missing, HasSubstr("or take its last checkpoint: millrace checkpoints export /c/"));
  EXPECT_THAT(missing, Not(HasSubstr("cancel")));
}

TEST_F(ShardServersTest, ServerThatWasStartedAgainHasMoved) {
  const uint64_t first = JoinAsBefore(0);
  JoinAsBefore(1);
  servers_.Locate();
  EXPECT_FALSE(servers_.HasMoved(0)) << "found for the first time";
  registry_.Remove(first, "killed");
  EXPECT_EQ(servers_.Moved(), "ps-0");
  JoinAsBefore(0);
  EXPECT_EQ(servers_.Moved(), "ps-0") << "it is another one";
  EXPECT_FALSE(servers_.IsThere(0));
  EXPECT_EQ(servers_.Locate(), "");
  EXPECT_TRUE(servers_.IsThere(0));
  EXPECT_TRUE(servers_.HasMoved(0));
  EXPECT_FALSE(servers_.HasMoved(1));
  servers_.ForgetMoves();
  servers_.Locate();
  EXPECT_FALSE(servers_.HasMoved(0));
}

}  // namespace
}  // namespace millrace::coordinator
