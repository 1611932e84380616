// Workers that are slower than others, and backups.
#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/dispatch/dispatcher.h"
#include "coordinator/dispatch/dispatcher_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StragglerTest : public DispatcherTest {
 protected:
  // A synchronous job; all workers are ready for it at once.
  void StartSynchronous(uint32_t replicas, uint32_t backup, uint64_t total_steps = 1000) {
    SetRoute route;
    route.set_job_id("s");
    route.mutable_routing()->set_generation(1);
    route.mutable_spec()->mutable_synchronous()->set_replicas(replicas);
    dispatcher_.Start({.total_steps = total_steps, .replicas = replicas, .backup = backup}, route,
                      AppliedSet(), /*barrier=*/total_steps);
    started_.insert("s");
    PrepareAll("s");
  }

  void StartAsynchronous(uint32_t staleness_bound) {
    SetRoute route;
    route.set_job_id("s");
    route.mutable_routing()->set_generation(1);
    dispatcher_.Start({.total_steps = 100'000, .replicas = 0, .staleness_bound = staleness_bound},
                      route, AppliedSet(), /*barrier=*/100'000);
    started_.insert("s");
    PrepareAll("s");
  }

  // Workers compute their leases in turn, a step in so many seconds; the others do nothing. Returns
  // how long it takes until so many steps are done.
  absl::Duration Run(uint64_t steps, const std::map<uint64_t, double>& seconds) {
    const absl::Time start = clock_.Now();
    std::map<uint64_t, absl::Time> ends;  // Of the step that each is at.
    while (dispatcher_.GetProgress("s")->applied < steps) {
      for (; seen_ < outbox_.leases.size(); ++seen_) {
        const Lease& lease = outbox_.leases[seen_];
        for (uint64_t step = lease.begin(); step < lease.end(); ++step) {
          queues_[outbox_.workers[seen_]].emplace_back(seen_, step);
        }
      }
      absl::Time next = std::max(dispatcher_.Tick("s").next, clock_.Now() + absl::Seconds(1));
      uint64_t worker = 0;
      for (const auto& [each, time] : seconds) {
        if (queues_[each].empty()) continue;
        const auto end = ends.try_emplace(each, clock_.Now() + absl::Seconds(time)).first->second;
        if (end > next) continue;
        worker = each;
        next = end;
      }
      clock_.Advance(next - clock_.Now());
      if (worker == 0) continue;
      const auto [lease, step] = queues_[worker].front();
      queues_[worker].pop_front();
      ends.erase(worker);
      DoneIn(lease, step, seconds.at(worker));
      if (clock_.Now() - start > absl::Hours(1000)) break;
    }
    return clock_.Now() - start;
  }

  std::map<uint64_t, std::deque<std::pair<size_t, uint64_t>>> queues_;  // By worker.
  size_t seen_ = 0;  // Of the leases, those that are in the queues.

  // The steps of the leases that were sent from the `first`th on, with their workers.
  std::vector<std::string> LeasesFrom(size_t first) const {
    std::vector<std::string> leases;
    for (size_t n = first; n < outbox_.leases.size(); ++n) {
      leases.push_back(absl::StrCat(outbox_.workers[n], ":", outbox_.leases[n].begin()));
    }
    return leases;
  }

  absl::optional<Dispatcher::DoneResult> DoneIn(size_t n, uint64_t step, double seconds) {
    StepResult result;
    result.set_job_id(outbox_.leases[n].job_id());
    result.set_lease_id(outbox_.leases[n].lease_id());
    result.set_step(step);
    result.mutable_times()->set_compute(seconds);
    return dispatcher_.Done(outbox_.workers[n], result);
  }

  // Each worker has done so many steps of the job, in so many seconds each.
  void Train(int steps, const std::map<uint64_t, double>& seconds) {
    for (size_t n = 0; steps > 0; ++n) {
      ASSERT_LT(n, outbox_.leases.size());
      const Lease lease = outbox_.leases[n];
      for (uint64_t step = lease.begin(); step < lease.end(); ++step, --steps) {
        DoneIn(n, step, seconds.at(outbox_.workers[n]));
      }
    }
  }
};

TEST_F(StragglerTest, IdleWorkersComputeStepsOfOthersAtOnceAsFarAsBackupsGo) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}});
  StartSynchronous(/*replicas=*/2, /*backup=*/1);
  EXPECT_THAT(LeasesFrom(0), ElementsAre("1:0", "2:1", "3:0")) << "one backup, and not two";
}

TEST_F(StragglerTest, WithoutBackupsIdleWorkersWait) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}});
  StartSynchronous(2, /*backup=*/0);
  EXPECT_THAT(LeasesFrom(0), ElementsAre("1:0", "2:1"));
}

TEST_F(StragglerTest, FirstResultOfAStepCountsAndFreesABackup) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}});
  StartSynchronous(2, /*backup=*/1);
  EXPECT_TRUE(Done(2, 0)->first) << "the backup's";
  EXPECT_THAT(LeasesFrom(3), ElementsAre("3:1")) << "the other step of the version";
  EXPECT_FALSE(Done(0, 0)->first) << "the owner's, which comes second";
  EXPECT_EQ(dispatcher_.GetProgress("s")->applied, 1u);
}

TEST_F(StragglerTest, NoStepIsWithThreeWorkers) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}, {4, 1}});
  StartSynchronous(1, /*backup=*/10);
  EXPECT_THAT(LeasesFrom(0), ElementsAre("1:0", "2:0"));
}

TEST_F(StragglerTest, BusyWorkersAreNoBackups) {
  SetWorkers({{1, 2}, {2, 3}});
  StartSynchronous(4, /*backup=*/2);
  EXPECT_THAT(LeasesFrom(0), ElementsAre("1:0", "1:1", "2:2", "2:3")) << "one slot stays free";
}

TEST_F(StragglerTest, GivingBackAStepThatAnotherHasDoneIsNoFault) {
  SetWorkers({{1, 1}, {2, 1}});
  StartSynchronous(1, /*backup=*/1);
  EXPECT_TRUE(Done(1, 0)->first);
  EXPECT_EQ(GiveBack(0), 0);
}

TEST_F(StragglerTest, LastStepsOfAVersionGoToFasterWorkers) {
  SetWorkers({{1, 2}, {2, 2}, {3, 2}});
  StartSynchronous(4, /*backup=*/0);
  Train(40, {{1, 1.0}, {2, 1.0}, {3, 3.0}});
  std::map<uint64_t, int> steps;
  for (size_t n = outbox_.leases.size() - 4; n < outbox_.leases.size(); ++n) {
    ++steps[outbox_.workers[n]];
  }
  EXPECT_EQ(steps[3], 0) << "two steps of the others take less time than one of the slow worker";
  EXPECT_EQ(steps[1], 2);
  EXPECT_EQ(steps[2], 2);
}

TEST_F(StragglerTest, SlowWorkerIsNamedOnceInAWhile) {
  SetWorkers({{1, 1, "worker-1"}, {2, 1, "worker-2"}, {3, 1, "worker-3"}});
  StartSynchronous(3, /*backup=*/0);
  Train(30, {{1, 1.0}, {2, 1.0}, {3, 2.5}});
  EXPECT_THAT(dispatcher_.Tick("s").slow,
              ElementsAre("worker-3 is slow: its steps take 2.5 times as long as those of the "
                          "median worker, and it gets fewer of them"));
  EXPECT_THAT(dispatcher_.Tick("s").slow, IsEmpty());
  clock_.Advance(absl::Minutes(10));
  EXPECT_THAT(dispatcher_.Tick("s").slow, SizeIs(1));
}

TEST_F(StragglerTest, SlowWorkerGetsSmallerLeases) {
  SetWorkers({{1, 1, "worker-1"}, {2, 1, "worker-2"}});
  SetRoute route;
  route.set_job_id("s");
  route.mutable_routing()->set_generation(1);
  dispatcher_.Start({.total_steps = 100'000, .replicas = 0, .staleness_bound = 63}, route,
                    AppliedSet(), /*barrier=*/100'000);
  started_.insert("s");
  PrepareAll("s");
  Train(500, {{1, 1.0}, {2, 4.0}});
  std::map<uint64_t, uint64_t> newest;
  for (size_t n = 0; n < outbox_.leases.size(); ++n) {
    newest[outbox_.workers[n]] = outbox_.leases[n].end() - outbox_.leases[n].begin();
  }
  EXPECT_EQ(newest[1], 16u);
  EXPECT_EQ(newest[2], 4u);
}

// Its steps held up the window, and with it everybody: 4 to 14 times.
TEST_F(StragglerTest, SlowWorkerDoesNotHoldUpASmallWindow) {
  SetWorkers({{1, 2}, {2, 2}});
  StartAsynchronous(/*staleness_bound=*/4);
  const absl::Duration took = Run(2000, {{1, 1.0}, {2, 10.0}});
  EXPECT_LT(took, absl::Seconds(2000 * 1.1)) << "2000 s without the slow one";
}

TEST_F(StragglerTest, SlowWorkerDoesNotHoldUpSmallVersions) {
  SetWorkers({{1, 2}, {2, 2}});
  StartSynchronous(/*replicas=*/4, /*backup=*/0, /*total_steps=*/100'000);
  const absl::Duration took = Run(2000, {{1, 1.0}, {2, 10.0}});
  EXPECT_LT(took, absl::Seconds(2000 * 1.1)) << "2000 s without the slow one";
}

TEST_F(StragglerTest, WorkerThatIsNotTooSlowForTheWindowHelps) {
  SetWorkers({{1, 1}, {2, 1}});
  StartAsynchronous(4);
  const absl::Duration took = Run(2000, {{1, 1.0}, {2, 2.5}});
  EXPECT_LT(took, absl::Seconds(1500)) << "2000 s without the slower one";
}

TEST_F(StragglerTest, WorkerThatIsNotTooSlowForAVersionHelps) {
  SetWorkers({{1, 1}, {2, 1}});
  StartSynchronous(/*replicas=*/4, /*backup=*/0, /*total_steps=*/100'000);
  const absl::Duration took = Run(2000, {{1, 1.0}, {2, 2.5}});
  EXPECT_LT(took, absl::Seconds(1600)) << "2000 s without the slower one";
}

TEST_F(StragglerTest, WorkerThatIsSlowNoLongerGetsItsShareAgain) {
  SetWorkers({{1, 2}, {2, 2}});
  StartAsynchronous(4);
  Run(1000, {{1, 1.0}, {2, 10.0}});
  Run(10'000, {{1, 1.0}, {2, 1.0}});
  const JobView view = dispatcher_.View("s");
  EXPECT_GT(view.workers.at(1).share, 0.3);
}

// Workers without faults come first, but one that is held back is none of those.
TEST_F(StragglerTest, StepThatASlowWorkerDoesNotGetGoesToOneThatHasFailed) {
  SetWorkers({{1, 1}, {2, 1}, {3, 1}});
  StartSynchronous(/*replicas=*/4, /*backup=*/0, /*total_steps=*/100'000);
  Run(400, {{1, 1.0}, {2, 1.0}, {3, 10.0}});
  const uint64_t before = dispatcher_.View("s").workers.at(1).steps_done;
  size_t of_second = outbox_.leases.size() - 1;
  while (outbox_.workers[of_second] != 2) --of_second;
  GiveBack(of_second, absl::StatusCode::kUnavailable);
  queues_[2].clear();
  Run(480, {{1, 1.0}, {2, 1.0}, {3, 10.0}});
  EXPECT_GT(dispatcher_.View("s").workers.at(1).steps_done, before + 20);
}

TEST_F(StragglerTest, SlowWorkerGoesOnWhereTheFasterOneIsStuck) {
  SetWorkers({{1, 2}, {2, 2}});
  StartAsynchronous(4);
  Run(1000, {{1, 1.0}, {2, 10.0}});
  const uint64_t before = dispatcher_.View("s").workers.at(1).steps_done;
  Run(1010, {{2, 10.0}});
  EXPECT_GE(dispatcher_.View("s").workers.at(1).steps_done, before + 5);
}

TEST_F(StragglerTest, ViewTellsOfSharesAndSlowness) {
  SetWorkers({{1, 1, "worker-1"}, {2, 1, "worker-2"}});
  StartSynchronous(2, /*backup=*/0);
  Train(20, {{1, 1.0}, {2, 3.0}});
  const JobView view = dispatcher_.View("s");
  ASSERT_THAT(view.workers, SizeIs(2));
  EXPECT_NEAR(view.workers[0].slowness, 1, 1e-9);
  EXPECT_NEAR(view.workers[1].slowness, 3, 1e-9);
  EXPECT_NEAR(view.workers[0].share + view.workers[1].share, 1, 1e-9);
  EXPECT_EQ(view.workers[0].steps_done + view.workers[1].steps_done, 20u);
  EXPECT_EQ(view.workers[1].step_time, absl::Seconds(3));
}

}  // namespace
}  // namespace millrace::coordinator
