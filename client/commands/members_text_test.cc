#include "client/commands/members_text.h"

#include "gtest/gtest.h"

namespace millrace::client {
namespace {

ListMembersResponse SmallCluster() {
  ListMembersResponse members;
  members.set_coordinator_version("0.1.0 (build 3)");
  MemberReport& ps = *members.add_ps_servers();
  ps.set_name("ps-0");
  ps.set_version("0.1.0 (build 1)");
  ps.mutable_since()->set_seconds(7200);
  ps.mutable_silent()->set_nanos(500'000'000);
  ps.set_address("trainer-0:2221");
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
  own.set_device("cpu/2");
  DepartedMember& gone = *members.add_departed();
  gone.set_name("worker-2");
  gone.set_is_worker(true);
  gone.mutable_since()->set_seconds(300);
  gone.set_reason("the stream broke");
  return members;
}

TEST(MembersTextTest, EachKindHasATable) {
  EXPECT_EQ(MembersText(SmallCluster()),
            "coordinator 0.1.0 (build 3)\n"
            "\n"
            "PS SERVER  AT              SHARDS  ELEMENTS   HERE FOR  VERSION\n"
            "ps-0       trainer-0:2221  3       1,234,567  2 h       0.1.0 (build 1)\n"
            "\n"
            "WORKER    ON                    MEMORY              BUSY  JOBS              HERE FOR  "
            "VERSION\n"
            "worker-0  cuda:0 (NVIDIA H200)  3.0 GiB of 141 GiB  75%   mnist-1 resnet-2  60 s      "
            "0.1.0 (build 2)\n"
            "worker-1  cpu/2                                                             12 s\n"
            "\n"
            "GONE      WAS A   FOR    WHY\n"
            "worker-2  worker  5 min  the stream broke\n");
}

TEST(MembersTextTest, ClusterWithoutMembersSaysWhatToStart) {
  ListMembersResponse members;
  members.set_coordinator_version("0.1.0 (build 3)");
  EXPECT_EQ(MembersText(members),
            "coordinator 0.1.0 (build 3)\n"
            "\n"
            "no ps server is there; start one with `ps --coordinator=HOST:PORT --data_dir=DIR`\n"
            "\n"
            "no worker is there; start one with `worker --coordinator=HOST:PORT`\n");
}

TEST(MembersTextTest, ProgramsGetALineForEach) {
  EXPECT_EQ(
      MembersJson(SmallCluster()),
      R"j({"role":"coordinator","version":"0.1.0 (build 3)","is_there":true})j"
      "\n"
      R"j({"role":"ps","name":"ps-0","version":"0.1.0 (build 1)","is_there":true,"seconds":7200.0,)j"
      R"j("silent_seconds":0.5,"address":"trainer-0:2221","shards":3,"elements":1234567})j"
      "\n"
      R"j({"role":"worker","name":"worker-0","version":"0.1.0 (build 2)","is_there":true,)j"
      R"j("seconds":60.0,"silent_seconds":0.0,"device":"cuda:0 (NVIDIA H200)",)j"
      R"j("device_memory":151397597184,"device_memory_used":3221225472,"device_busy":0.75,)j"
      R"j("jobs":["mnist-1","resnet-2"]})j"
      "\n"
      R"j({"role":"worker","name":"worker-1","version":"","is_there":true,"seconds":12.0,)j"
      R"j("silent_seconds":0.0,"device":"cpu/2","jobs":[]})j"
      "\n"
      R"j({"role":"worker","name":"worker-2","is_there":false,"seconds":300.0,)j"
      R"j("reason":"the stream broke"})j"
      "\n");
}

}  // namespace
}  // namespace millrace::client
