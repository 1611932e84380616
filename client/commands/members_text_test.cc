#include "client/commands/members_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

ListMembersResponse SmallCluster() {
  ListMembersResponse members;
  members.set_coordinator_version("0.1.0 (build 3)");
  members.mutable_coordinator_since()->set_seconds(10'800);
  members.mutable_heartbeat_period()->set_seconds(2);
  MemberReport& ps = *members.add_ps_servers();
  ps.set_name("ps-0");
  ps.set_version("0.1.0 (build 1)");
  ps.mutable_since()->set_seconds(7200);
  ps.mutable_silent()->set_nanos(500'000'000);
  ps.set_draining(true);
  ps.set_address("trainer-0:2221");
  ps.set_directory_id("d-0");
  ps.set_shards(3);
  ps.set_elements(1'234'567);
  MemberReport& gpu = *members.add_workers();
  gpu.set_name("worker-0");
  gpu.set_version("0.1.0 (build 2)");
  gpu.mutable_since()->set_seconds(60);
  gpu.set_device("cuda:0 (NVIDIA H200)");
  gpu.mutable_device_use()->set_memory(uint64_t{141} << 30);
  gpu.mutable_device_use()->set_memory_used(uint64_t{3} << 30);
  gpu.mutable_device_use()->set_busy(0.75);
  gpu.add_job_ids("mnist-1");
  gpu.add_job_ids("resnet-2");
  MemberReport& own = *members.add_workers();
  own.set_name("worker-1");
  own.mutable_since()->set_seconds(12);
  own.mutable_silent()->set_seconds(4);
  own.set_device("cpu/2");
  DepartedMember& absent = *members.add_departed();
  absent.set_name("ps-1");
  absent.set_address("trainer-1:2221");
  absent.set_directory_id("d-1");
  absent.set_shards(2);
  absent.set_elements(1000);
  DepartedMember& gone = *members.add_departed();
  gone.set_name("worker-2");
  gone.set_is_worker(true);
  gone.mutable_since()->set_seconds(300);
  gone.set_reason("the stream broke");
  DepartedMember& stopped = *members.add_departed();
  stopped.set_name("worker-3");
  stopped.set_is_worker(true);
  stopped.mutable_since()->set_seconds(400);
  stopped.set_reason("leaves");
  stopped.set_in_good_order(true);
  return members;
}

TEST(MembersTextTest, EachKindHasATable) {
  EXPECT_EQ(MembersText(SmallCluster()),
            "coordinator 0.1.0 (build 3), for 3 h; 1 ps server, 2 workers\n"
            "\n"
            "PS SERVER  AT              SHARDS  ELEMENTS   HERE FOR  VERSION          TROUBLE\n"
            "ps-0       trainer-0:2221  3       1,234,567  2 h       0.1.0 (build 1)  stops\n"
            "\n"
            "WORKER    ON                    MEMORY              BUSY  JOBS              HERE FOR  "
            "VERSION          TROUBLE\n"
            "worker-0  cuda:0 (NVIDIA H200)  3.0 GiB of 141 GiB  75%   mnist-1 resnet-2  60 s      "
            "0.1.0 (build 2)\n"
            "worker-1  cpu/2                                                             12 s      "
            "                 silent for 4 s\n"
            "\n"
            "GONE      WAS A      AT              SHARDS  FOR    WHY\n"
            "ps-1      ps server  trainer-1:2221  2              is not known\n"
            "worker-2  worker                             5 min  the stream broke\n"
            "worker-3  worker                             6 min  it was stopped\n");
}

TEST(MembersTextTest, ClusterWithoutMembersSaysWhatToStart) {
  ListMembersResponse members;
  members.set_coordinator_version("0.1.0 (build 3)");
  EXPECT_EQ(MembersText(members),
            "coordinator 0.1.0 (build 3), for 0 s; 0 ps servers, 0 workers\n"
            "\n"
            "no ps server is there; start one with `ps --coordinator=HOST:PORT --data_dir=DIR`\n"
            "\n"
            "no worker is there; start one with `worker --coordinator=HOST:PORT`\n");
}

TEST(MembersTextTest, ServersThatAreEvacuatedAreMarked) {
  ListMembersResponse members;
  members.add_ps_servers()->set_name("ps-0");
  members.mutable_ps_servers(0)->set_evacuated(true);
  EXPECT_THAT(MembersText(members), ::testing::HasSubstr(" evacuated\n"));
  EXPECT_THAT(MembersJson(members), ::testing::HasSubstr(R"("evacuated":true)"));
  DepartedMember& gone = *members.add_departed();
  gone.set_evacuated(true);
  EXPECT_THAT(MembersText(members), ::testing::HasSubstr(" evacuated; is not known\n"));
  gone.mutable_since()->set_seconds(9);
  gone.set_in_good_order(true);
  EXPECT_THAT(MembersText(members), ::testing::HasSubstr(" evacuated; it was stopped\n"));
}

// What a server does by itself is more urgent than what is asked of it.
TEST(MembersTextTest, EvacuatedServerThatStopsOrIsSilentSaysThat) {
  ListMembersResponse members;
  members.mutable_heartbeat_period()->set_seconds(2);
  MemberReport& ps = *members.add_ps_servers();
  ps.set_name("ps-0");
  ps.set_evacuated(true);
  ps.set_draining(true);
  EXPECT_THAT(MembersText(members), ::testing::HasSubstr(" stops\n"));
  ps.mutable_silent()->set_seconds(100);
  EXPECT_THAT(MembersText(members), ::testing::HasSubstr(" silent for "));
}

TEST(MembersTextTest, ProgramsGetALineForEach) {
  EXPECT_EQ(MembersJson(SmallCluster()),
            R"j({"role":"coordinator","is_there":true,"version":"0.1.0 (build 3)",)j"
            R"j("here_seconds":10800.0,"heartbeat_period_seconds":2.0})j"
            "\n"
            R"j({"role":"ps","name":"ps-0","is_there":true,"version":"0.1.0 (build 1)",)j"
            R"j("here_seconds":7200.0,"silent_seconds":0.5,"draining":true,"evacuated":false,)j"
            R"j("address":"trainer-0:2221","directory_id":"d-0","shards":3,"elements":1234567})j"
            "\n"
            R"j({"role":"worker","name":"worker-0","is_there":true,"version":"0.1.0 (build 2)",)j"
            R"j("here_seconds":60.0,"silent_seconds":0.0,"draining":false,)j"
            R"j("device":"cuda:0 (NVIDIA H200)","device_memory":151397597184,)j"
            R"j("device_memory_used":3221225472,"device_busy":0.75,"jobs":["mnist-1","resnet-2"]})j"
            "\n"
            R"j({"role":"worker","name":"worker-1","is_there":true,"version":"",)j"
            R"j("here_seconds":12.0,"silent_seconds":4.0,"draining":false,)j"
            R"j("device":"cpu/2","jobs":[]})j"
            "\n"
            R"j({"role":"ps","name":"ps-1","is_there":false,"evacuated":false,)j"
            R"j("address":"trainer-1:2221","directory_id":"d-1","shards":2,"elements":1000})j"
            "\n"
            R"j({"role":"worker","name":"worker-2","is_there":false,"gone_seconds":300.0,)j"
            R"j("reason":"the stream broke","in_good_order":false})j"
            "\n"
            R"j({"role":"worker","name":"worker-3","is_there":false,"gone_seconds":400.0,)j"
            R"j("reason":"leaves","in_good_order":true})j"
            "\n");
}

}  // namespace
}  // namespace millrace::client
