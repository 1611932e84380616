#include "client/commands/why_text.h"

#include "common/proto_duration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace millrace::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

JobExplanation StalledJob() {
  JobExplanation told;
  told.mutable_status()->set_job_id("j-1");
  told.mutable_status()->set_state(RUNNING);
  told.mutable_status()->mutable_time_spent()->mutable_wall()->set_seconds(100);
  told.mutable_status()->mutable_time_spent()->mutable_training()->set_seconds(90);
  told.mutable_status()->mutable_time_spent()->set_goodput(0.9);
  told.set_verdict("worker-1 has had step 17 (version 4) for 34 s");
  Wait& wait = *told.add_waits();
  wait.set_whom("worker-1");
  wait.set_what("to push step 17 to shard 1 on ps-0");
  *wait.mutable_since() = ToProto(absl::Seconds(34));
  WorkerReport& worker = *told.add_workers();
  worker.set_name("worker-1");
  worker.set_steps_done(1200);
  worker.set_share(0.25);
  worker.set_slowness(2.31);
  *worker.mutable_step_time() = ToProto(absl::Milliseconds(123));
  ShardReport& shard = *told.add_shards();
  shard.set_shard(1);
  shard.set_server("ps-0");
  shard.set_version(4);
  for (uint64_t step = 16; step < 30; ++step) shard.add_missing(step);
  told.add_recent()->mutable_notice()->set_message("worker-0 cannot run the job");
  return told;
}

TEST(WhyTextTest, VerdictComesFirstThenTables) {
  const std::string text = WhyText(StalledJob(), absl::UTCTimeZone());
  EXPECT_THAT(text, StartsWith("worker-1 has had step 17 (version 4) for 34 s\n\n"
                               "WAITS FOR  TO                               FOR\n"
                               "worker-1   push step 17 to shard 1 on ps-0  34 s\n"));
  EXPECT_THAT(text, HasSubstr("WORKER    STEPS  SHARE  STEP TIME  SLOWNESS\n"
                              "worker-1  1,200  25%    123 ms     2.3\n"));
  EXPECT_THAT(text, HasSubstr("SHARD  SERVER  VERSION  LACKS STEPS\n"
                              "1      ps-0    4        16 17 18 19 20 21 22 23 ...\n"));
  EXPECT_THAT(text, HasSubstr("00:00:00  worker-0 cannot run the job\n"));
  EXPECT_THAT(text, HasSubstr("spent  1m40s: 90% training; goodput 0.90\n"));
}

TEST(WhyTextTest, NothingButTheVerdictOfAJobThatHasNotBegun) {
  JobExplanation told;
  told.set_verdict("the job waits for its turn\x1b[2J");
  EXPECT_EQ(WhyText(told, absl::UTCTimeZone()), "the job waits for its turn\\x1b[2J\n");
}

TEST(WhyTextTest, NoNumberOfStepsIsMadeUpForWorkersOfAJobThatHasEnded) {
  JobExplanation told;
  told.mutable_status()->set_state(SUCCEEDED);
  told.add_workers()->set_name("worker-1");
  EXPECT_THAT(WhyText(told, absl::UTCTimeZone()), HasSubstr("WORKER    STEPS\nworker-1  -\n"));
}

TEST(WhyTextTest, JsonHasEverything) {
  const auto json = nlohmann::json::parse(WhyJson(StalledJob()));
  EXPECT_EQ(json["verdict"], "worker-1 has had step 17 (version 4) for 34 s");
  EXPECT_EQ(json["waits"][0]["whom"], "worker-1");
  EXPECT_EQ(json["waits"][0]["seconds"], 34);
  EXPECT_EQ(json["workers"][0]["slowness"], 2.31);
  EXPECT_EQ(json["shards"][0]["missing"].size(), 14u);
  EXPECT_EQ(json["recent"][0]["text"], "worker-0 cannot run the job");
  EXPECT_EQ(json["time_spent"]["training"], 90);
  EXPECT_EQ(json["time_spent"]["goodput"], 0.9);
  EXPECT_THAT(WhyJson(StalledJob()), Not(HasSubstr("\n{")));
}

}  // namespace
}  // namespace millrace::client
