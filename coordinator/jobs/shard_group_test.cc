#include "coordinator/jobs/shard_group.h"

#include <memory>

#include "common/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

constexpr int kGroups = 3000;

class SilentLink final : public MemberLink {
 public:
  void Send(const CoordinatorMessage& /*message*/) override {}
  void Close(const absl::Status& /*status*/) override {}
};

// gRPC's threads of callbacks end with the last channel, and must not be the ones that let go of
// it: they would wait for themselves. It was up to chance which thread let go of it when a job
// ended, and with it its group, just after a call; gRPC aborted the process for it.
TEST(ShardGroupTest, GroupGoesRightAfterACallOverAndOverAgain) {
  SimulatedClock clock;
  MemberRegistry registry(absl::Hours(1), &clock);
  RegisterPs ps;
  ps.set_name("ps-0");
  ps.set_directory_id("d0");
  ps.set_address("127.0.0.1:1");  // Nobody listens there.
  ASSERT_TRUE(registry.AddPs(ps, std::make_shared<SilentLink>()).ok());
  JobRecord record;
  record.set_state(RUNNING);
  ShardPlacement& shard = *record.add_shards();
  shard.set_directory_id("d0");
  shard.set_server("ps-0");
  shard.set_address(ps.address());
  for (int i = 0; i < kGroups; ++i) {
    ShardGroup group(record, &registry);
    ASSERT_EQ(group.Locate(), "");
    ASSERT_TRUE(absl::IsUnavailable(group.Drop(/*generation=*/1)));
  }
}

}  // namespace
}  // namespace millrace::coordinator
