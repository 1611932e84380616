#include "coordinator/dispatch/dispatcher.h"

#include <tuple>

#include "coordinator/dispatch/dispatcher_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DispatcherTest, RouteComesBeforeLeasesAndTheEmptiestWorkerGetsTheNext) {
  SetWorkers({{1, 2}, {2, 1}});
  Start("a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: route a@1", "2: route a@1", "1: lease a@1 [0,1)",
                                          "1: lease a@1 [1,2)", "2: lease a@1 [2,3)"));
}

TEST_F(DispatcherTest, FreedSlotGetsAnotherLeaseAtOnce) {
  SetWorkers({{1, 1}});
  Start("a", 1, /*staleness=*/1);
  outbox_.Take();
  const auto done = Done(0, 0);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->first);
  EXPECT_EQ(done->progress.applied, 1u);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [1,2)"));
  EXPECT_FALSE(Done(0, 0)->first);
}

// Of the steps of a worker with two slots one is pushed and one is computed.
TEST_F(DispatcherTest, WhereStepsArePulledAheadAWorkerIsToldTheNextOneToo) {
  // Too narrow a window for three leases of one step would have others wait.
  const std::tuple<bool, uint32_t, size_t> cases[] = {
      {false, 20, 0}, {true, 20, 1}, {true, 2, 1}, {true, 1, 0}};
  SetWorkers({{1, 2}});
  for (const auto& [pulls_ahead, staleness, leases_ahead] : cases) {
    SetRoute route;
    route.set_job_id(absl::StrCat("job-", pulls_ahead, "-", staleness));
    route.mutable_routing()->set_generation(1);
    dispatcher_.Start(
        {.total_steps = 100, .staleness_bound = staleness, .pulls_ahead = pulls_ahead}, route, {},
        /*barrier=*/100);
    PrepareAll(route.job_id());
    EXPECT_THAT(outbox_.Take(), SizeIs(3));       // The route, and two leases.
    dispatcher_.SetBarrier(route.job_id(), 100);  // Whatever comes hands out again.
    EXPECT_THAT(outbox_.Take(), SizeIs(leases_ahead)) << route.job_id();
    dispatcher_.SetBarrier(route.job_id(), 100);
    EXPECT_THAT(outbox_.Take(), IsEmpty());
    dispatcher_.Remove(route.job_id());
    outbox_.Take();
  }
}

TEST_F(DispatcherTest, BarrierHereStopsTheJobAfterWhatIsOut) {
  SetWorkers({{1, 2}});
  Start("a");
  EXPECT_EQ(dispatcher_.GetProgress("a")->held_since, absl::InfiniteFuture());
  EXPECT_EQ(dispatcher_.SetBarrierHere("a", 0, 100), 2u);
  const absl::Time held = clock_.Now();
  clock_.Advance(absl::Seconds(1));
  outbox_.Take();
  Done(0, 0);
  EXPECT_FALSE(dispatcher_.GetProgress("a")->at_barrier);
  Done(1, 1);
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  EXPECT_TRUE(dispatcher_.GetProgress("a")->at_barrier);
  EXPECT_EQ(dispatcher_.GetProgress("a")->held_since, held);
  EXPECT_EQ(dispatcher_.SetBarrierHere("a", 0, 100), 2u);
  dispatcher_.SetBarrier("a", 100);
  EXPECT_THAT(outbox_.Take(), SizeIs(2));
  EXPECT_EQ(dispatcher_.GetProgress("a")->held_since, absl::InfiniteFuture());
}

// Some shard has steps beyond those that all have: there is no state of all of them before.
TEST_F(DispatcherTest, BarrierHereIsNotBeforeWhatAShardHasAlready) {
  SetWorkers({{1, 2}});
  Start("a");
  EXPECT_EQ(dispatcher_.SetBarrierHere("a", 7, 100), 7u);
  EXPECT_EQ(dispatcher_.SetBarrierHere("a", 7, 7), 7u);
  EXPECT_EQ(dispatcher_.SetBarrierHere("a", 1, 100), 2u);
}

TEST_F(DispatcherTest, NewWorkersLearnTheRoutesAndDeadWorkersStepsGoToOthers) {
  SetWorkers({{1, 2}});
  Start("a", 1, /*staleness=*/1);
  outbox_.Take();
  SetWorkers({{1, 2}, {2, 2}});
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: route a@1"));
  dispatcher_.SetWorkers({{2, 2}});  // Nobody says anything meanwhile.
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [0,1)", "2: lease a@1 [1,2)"));
}

TEST_F(DispatcherTest, JobsTakeTurns) {
  Start("a", 1, 50);
  Start("b", 1, 50);
  Start("c", 1, 0);
  SetWorkers({{1, 0}});
  SetWorkers({{1, 30}});
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
  SetWorkers({{1, 1, "worker-1"}});
  Start("a", 1, 0);
  SetWorkers({{1, 1, "worker-1"}, {2, 1, "worker-2"}});
  outbox_.Take();
  EXPECT_EQ(dispatcher_.Tick("a").next, clock_.Now() + absl::Seconds(60));
  clock_.Advance(absl::Seconds(60));
  EXPECT_THAT(dispatcher_.Tick("a").trouble,
              "nothing was heard of step 0 from worker-1 for 1m; it goes to any worker that is "
              "free");
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [0,1)"));
}

TEST_F(DispatcherTest, FaultsInARowPauseTheWorkerForLongerAndLonger) {
  SetWorkers({{1, 1}});
  Start("a", 1, 0);
  outbox_.Take();
  EXPECT_EQ(GiveBack(0), 1);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [0,1)")) << "the first is free";
  absl::Duration longest;
  for (int faults = 2; faults <= 12; ++faults) {
    EXPECT_EQ(GiveBack(outbox_.leases.size() - 1), faults);
    EXPECT_THAT(outbox_.Take(), IsEmpty());
    const absl::Duration pause = dispatcher_.Tick("a").next - clock_.Now();
    EXPECT_GT(pause, absl::ZeroDuration());
    EXPECT_GE(pause, longest);
    EXPECT_LE(pause, absl::Seconds(2));
    longest = pause;
    clock_.Advance(pause);
    dispatcher_.Tick("a");
    EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [0,1)"));
  }
  Done(outbox_.leases.size() - 1, 0);
  EXPECT_EQ(GiveBack(outbox_.leases.size() - 1), 1) << "progress forgives";
}

TEST_F(DispatcherTest, WorkerThatLeavesGivesItsLeaseToAnotherOne) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 0);
  outbox_.Take();
  dispatcher_.SetDraining(1);
  EXPECT_EQ(GiveBack(0, absl::StatusCode::kOk), 0);
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [0,1)"));
  EXPECT_EQ(GiveBack(0), 0) << "it has ended before";
}

// Such a worker once got the step again at once, ten thousand times a second, while another one was
// idle.
TEST_F(DispatcherTest, WorkerThatGivesAllItGetsBackAsIfNothingWereWrongComesAfterOthers) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 0);
  for (int returns = 1; returns <= Dispatcher::kFreeReturns; ++returns) {
    outbox_.Take();
    EXPECT_EQ(GiveBack(outbox_.leases.size() - 1, absl::StatusCode::kOk), 0);
    EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [0,1)"));
  }
  EXPECT_EQ(GiveBack(outbox_.leases.size() - 1, absl::StatusCode::kOk), 1);
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [0,1)"));
}

TEST_F(DispatcherTest, WorkerThatDoesStepsOrEvaluatesMayGiveLeasesBack) {
  SetWorkers({{1, 1}});
  Start("a", 1, 0);
  const auto give_back = [this] {
    return GiveBack(outbox_.leases.size() - 1, absl::StatusCode::kOk);
  };
  for (int i = 0; i < Dispatcher::kFreeReturns; ++i) EXPECT_EQ(give_back(), 0);
  EXPECT_TRUE(Done(outbox_.leases.size() - 1, 0)->first);
  for (int i = 0; i < Dispatcher::kFreeReturns; ++i) EXPECT_EQ(give_back(), 0) << "since the step";
  Evaluates("a", 1);
  for (int i = 0; i < Dispatcher::kFreeReturns; ++i) EXPECT_EQ(give_back(), 0) << "they wait";
  dispatcher_.EndEvaluation("a");
  EXPECT_EQ(give_back(), 1);
}

// Any worker could once give back the steps that another one computed, by a lease id that is easy
// to guess.
TEST_F(DispatcherTest, LeaseOfAnotherWorkerIsNeitherGivenBackNorDone) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 0);
  ASSERT_THAT(outbox_.workers, ElementsAre(1));
  const uint64_t lease_id = outbox_.leases[0].lease_id();
  EXPECT_TRUE(dispatcher_.HasLease(1, "a", lease_id));
  EXPECT_FALSE(dispatcher_.HasLease(2, "a", lease_id));
  EXPECT_FALSE(dispatcher_.HasLease(1, "b", lease_id));
  outbox_.Take();
  outbox_.workers[0] = 2;
  EXPECT_EQ(GiveBack(0), 0);
  EXPECT_FALSE(Done(0, 0)->first);
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  outbox_.workers[0] = 1;
  EXPECT_TRUE(Done(0, 0)->first);
}

// A worker with any lease of a job could once fail it by a loss of any step.
TEST_F(DispatcherTest, WorkerHasTheStepsThatAreLeftOfItsLeaseAndNoOthers) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 0);
  StepResult result;
  result.set_job_id("a");
  result.set_lease_id(outbox_.leases.at(0).lease_id());
  EXPECT_TRUE(dispatcher_.HasStep(1, result));
  EXPECT_FALSE(dispatcher_.HasStep(2, result));
  result.set_step(1'000'000);
  EXPECT_FALSE(dispatcher_.HasStep(1, result));
  result.set_step(0);
  clock_.Advance(absl::Minutes(2));
  dispatcher_.Tick("a");
  EXPECT_TRUE(dispatcher_.HasStep(1, result)) << "it has expired";
  Done(0, 0);
  EXPECT_FALSE(dispatcher_.HasStep(1, result)) << "it is reported";
  result.set_job_id("b");
  EXPECT_FALSE(dispatcher_.HasStep(1, result));
}

TEST_F(DispatcherTest, ReportOfAWorkerThatRegisteredAgainStillCounts) {
  SetWorkers({{1, 1}});
  Start("a", 1, 0);
  SetWorkers({{2, 1}});
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 2));
  outbox_.workers[0] = 2;
  EXPECT_TRUE(Done(0, 0)->first) << "it is that one, on another stream";
  EXPECT_FALSE(Done(1, 0)->first);
}

TEST_F(DispatcherTest, NewGenerationVoidsLeasesAndFreesTheirSlots) {
  SetWorkers({{1, 2}});
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
  SetWorkers({{1, 4}});
  Start("a", 1, 3);
  dispatcher_.SetBarrier("a", 100);
  EXPECT_FALSE(dispatcher_.GetProgress("a")->at_barrier);
  dispatcher_.SetBarrier("a", 4);
  outbox_.Take();
  for (uint64_t step = 0; step < 4; ++step) {
    EXPECT_EQ(Done(step, step)->progress.at_barrier, step == 3);
  }
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  dispatcher_.SetBarrier("a", 6);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [4,5)", "1: lease a@1 [5,6)"));
}

// The job's owner does something at it that no later step may precede.
TEST_F(DispatcherTest, BarrierWithWhichAJobStartsHolds) {
  SetWorkers({{1, 4}});
  SetRoute route;
  route.set_job_id("a");
  route.mutable_routing()->set_generation(1);
  dispatcher_.Start({.total_steps = 100, .staleness_bound = 9}, route, AppliedSet(),
                    /*barrier=*/2);
  PrepareAll("a");
  EXPECT_THAT(outbox_.Take(),
              ElementsAre("1: route a@1", "1: lease a@1 [0,1)", "1: lease a@1 [1,2)"));
  Done(0, 0);
  EXPECT_TRUE(Done(1, 1)->progress.at_barrier);
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  route.mutable_routing()->set_generation(2);
  dispatcher_.Start({.total_steps = 100, .staleness_bound = 9}, route, AppliedSet(),
                    /*barrier=*/1);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: route a@2", "1: lease a@2 [0,1)"));
}

TEST_F(DispatcherTest, RemovedJobIsForgottenAndMakesRoomForOthers) {
  SetWorkers({{1, 1}});
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
  Evaluates("a", absl::nullopt);
  SetWorkers({{1, 1}, {2, 1}, {3, 1}});
  Start("a", 1, 0);
  Prepare(3, "a", 5, "no data");
  outbox_.Take();
  Evaluates("a", 1);
  Evaluates("a", 2);
  Evaluates("a", 1);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: evaluate a", "2: evaluate a", "1: evaluate a"));
}

// It went to the worker that stood still in it, where another job had evaluated meanwhile.
TEST_F(DispatcherTest, EvaluationGoesToWorkersThatWereNotAskedForItFirst) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 0);
  Start("b", 1, 0);
  Evaluate a;
  a.set_job_id("a");
  a.set_evaluation_id(7);
  Evaluate b;
  b.set_job_id("b");
  b.set_evaluation_id(7);
  EXPECT_EQ(dispatcher_.SendEvaluate(a), 1u);
  EXPECT_EQ(dispatcher_.SendEvaluate(b), 2u);
  EXPECT_EQ(dispatcher_.SendEvaluate(a), 2u);
  EXPECT_EQ(dispatcher_.SendEvaluate(a), 1u) << "both were asked";
}

// It stood behind the push of a worker that could not reach a server, while another one was idle.
TEST_F(DispatcherTest, EvaluationGoesRatherToWorkersThatAreNotLateAndGiveNoStepsBack) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}});
  Start("a");
  clock_.Advance(absl::Seconds(1));
  Done(2, 2);  // Worker 3's: the pace is known.
  clock_.Advance(absl::Seconds(10));
  const size_t last = outbox_.leases.size() - 1;
  ASSERT_EQ(outbox_.workers[last], 3u);
  EXPECT_EQ(GiveBack(last), 1);
  Evaluates("a", 1);
  Done(1, 1);  // Worker 2 is not late any more.
  Evaluates("a", 2);
}

TEST_F(DispatcherTest, EvaluationIsOfTheWorkersThatWereAskedUntilItEnds) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 0);
  Evaluate evaluate;
  evaluate.set_job_id("a");
  evaluate.set_evaluation_id(7);
  ASSERT_EQ(dispatcher_.SendEvaluate(evaluate), 1u);
  EXPECT_TRUE(dispatcher_.HasEvaluation(1, "a", 7));
  EXPECT_FALSE(dispatcher_.HasEvaluation(1, "a", 8));
  EXPECT_FALSE(dispatcher_.HasEvaluation(2, "a", 7));
  EXPECT_FALSE(dispatcher_.HasEvaluation(1, "b", 7));
  ASSERT_EQ(dispatcher_.SendEvaluate(evaluate), 2u);
  EXPECT_TRUE(dispatcher_.HasEvaluation(1, "a", 7));
  EXPECT_TRUE(dispatcher_.HasEvaluation(2, "a", 7));
  evaluate.set_evaluation_id(8);
  ASSERT_EQ(dispatcher_.SendEvaluate(evaluate), 1u);
  EXPECT_TRUE(dispatcher_.HasEvaluation(1, "a", 8));
  EXPECT_FALSE(dispatcher_.HasEvaluation(2, "a", 8));
  dispatcher_.EndEvaluation("a");
  EXPECT_FALSE(dispatcher_.HasEvaluation(1, "a", 8));
}

TEST_F(DispatcherTest, WorkerGetsNothingOfAJobBeforeItIsReady) {
  dispatcher_.SetWorkers({{1, 2}, {2, 2}});
  Start("a", 1, 99);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: route a@1", "2: route a@1"));
  Evaluates("a", absl::nullopt);
  EXPECT_FALSE(Prepare(2, "a"));
  ASSERT_THAT(outbox_.leases, SizeIs(2));
  EXPECT_THAT(outbox_.workers, ElementsAre(2, 2));
  EXPECT_EQ(outbox_.leases[0].end(), 25u) << "slots of others do not make leases smaller";
}

TEST_F(DispatcherTest, ARemarkOfAWorkerThatIsReadyIsNewsOnce) {
  SetWorkers({{1, 1, "worker-1"}});
  Start("a", 1, 0);
  EXPECT_TRUE(Prepare(1, "a", 0, "computes otherwise"));
  EXPECT_FALSE(Prepare(1, "a", 0, "computes otherwise")) << "that is known";
  EXPECT_FALSE(Prepare(1, "a"));
  EXPECT_EQ(dispatcher_.WhyNobodyCan("a"), "");
}

TEST_F(DispatcherTest, WorkerStaysReadyInTheNextGenerationAndUntilItRefuses) {
  SetWorkers({{1, 1, "worker-1"}});
  Start("a", 1, 0);
  outbox_.Take();
  workers_.clear();  // Nobody answers.
  Start("a", 2, 0);
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: route a@2", "1: lease a@2 [0,1)"));
  EXPECT_TRUE(Prepare(1, "a", 5, "no data"));
  EXPECT_FALSE(Prepare(1, "a", 5, "no data")) << "that is known";
  EXPECT_EQ(dispatcher_.WhyNobodyCan("a"), "worker-1: no data");
  dispatcher_.SetWorkers({{1, 1, "worker-1"}, {2, 1, "worker-2"}});
  EXPECT_EQ(dispatcher_.WhyNobodyCan("a"), "") << "the new one may";
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: route a@2"));
  Prepare(2, "a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@2 [0,1)"));
}

// Such a worker, with its slots always free, once got every step again and starved the job.
TEST_F(DispatcherTest, StepOfAWorkerThatFailsGoesToAnotherOne) {
  SetWorkers({{1, 4}, {2, 1}});
  Start("a", 1, 0);
  EXPECT_THAT(outbox_.workers, ElementsAre(1));
  EXPECT_EQ(GiveBack(0), 1);
  EXPECT_THAT(outbox_.workers, ElementsAre(1, 2)) << "though the first has more free slots";
  Done(1, 0);
  EXPECT_THAT(outbox_.workers, ElementsAre(1, 2, 2)) << "a fault counts until a step is done";
}

TEST_F(DispatcherTest, PauseOfOneWorkerHoldsUpNoOther) {
  SetWorkers({{1, 1}});
  Start("a", 1, 1);
  GiveBack(0);
  GiveBack(1);
  outbox_.Take();
  SetWorkers({{1, 1}, {2, 2}});
  EXPECT_THAT(outbox_.workers, ElementsAre(1, 1, 2, 2));
}

// Such an evaluation once kept the worker's leases waiting, and so the whole job.
TEST_F(DispatcherTest, WorkerThatEvaluatesTrainsOnlyWhereNobodyElseCan) {
  SetWorkers({{1, 2}, {2, 2}});
  Start("a", 1, 0);
  dispatcher_.SetBarrier("a", 1);
  Done(0, 0);
  Evaluates("a", 1);
  dispatcher_.SetBarrier("a", 100);
  EXPECT_EQ(outbox_.workers.back(), 2u);
  Done(outbox_.leases.size() - 1, 1);
  EXPECT_EQ(outbox_.workers.back(), 2u);
  SetWorkers({{1, 2}});
  EXPECT_EQ(outbox_.workers.back(), 1u) << "the other one is gone";
  SetWorkers({{1, 2}, {2, 2}});
  dispatcher_.EndEvaluation("a");
  Done(outbox_.leases.size() - 1, 2);
  EXPECT_EQ(outbox_.workers.back(), 1u);
}

TEST_F(DispatcherTest, WorkerWhoseEvaluationHasEndedGetsStepsAtOnce) {
  SetWorkers({{1, 1}, {2, 1}});
  Start("a", 1, 1);
  ASSERT_THAT(outbox_.workers, ElementsAre(1, 2));
  Evaluates("a", 1);
  outbox_.Take();
  Done(0, 0);
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  dispatcher_.EndEvaluation("a");
  EXPECT_THAT(outbox_.Take(), ElementsAre("1: lease a@1 [2,3)"));
  Evaluates("a", 2);
  outbox_.Take();
  Done(1, 1);
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  dispatcher_.TakeEvaluationBack(2, "a");
  EXPECT_FALSE(dispatcher_.HasEvaluation(2, "a", 0));
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: lease a@1 [3,4)"));
}

TEST_F(DispatcherTest, DrainingWorkerGetsNothingMoreAndKeepsWhatItHas) {
  SetWorkers({{1, 1}});
  Start("a", 1, 9);
  dispatcher_.SetDraining(1);
  outbox_.Take();
  for (uint64_t step = 0; step < 5; ++step) EXPECT_TRUE(Done(0, step)->first);
  EXPECT_THAT(outbox_.Take(), IsEmpty());
  SetWorkers({{1, 1}, {2, 1}});
  EXPECT_THAT(outbox_.Take(), ElementsAre("2: route a@1", "2: lease a@1 [5,10)"));
}

TEST_F(DispatcherTest, StallNamesTheOldestStepAndWhoHasIt) {
  dispatcher_.SetWorkers({{1, 1, "worker-1"}});
  Start("a", 1, 0);
  EXPECT_EQ(dispatcher_.FindStall("a")->whom, "worker-1 to open the data and compile the model,");
  Prepare(1, "a");
  const auto stall = dispatcher_.FindStall("a");
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->whom, "worker-1, which has step 0,");
  EXPECT_EQ(stall->since, clock_.Now());
}

// A worker that kept its slot after its lease had expired was called "a worker that is free".
TEST_F(DispatcherTest, StallNamesAWorkerThatKeepsItsSlotAfterItsLease) {
  dispatcher_.SetWorkers({{1, 1, "worker-1"}});
  Start("a", 1, 0);
  Prepare(1, "a");
  clock_.Advance(absl::Seconds(90));
  EXPECT_NE(dispatcher_.Tick("a").trouble, "");
  const auto stall = dispatcher_.FindStall("a");
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->whom,
            "worker-1, which has had step 0 for longer than its lease and keeps its slot,");
  EXPECT_EQ(stall->since, clock_.Now() - absl::Seconds(90));
}

}  // namespace
}  // namespace millrace::coordinator
