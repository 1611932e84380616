#include "coordinator/dispatch/dispatcher.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Keeps what was sent, as short lines: "1: route a@1", "1: lease a@1 [0,1)".
class RecordingOutbox final : public Outbox {
 public:
  void Send(uint64_t member, const CoordinatorMessage& message) override {
    std::string line = absl::StrCat(member, ": ");
    if (message.has_set_route()) {
      absl::StrAppend(&line, "route ", message.set_route().job_id(), "@",
                      message.set_route().routing().generation());
    } else if (message.has_lease()) {
      const Lease& lease = message.lease();
      absl::StrAppend(&line, "lease ", lease.job_id(), "@", lease.generation(), " [", lease.begin(),
                      ",", lease.end(), ")");
      leases.push_back(lease);
    } else if (message.has_forget_job()) {
      absl::StrAppend(&line, "forget ", message.forget_job().job_id());
    } else if (message.has_evaluate()) {
      absl::StrAppend(&line, "evaluate ", message.evaluate().job_id());
    }
    lines.push_back(line);
  }

  std::vector<std::string> Take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  std::vector<Lease> leases;
};

class DispatcherTest : public testing::Test {
 protected:
  void Start(const std::string& job_id, uint64_t generation = 1, uint32_t staleness = 3,
             uint64_t done = 0) {
    SetRoute route;
    route.set_job_id(job_id);
    route.mutable_routing()->set_generation(generation);
    AppliedSet set;
    for (uint64_t step = 0; step < done; ++step) set.Insert(step);
    dispatcher_.Start({.total_steps = 100, .replicas = 0, .staleness_bound = staleness}, route, set,
                      /*barrier=*/100);
  }

  // The worker of the nth lease that was sent reports one of its steps.
  absl::optional<Dispatcher::DoneResult> Done(size_t n, uint64_t step) {
    StepResult result;
    result.set_job_id(outbox_.leases[n].job_id());
    result.set_lease_id(outbox_.leases[n].lease_id());
    result.set_step(step);
    return dispatcher_.Done(result);
  }

  int GiveBack(size_t n, bool fault) {
    LeaseReturned returned;
    returned.set_job_id(outbox_.leases[n].job_id());
    returned.set_lease_id(outbox_.leases[n].lease_id());
    returned.set_step(outbox_.leases[n].begin());
    return dispatcher_.GiveBack(returned, fault);
  }

  SimulatedClock clock_;
  RecordingOutbox outbox_;
  Dispatcher dispatcher_{&outbox_, {.lease_duration = absl::Seconds(60), .clock = &clock_}};
};

TEST_F(DispatcherTest, RouteComesBeforeLeasesAndTheEmptiestWorkerGetsTheNext) {
  dispatcher_.SetWorkers({{1, 2}, {2, 1}});
  Start("a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: route a@1", "2: route a@1", "1: lease a@1 [0,1)",
                                          "1: lease a@1 [1,2)", "2: lease a@1 [2,3)"));
}

TEST_F(DispatcherTest, FreedSlotGetsAnotherLeaseAtOnce) {
  dispatcher_.SetWorkers({{1, 1}});
  Start("a", 1, /*staleness=*/1);
  outbox_.Take();
  const auto done = Done(0, 0);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->first);
  EXPECT_EQ(done->progress.applied, 1u);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [1,2)"));
  EXPECT_FALSE(Done(0, 0)->first);
}

TEST_F(DispatcherTest, NewWorkersLearnTheRoutesAndDeadWorkersStepsGoToOthers) {
  dispatcher_.SetWorkers({{1, 2}});
  Start("a", 1, /*staleness=*/1);
  outbox_.Take();
  dispatcher_.SetWorkers({{1, 2}, {2, 2}});
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: route a@1"));
  dispatcher_.SetWorkers({{2, 2}});
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [0,1)", "2: lease a@1 [1,2)"));
}

TEST_F(DispatcherTest, JobsTakeTurns) {
  Start("a", 1, 50);
  Start("b", 1, 50);
  Start("c", 1, 0);
  dispatcher_.SetWorkers({{1, 30}});
  int leases_of_a = 0;
  int leases_of_b = 0;
  int leases_of_c = 0;
  for (const Lease& lease : outbox_.leases) {
    (lease.job_id() == "a" ? leases_of_a : lease.job_id() == "b" ? leases_of_b : leases_of_c)++;
  }
  EXPECT_EQ(leases_of_c, 1) << "it may have one step out";
  EXPECT_NEAR(leases_of_a, leases_of_b, 1);
  EXPECT_EQ(leases_of_a + leases_of_b + leases_of_c, 30);
}

TEST_F(DispatcherTest, ExpiredLeaseGoesToAnotherWorkerAtTheTick) {
  dispatcher_.SetWorkers({{1, 1}});
  Start("a", 1, 0);
  dispatcher_.SetWorkers({{1, 1}, {2, 1}});
  outbox_.Take();
  EXPECT_EQ(dispatcher_.Tick("a"), clock_.Now() + absl::Seconds(60));
  clock_.Advance(absl::Seconds(60));
  dispatcher_.Tick("a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [0,1)"));
}

TEST_F(DispatcherTest, FaultsInARowPauseTheJobForLongerAndLonger) {
  dispatcher_.SetWorkers({{1, 1}});
  Start("a", 1, 0);
  outbox_.Take();
  EXPECT_EQ(GiveBack(0, /*fault=*/true), 1);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [0,1)")) << "the first is free";
  absl::Duration longest;
  for (int faults = 2; faults <= 12; ++faults) {
    EXPECT_EQ(GiveBack(outbox_.leases.size() - 1, /*fault=*/true), faults);
    EXPECT_THAT(outbox_.Take(), IsEmpty());
    const absl::Duration pause = dispatcher_.Tick("a") - clock_.Now();
    EXPECT_GT(pause, absl::ZeroDuration());
    EXPECT_GE(pause, longest);
    EXPECT_LE(pause, absl::Seconds(2));
    longest = pause;
    clock_.Advance(pause);
    dispatcher_.Tick("a");
    EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [0,1)"));
  }
  Done(outbox_.leases.size() - 1, 0);
  EXPECT_EQ(GiveBack(outbox_.leases.size() - 1, /*fault=*/true), 1) << "progress forgives";
}

TEST_F(DispatcherTest, LeaseThatIsReturnedWithoutFaultGoesOutAgain) {
  dispatcher_.SetWorkers({{1, 1}});
  Start("a", 1, 0);
  outbox_.Take();
  EXPECT_EQ(GiveBack(0, /*fault=*/false), 0);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [0,1)"));
  EXPECT_EQ(GiveBack(0, /*fault=*/true), 0) << "it has ended before";
}

TEST_F(DispatcherTest, NewGenerationVoidsLeasesAndFreesTheirSlots) {
  dispatcher_.SetWorkers({{1, 2}});
  Start("a", 1, 1);
  outbox_.Take();
  dispatcher_.Pause("a");
  Done(0, 0);
  EXPECT_THAT(outbox_.Take(), IsEmpty()) << "paused";
  Start("a", 2, 1, /*done=*/0);
  EXPECT_THAT(outbox_.Take(),
              ElementsAre("1: route a@2", "1: lease a@2 [0,1)", "1: lease a@2 [1,2)"));
  EXPECT_FALSE(Done(1, 1)->first) << "a report of the old generation";
}

TEST_F(DispatcherTest, BarrierIsReportedAndHolds) {
  dispatcher_.SetWorkers({{1, 4}});
  Start("a", 1, 3);
  dispatcher_.SetBarrier("a", 100);
  EXPECT_FALSE(dispatcher_.GetProgress("a").at_barrier);
  dispatcher_.SetBarrier("a", 4);
  outbox_.Take();
  for (uint64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(Done(step, step)->progress.at_barrier, step == 3);
  }
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  dispatcher_.SetBarrier("a", 6);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [4,5)", "1: lease a@1 [5,6)"));
}

TEST_F(DispatcherTest, RemovedJobIsForgottenAndMakesRoomForOthers) {
  dispatcher_.SetWorkers({{1, 1}});
  Start("a", 1, 1);
  Start("b", 1, 1);
  outbox_.Take();
  dispatcher_.Remove("a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: forget a", "1: lease b@1 [0,1)"));
  EXPECT_FALSE(Done(0, 0)) << "there is no such job";
  dispatcher_.Remove("a");
  EXPECT_THAT(outbox_.Take(), IsEmpty());
}

TEST_F(DispatcherTest, WorkersEvaluateInTurn) {
  Evaluate evaluate;
  evaluate.set_job_id("a");
  EXPECT_FALSE(dispatcher_.SendEvaluate(evaluate));
  dispatcher_.SetWorkers({{1, 1}, {2, 1}});
  EXPECT_EQ(dispatcher_.SendEvaluate(evaluate), 1u);
  EXPECT_EQ(dispatcher_.SendEvaluate(evaluate), 2u);
  EXPECT_EQ(dispatcher_.SendEvaluate(evaluate), 1u);
  EXPECT_THAT(outbox_.Take(),
              UnorderedElementsAre("1: evaluate a", "2: evaluate a", "1: evaluate a"));
}

}  // namespace
}  // namespace millrace::coordinator
