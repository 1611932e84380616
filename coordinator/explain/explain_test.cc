// The verdict for each fault, as a table: whom it must name, and what else it must say. With a real
// coordinator see coordinator/explain_test.cc.
#include "coordinator/explain/explain.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/proto_duration.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Two workers and two servers at work on a synchronous job of four contributions.
ExplainFacts WellFacts() {
  ExplainFacts facts;
  facts.status.set_job_id("j-1");
  facts.status.set_state(RUNNING);
  facts.status.set_step(16);
  facts.status.set_total_steps(1000);
  facts.status.mutable_spec()->mutable_synchronous()->set_replicas(4);
  facts.dispatch.started = true;
  facts.dispatch.watermark = 16;
  for (uint64_t i = 0; i < 2; ++i) {
    WorkerView worker;
    worker.worker = i + 1;
    worker.name = absl::StrCat("worker-", i);
    worker.has_answered = true;
    worker.leases.push_back({.step = 16 + i, .out = absl::Milliseconds(50)});
    worker.steps_done = 8;
    worker.share = 0.5;
    worker.step_time = absl::Milliseconds(100);
    worker.slowness = 1;
    facts.dispatch.workers.push_back(worker);
    facts.members[i + 1] = {.name = worker.name,
                            .is_worker = true,
                            .silent = {},
                            .activities = {},
                            .device = "cpu/2",
                            .device_use = {}};
    ShardFacts shard;
    shard.shard = static_cast<uint32_t>(i);
    shard.server = absl::StrCat("ps-", i);
    shard.is_known = true;
    shard.version = 4;
    shard.steps = 16;
    facts.shards.push_back(shard);
    facts.members[i + 3] = {.name = shard.server,
                            .is_worker = false,
                            .silent = {},
                            .activities = {},
                            .device = "",
                            .device_use = {}};
  }
  return facts;
}

void MakeLate(ExplainFacts& facts, size_t worker, absl::Duration out) {
  LeaseView& lease = facts.dispatch.workers[worker].leases[0];
  lease.out = out;
  lease.late = true;
}

void SetActivity(ExplainFacts& facts, uint64_t worker, Activity::Kind kind, uint64_t step,
                 absl::optional<uint32_t> shard, uint64_t version, absl::Duration since) {
  Activity activity;
  activity.set_job_id("j-1");
  activity.set_kind(kind);
  activity.set_step(step);
  if (shard) activity.set_shard(*shard);
  activity.set_version(version);
  *activity.mutable_since() = ToProto(since);
  facts.members[worker].activities.push_back(activity);
}

void SetWait(ExplainFacts& facts, const std::string& whom, bool stalled = false) {
  facts.wait =
      RunnerWait{.whom = whom, .since = absl::Seconds(12), .is_turn = false, .stalled = stalled};
}

struct Fault {
  const char* name;
  std::function<void(ExplainFacts&)> happen;
  std::string verdict;  // A part of it.
  std::string whom;     // Of the first wait; empty: there is none.
};

std::vector<Fault> AllFaults() {
  return {
      {"none", [](ExplainFacts&) {}, "nobody keeps it waiting", ""},
      {"a worker that has stopped",
       [](ExplainFacts& facts) {
         MakeLate(facts, 1, absl::Seconds(34));
         facts.members[2].silent = absl::Seconds(33);
       },
       "worker-1 has had step 17 (version 4) for 34 s; nothing was heard of it for 33 s",
       "worker-1"},
      {"a stopped worker, and others that wait for its version",
       [](ExplainFacts& facts) {
         facts.dispatch.workers[0].leases[0].step = 20;
         MakeLate(facts, 0, absl::Seconds(40));
         SetActivity(facts, 1, Activity::PULLING, 20, 0, 5, absl::Seconds(40));
         MakeLate(facts, 1, absl::Seconds(34));
       },
       "worker-1 has had step 17 (version 4) for 34 s", "worker-1"},
      {"a worker that does not register",
       [](ExplainFacts& facts) {
         facts.dispatch = JobView();
         SetWait(facts, "a worker (none is connected)");
       },
       "waits for a worker (none is connected) for 12 s", "a worker (none is connected)"},
      {"the only worker died",
       [](ExplainFacts& facts) {
         facts.dispatch.workers.clear();
         SetWait(facts, "a worker (none is connected)");
         facts.departures.push_back(
             {"worker-0", true, absl::Seconds(12), "the stream broke", false});
       },
       "worker-0 is gone for 12 s (the stream broke)", "a worker (none is connected)"},
      {"one of two workers died",
       [](ExplainFacts& facts) {
         facts.dispatch.workers.pop_back();
         facts.departures.push_back(
             {"worker-1", true, absl::Seconds(2), "no heartbeat for 6s", false});
       },
       "gets on; worker-1 is gone for 2 s (no heartbeat for 6s)", ""},
      {"data that a worker cannot read",
       [](ExplainFacts& facts) {
         WorkerView& worker = facts.dispatch.workers[0];
         worker.leases.clear();
         worker.refusal = "data.train: /data/x: no such file";
       },
       "gets on; worker-0 cannot run the job: data.train: /data/x: no such file", ""},
      {"a worker that opens the data for long",
       [](ExplainFacts& facts) {
         facts.dispatch.can_take = true;
         for (WorkerView& worker : facts.dispatch.workers) {
           worker.leases.clear();
           worker.has_answered = false;
         }
         SetActivity(facts, 1, Activity::PREPARING, 0, 0, 0, absl::Seconds(70));
       },
       "worker-0 opens the data and compiles the model for 70 s", "worker-0"},
      {"a worker that was not reached",
       [](ExplainFacts& facts) {
         facts.dispatch.workers[0].leases.clear();
         facts.dispatch.workers[0].has_answered = false;
       },
       "gets on; worker-0 has not answered yet whether it can run the job", ""},
      {"a worker that cannot reach a server, whose step another one has done since",
       [](ExplainFacts& facts) {
         facts.dispatch.workers[0].leases.clear();
         facts.dispatch.workers[1].slowness = 1.8;
         SetActivity(facts, 1, Activity::PUSHING, 12, 1, 0, absl::Seconds(15));
       },
       "gets on; worker-0 has been pushing step 12 to shard 1 on ps-1 for 15 s, which answers the "
       "coordinator: see what is between them",
       ""},
      {"a worker that waits for a version of others",
       [](ExplainFacts& facts) {
         SetActivity(facts, 1, Activity::PULLING, 20, 0, 5, absl::Seconds(15));
       },
       "nobody keeps it waiting", ""},
      {"a worker that reads for long",
       [](ExplainFacts& facts) {
         MakeLate(facts, 0, absl::Seconds(5));
         SetActivity(facts, 1, Activity::READING, 16, 0, 0, absl::Seconds(5));
       },
       "worker-0 has had step 16 (version 4) for 5 s; it has been reading the examples of step 16",
       "worker-0"},
      {"a server that is gone",
       [](ExplainFacts& facts) {
         facts.recovers_from = "ps-1 went, or was started again";
         facts.recovers_since = absl::Seconds(13);
         SetWait(facts, "ps-1 (127.0.0.1:2223), gone");
       },
       "waits for ps-1 (127.0.0.1:2223), gone for 12 s", "ps-1 (127.0.0.1:2223), gone"},
      {"shards that take long to come back",
       [](ExplainFacts& facts) {
         facts.recovers_from = "ps-1 went, or was started again";
         facts.recovers_since = absl::Seconds(13);
       },
       "the job comes back for 13 s: ps-1 went", "all shards"},
      {"a server that never answers, while workers push to it",
       [](ExplainFacts& facts) {
         MakeLate(facts, 0, absl::Seconds(9));
         SetActivity(facts, 1, Activity::PUSHING, 16, 1, 0, absl::Seconds(9));
         facts.shards[1].silent = absl::Seconds(8);
       },
       "ps-1, which has shard 1, does not answer for 8 s", "ps-1"},
      {"a server that has stopped",
       [](ExplainFacts& facts) {
         MakeLate(facts, 0, absl::Seconds(4));
         facts.members[4].silent = absl::Seconds(4);
       },
       "ps-1, which has shard 1, does not answer for 4 s", "ps-1"},
      {"a full disk",
       [](ExplainFacts& facts) {
         facts.status.add_warnings("ps-0: cuts cannot be written: no space on the disk");
       },
       "gets on; ps-0: cuts cannot be written: no space on the disk", ""},
      {"a full disk at the end",
       [](ExplainFacts& facts) {
         facts.dispatch.at_barrier = true;
         for (WorkerView& worker : facts.dispatch.workers) worker.leases.clear();
         SetWait(facts, "ps-0 (127.0.0.1:1), which does not do what it is asked (FlushCut: full),",
                 /*stalled=*/true);
       },
       "waits for ps-0 (127.0.0.1:1), which does not do what it is asked (FlushCut: full)",
       "ps-0 (127.0.0.1:1), which does not do what it is asked (FlushCut: full),"},
      {"a pull that does not end",
       [](ExplainFacts& facts) {
         MakeLate(facts, 1, absl::Seconds(34));
         SetActivity(facts, 2, Activity::PULLING, 17, 1, 4, absl::Seconds(33));
       },
       "has been pulling version 4 of shard 1 from ps-1 for 33 s, which answers the coordinator",
       "worker-1"},
      {"a push that does not end",
       [](ExplainFacts& facts) {
         MakeLate(facts, 1, absl::Seconds(34));
         SetActivity(facts, 2, Activity::COMPUTING, 20, 0, 0, absl::Seconds(1));
         SetActivity(facts, 2, Activity::PUSHING, 17, 0, 0, absl::Seconds(31));
       },
       "worker-1 has had step 17 (version 4) for 34 s; it has been pushing step 17 to shard 0 on "
       "ps-0 for 31 s, which answers the coordinator: see what is between them",
       "worker-1"},
      {"a shard that is behind",
       [](ExplainFacts& facts) {
         MakeLate(facts, 1, absl::Seconds(34));
         facts.shards[1].version = 3;
         SetActivity(facts, 2, Activity::PULLING, 17, 1, 4, absl::Seconds(33));
       },
       "of shard 1 from ps-1 for 33 s, which is at version 3", "worker-1"},
      {"too few servers at the start",
       [](ExplainFacts& facts) {
         facts.status.set_state(PENDING);
         facts.dispatch = JobView();
         facts.shards.clear();
         SetWait(facts, "2 ps servers (1 is connected)");
       },
       "waits for 2 ps servers (1 is connected) for 12 s", "2 ps servers (1 is connected)"},
      {"a journal that cannot be written",
       [](ExplainFacts& facts) {
         SetWait(facts, "the coordinator's journal (it cannot be written: no space)");
       },
       "the coordinator's journal (it cannot be written: no space)",
       "the coordinator's journal (it cannot be written: no space)"},
      {"a job that waits for its turn",
       [](ExplainFacts& facts) {
         facts.status.set_state(PENDING);
         facts.dispatch = JobView();
         facts.wait = RunnerWait{.whom = "waits for its turn (3 jobs before it)",
                                 .since = absl::Seconds(5),
                                 .is_turn = true,
                                 .stalled = false};
       },
       "the job waits for its turn (3 jobs before it)", "its turn"},
      {"memory",
       [](ExplainFacts& facts) {
         SetWait(facts, "ps-0 (a:1), which does not do what it is asked (not enough memory),");
       },
       "not enough memory", "ps-0 (a:1), which does not do what it is asked (not enough memory),"},
      {"an evaluation on a stopped worker",
       [](ExplainFacts& facts) {
         facts.dispatch.at_barrier = true;
         for (WorkerView& worker : facts.dispatch.workers) worker.leases.clear();
         facts.dispatch.workers[1].evaluates = absl::Seconds(61);
         facts.members[2].silent = absl::Seconds(4);
         SetWait(facts, "worker-1, which evaluates", /*stalled=*/true);
       },
       "worker-1 has been evaluating the model for 61 s, and the next step waits for it; nothing "
       "was heard of it for 4 s",
       "worker-1"},
      {"an evaluation behind a push that does not end",
       [](ExplainFacts& facts) {
         facts.dispatch.at_barrier = true;
         for (WorkerView& worker : facts.dispatch.workers) worker.leases.clear();
         facts.dispatch.workers[1].evaluates = absl::Seconds(10);
         SetActivity(facts, 2, Activity::PUSHING, 12, 0, 0, absl::Seconds(13));
         SetWait(facts, "worker-1, which evaluates", /*stalled=*/true);
       },
       "worker-1 has been evaluating the model for 10 s, and the next step waits for it; it has "
       "been pushing step 12 to shard 0 on ps-0 for 13 s, which answers the coordinator: see what "
       "is between them",
       "worker-1"},
      {"a slow worker", [](ExplainFacts& facts) { facts.dispatch.workers[1].slowness = 2.31; },
       "gets on; the slowest worker is worker-1, whose steps take 2.3 times the median", ""},
      {"a worker that lies",
       [](ExplainFacts& facts) {
         facts.dispatch.workers[1].leases.clear();
         facts.dispatch.workers[1].refusal = "it reported steps that shards have not got";
       },
       "worker-1 cannot run the job: it reported steps that shards have not got", ""},
      {"a worker that gives steps back",
       [](ExplainFacts& facts) {
         facts.dispatch.can_take = true;
         for (WorkerView& worker : facts.dispatch.workers) {
           worker.leases.clear();
           worker.faults = 8;
           worker.last_fault = "step 16: no answer in time from ps-1";
         }
       },
       "worker-0 gives steps back undone, 8 in a row; step 16: no answer in time from ps-1",
       "worker-0"},
      {"the job has ended",
       [](ExplainFacts& facts) {
         facts.status.set_state(FAILED);
         facts.status.set_message("step 3: the loss is nan");
         MakeLate(facts, 0, absl::Seconds(40));
       },
       "has ended: FAILED: step 3: the loss is nan", ""},
  };
}

TEST(ExplainTest, VerdictNamesTheCulprit) {
  for (const Fault& fault : AllFaults()) {
    SCOPED_TRACE(fault.name);
    ExplainFacts facts = WellFacts();
    fault.happen(facts);
    const JobExplanation told = Explain(facts);
    EXPECT_THAT(told.verdict(), HasSubstr(fault.verdict));
    EXPECT_EQ(told.waits().empty() ? "" : told.waits(0).whom(), fault.whom) << told.DebugString();
  }
}

TEST(ExplainTest, WaitSaysForWhatAndSinceWhen) {
  ExplainFacts facts = WellFacts();
  MakeLate(facts, 1, absl::Seconds(34));
  SetActivity(facts, 2, Activity::PUSHING, 17, 1, 0, absl::Seconds(31));
  const JobExplanation told = Explain(facts);
  ASSERT_THAT(told.waits(), SizeIs(1));
  EXPECT_EQ(told.waits(0).what(), "to push step 17 (version 4) to shard 1 on ps-1");
  EXPECT_EQ(told.waits(0).since().seconds(), 34);
}

TEST(ExplainTest, WorkersAndShardsAreReported) {
  ExplainFacts facts = WellFacts();
  SetActivity(facts, 1, Activity::COMPUTING, 16, 0, 0, absl::Milliseconds(40));
  facts.dispatch.workers[1].slowness = 1.7;
  facts.shards[1].version = 3;
  facts.shards[1].missing = {14, 15};
  facts.departures.push_back({"worker-7", true, absl::Seconds(90), "the stream broke", false});
  facts.departures.push_back({"worker-8", true, absl::Seconds(90), "leaves", true});
  const JobExplanation told = Explain(facts);
  ASSERT_THAT(told.workers(), SizeIs(3));
  EXPECT_EQ(told.workers(0).activity(), "has been computing step 16 for 0.0 s");
  EXPECT_EQ(told.workers(0).share(), 0.5);
  EXPECT_EQ(told.workers(1).slowness(), 1.7);
  EXPECT_EQ(told.workers(2).trouble(), "is gone for 90 s (the stream broke)");
  ASSERT_THAT(told.shards(), SizeIs(2));
  EXPECT_EQ(told.shards(0).behind(), 0u);
  EXPECT_EQ(told.shards(1).behind(), 1u);
  EXPECT_THAT(told.shards(1).missing(), ElementsAre(14, 15));
}

TEST(ExplainTest, AsynchronousJobHasNoVersions) {
  ExplainFacts facts = WellFacts();
  facts.status.mutable_spec()->mutable_asynchronous();
  MakeLate(facts, 1, absl::Seconds(3));
  SetActivity(facts, 2, Activity::PULLING, 17, 1, 0, absl::Seconds(3));
  EXPECT_THAT(
      Explain(facts).verdict(),
      StartsWith("worker-1 has had step 17 for 3 s; it has been pulling the values of shard "
                 "1 from ps-1"));
}

TEST(ExplainTest, ExpiredLeaseOfOneWorkerIsNoWaitWhileOthersGoOn) {
  ExplainFacts facts = WellFacts();
  MakeLate(facts, 1, absl::Seconds(34));
  facts.dispatch.workers[1].leases[0].expired = true;
  const JobExplanation told = Explain(facts);
  EXPECT_THAT(told.waits(), IsEmpty());
  EXPECT_THAT(told.verdict(),
              HasSubstr("worker-1 has had step 17 (version 4) for 34 s, longer than"));
}

TEST(ExplainTest, ExpiredLeaseThatNobodyElseTakesIsAWait) {
  ExplainFacts facts = WellFacts();
  facts.dispatch.can_take = true;
  facts.dispatch.workers[1].leases[0].expired = true;
  facts.dispatch.workers[1].leases[0].out = absl::Seconds(34);
  SetActivity(facts, 2, Activity::READING, 17, 0, 0, absl::Seconds(33));
  EXPECT_THAT(Explain(facts).verdict(),
              StartsWith("worker-1 has had step 17 (version 4) for 34 s; it has been reading"));
}

// It was said of a stopped worker that it computes a step that it had done.
TEST(ExplainTest, WhatASilentWorkerDidBeforeIsNotWhatItDoes) {
  ExplainFacts facts = WellFacts();
  MakeLate(facts, 1, absl::Seconds(34));
  SetActivity(facts, 2, Activity::COMPUTING, 11, absl::nullopt, 0, absl::Seconds(35));
  EXPECT_THAT(Explain(facts).verdict(), HasSubstr("it has been computing step 11"));
  facts.members[2].silent = absl::Seconds(34);
  EXPECT_EQ(Explain(facts).verdict(),
            "worker-1 has had step 17 (version 4) for 34 s; nothing was heard of it for 34 s");
}

// "Not known" once was shard 0, whose server was blamed.
TEST(ExplainTest, ActivityWithoutAShardBlamesNoServer) {
  ExplainFacts facts = WellFacts();
  MakeLate(facts, 1, absl::Seconds(34));
  SetActivity(facts, 2, Activity::PUSHING, 17, absl::nullopt, 0, absl::Seconds(31));
  const JobExplanation told = Explain(facts);
  EXPECT_EQ(told.verdict(),
            "worker-1 has had step 17 (version 4) for 34 s; it has been pushing step 17 for 31 s");
  ASSERT_THAT(told.waits(), SizeIs(1));
  EXPECT_EQ(told.waits(0).what(), "to push step 17 (version 4)");
}

// Numbers from the wire that name nothing crash nobody.
TEST(ExplainTest, ActivityMayNameWhatThereIsNot) {
  ExplainFacts facts = WellFacts();
  MakeLate(facts, 1, absl::Seconds(3));
  SetActivity(facts, 2, Activity::PUSHING, 17, 4'000'000'000, 0, absl::Seconds(3));
  EXPECT_THAT(Explain(facts).verdict(), Not(IsEmpty()));
}

TEST(ExplainTest, WorkersAreToldWithTheirDevices) {
  ExplainFacts facts = WellFacts();
  facts.members[1].device = "cuda:0 (NVIDIA H200)";
  facts.members[1].device_use.emplace().set_busy(0.5);
  const JobExplanation told = Explain(facts);
  ASSERT_GE(told.workers_size(), 2);
  EXPECT_EQ(told.workers(0).device(), "cuda:0 (NVIDIA H200)");
  EXPECT_EQ(told.workers(0).device_use().busy(), 0.5);
  EXPECT_EQ(told.workers(1).device(), "cpu/2");
  EXPECT_FALSE(told.workers(1).has_device_use());
}

}  // namespace
}  // namespace millrace::coordinator
