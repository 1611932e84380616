#include "coordinator/shards/cut_planner.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "common/proto_duration.h"
#include "coordinator/shards/attach_decision.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;

std::vector<ShardStatus> At(uint64_t version, uint64_t other, uint64_t common = 0) {
  std::vector<ShardStatus> shards(2);
  shards[0].set_version(version);
  shards[1].set_version(other);
  for (ShardStatus& shard : shards) {
    if (common > 0) shard.add_cuts()->set_version(common);
  }
  return shards;
}

TEST(CutPlannerTest, VersionsBetweenCutsAreAPowerOfTwoWithinTheTarget) {
  struct Case {
    int version_ms;
    int target_ms;
    int least_ms;
    uint64_t versions;
  };
  for (const Case& c : std::vector<Case>{{0, 500, 100, 1},
                                         {1000, 500, 0, 1},
                                         {500, 500, 500, 1},
                                         {250, 500, 0, 2},
                                         {100, 500, 0, 4},
                                         {100, 500, 400, 4},
                                         {100, 500, 500, 8},
                                         {1, 10'000, 0, 8192}}) {
    EXPECT_EQ(EveryVersions(absl::Milliseconds(c.version_ms), absl::Milliseconds(c.target_ms),
                            absl::Milliseconds(c.least_ms)),
              c.versions)
        << c.version_ms << " ms, " << c.least_ms << " ms at least";
  }
}

// Two observations 100 ms a version apart: the first versions after a start are not measured.
void MeasureVersions(CutPlanner* planner, uint64_t first, absl::Time start) {
  planner->Observe(At(first, first + 1), start + absl::Seconds(5));
  planner->Observe(At(first + 10, first + 11), start + absl::Seconds(6));
}

// The one that is behind would have passed it without having heard of it.
TEST(CutPlannerTest, VersionThatOneShardHasPassedIsAskedForUntilAllHave) {
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(60, 49), /*catch_up=*/0, absl::UnixEpoch());
  planner.Want(50);
  EXPECT_EQ(planner.Plan(3, absl::UnixEpoch()).also_at(), 50u);
  planner.Observe(At(60, 50), absl::UnixEpoch() + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(3, absl::UnixEpoch()).also_at(), 0u);
}

TEST(CutPlannerTest, FirstCutsComeSoonAndThenMoreRarelyUpToThePeriod) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(0, 0), /*catch_up=*/0, start);
  EXPECT_EQ(planner.Plan(3, start).every_versions(), 1u) << "what a version takes is not known";
  EXPECT_EQ(planner.Plan(3, start).generation(), 3u);
  MeasureVersions(&planner, 1, start);
  EXPECT_EQ(planner.Plan(3, start + absl::Seconds(1)).every_versions(), 8u);
  EXPECT_EQ(planner.Plan(3, start + absl::Seconds(2)).every_versions(), 16u);
  EXPECT_EQ(planner.Plan(3, start + absl::Hours(2)).every_versions(), 64u);
}

TEST(CutPlannerTest, OfTwoVersionsThatAreWantedTheNearerOneGoesFirst) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(3, 4), /*catch_up=*/50, start);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 50u);
  planner.Want(20);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 20u);
  planner.Observe(At(20, 21), start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 50u) << "all shards have passed the nearer one";
  planner.Want(60);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 50u);
  planner.Observe(At(50, 50, 20), start + absl::Seconds(2));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 60u);
}

TEST(CutPlannerTest, VersionAheadIsOneThatNoShardHasBeforeItHearsOfIt) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(3, 4), 0, start);
  EXPECT_EQ(planner.VersionAhead(), 5u);
  MeasureVersions(&planner, 4, start);
  EXPECT_EQ(planner.VersionAhead(), 36u);
}

TEST(CutPlannerTest, CutThatIsReadStaysThoughNewerOnesAreCommon) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(30, 30, 20), 0, start);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 20u);
  CutName held;
  held.set_version(16);
  planner.Hold(held);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 16u);
  planner.Hold(absl::nullopt);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 20u);
  held.set_epoch(7);
  planner.Hold(held);
  EXPECT_EQ(planner.Plan(1, start).common().version(), 20u) << "of another epoch";
}

TEST(CutPlannerTest, SlowCutsAreTakenLessOftenThanThePeriod) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(1));
  planner.Start(At(0, 0), 0, start);
  MeasureVersions(&planner, 1, start);
  std::vector<ShardStatus> shards = At(11, 11);
  shards[1].mutable_cut_duration()->set_seconds(10);
  planner.Observe(shards, start + absl::Seconds(7));
  EXPECT_EQ(planner.Plan(1, start + absl::Seconds(7)).every_versions(), 1024u) << "102 s";
}

TEST(CutPlannerTest, CutThatAllShardsHaveIsCommon) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(0, 0), 0, start);
  EXPECT_FALSE(planner.Plan(1, start).has_common());
  std::vector<ShardStatus> shards = At(20, 20, 8);
  shards[0].add_cuts()->set_version(16);
  planner.Observe(shards, start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start).common().version(), 8u);
  shards[1].add_cuts()->set_version(16);
  planner.Observe(shards, start + absl::Seconds(2));
  EXPECT_EQ(planner.Plan(1, start).common().version(), 16u);
}

TEST(CutPlannerTest, CutIsAskedForWhenAllHaveCaughtUp) {
  const absl::Time start = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(32, 32, 32), /*catch_up=*/100, start);
  EXPECT_EQ(planner.Plan(1, start).also_at(), 100u);
  planner.Observe(At(99, 101, 32), start + absl::Seconds(1));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 100u) << "one shard has still to take it";
  planner.Observe(At(100, 101, 64), start + absl::Seconds(2));
  EXPECT_EQ(planner.Plan(1, start).also_at(), 0u);
}

// Shards that are a millisecond apart, and take the cuts that they are told to as shards do
// (ps/cut/flusher.h): each rests nine times as long after a cut as that took, and has room for two
// that are newer than the common one, but for the one that is asked for by name. They are asked as
// Trainer asks them, and it takes time until they hear of a plan and until they are heard.
class FakeJob {
 public:
  FakeJob(absl::Duration period, absl::Duration version_time, absl::Duration way,
          std::vector<absl::Duration> writes)
      : planner_(period), version_time_(version_time), way_(way), shards_(writes.size()) {
    for (size_t i = 0; i < writes.size(); ++i) shards_[i].takes = writes[i];
  }

  // Attaches the shards and trains for so long; returns the newest common cut then. `restarted`: a
  // shard that has just come back from that of before.
  uint64_t TrainFor(absl::Duration duration, size_t restarted) {
    uint64_t caught_up = 0;
    const uint64_t common = NewestCommonCut(Statuses()).version();
    for (Shard& shard : shards_) {
      caught_up = std::max(caught_up, std::exchange(shard.version, common));
      shard.written_at = absl::InfiniteFuture();
      shard.captured = 0;
      shard.cuts.erase(shard.cuts.upper_bound(common), shard.cuts.end());
    }
    Shard& lost = shards_[restarted];
    lost = Shard{.takes = lost.takes, .version = common, .cuts = lost.cuts};
    planner_.Start(Statuses(), caught_up, now_);
    poll_at_ = now_;
    const absl::Time start = now_;
    for (const absl::Time end = now_ + duration; now_ < end; now_ += absl::Milliseconds(1)) {
      Poll();
      for (size_t i = 0; i < shards_.size(); ++i) {
        const absl::Duration trained = now_ - start - absl::Milliseconds(static_cast<int64_t>(i));
        shards_[i].Write(now_);
        if (trained >= (shards_[i].version + 1 - common) * version_time_) shards_[i].Publish(now_);
      }
    }
    return NewestCommonCut(Statuses()).version();
  }

 private:
  struct Shard {
    absl::Duration takes;
    uint64_t version = 0;
    std::set<uint64_t> cuts = {};
    absl::Time rests_until = absl::InfinitePast();
    uint64_t written = 0;
    absl::Time written_at = absl::InfiniteFuture();
    uint64_t captured = 0;
    PlanCutsRequest plan = {};

    void Hear(const PlanCutsRequest& what) {
      plan = what;
      const auto common = cuts.find(plan.common().version());
      if (common != cuts.end()) cuts.erase(cuts.begin(), common);
    }
    void Write(absl::Time now) {
      if (now >= written_at) {
        cuts.insert(written);
        rests_until = written_at + 9 * takes;
        written_at = absl::InfiniteFuture();
      }
      if (captured == 0 || written_at != absl::InfiniteFuture()) return;
      written = std::exchange(captured, 0);
      written_at = now + takes;
    }
    void Publish(absl::Time now) {
      ++version;
      const auto newer = std::distance(cuts.upper_bound(plan.common().version()), cuts.end());
      const bool allowed =
          written_at == absl::InfiniteFuture() && captured == 0 && now >= rests_until && newer < 2;
      const bool regular =
          allowed && plan.every_versions() > 0 && version % plan.every_versions() == 0;
      if (regular || version == plan.also_at()) captured = version;
    }
  };

  std::vector<ShardStatus> Statuses() const {
    std::vector<ShardStatus> statuses(shards_.size());
    for (size_t i = 0; i < shards_.size(); ++i) {
      statuses[i].set_version(shards_[i].version);
      for (const uint64_t cut : shards_[i].cuts) statuses[i].add_cuts()->set_version(cut);
      if (shards_[i].rests_until == absl::InfinitePast()) continue;
      *statuses[i].mutable_cut_duration() = ToProto(shards_[i].takes);
    }
    return statuses;
  }

  // The plan is sent, is heard and answered, and the answers are heard.
  void Poll() {
    if (now_ == poll_at_) plan_ = planner_.Plan(1, now_);
    if (now_ == poll_at_ + way_) {
      for (Shard& shard : shards_) shard.Hear(plan_);
      answers_ = Statuses();
    }
    if (now_ < poll_at_ + 2 * way_) return;
    const bool at_once = planner_.Observe(answers_, now_);
    const bool often = planner_.AwaitsFirstCommon(now_);
    const absl::Duration pause = at_once ? absl::Milliseconds(1)
                                 : often ? absl::Milliseconds(100)
                                         : absl::Seconds(1);
    poll_at_ = now_ + pause;
  }

  CutPlanner planner_;
  const absl::Duration version_time_;
  const absl::Duration way_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Time poll_at_;
  PlanCutsRequest plan_;
  std::vector<ShardStatus> answers_;
  std::vector<Shard> shards_;
};

// Whose memory is lost each time. It once went back to the same cut again and again.
TEST(CutPlannerTest, JobWhoseServersAreKilledAgainAndAgainGetsOn) {
  struct Case {
    int version_ms;
    int way_ms;
    int write_ms[2];
    int killed_after_ms;
  };
  for (const Case& c : std::vector<Case>{{5, 1, {3, 5}, 1000},
                                         {5, 20, {3, 3}, 1200},
                                         {40, 1, {5, 20}, 1000},
                                         {5, 5, {150, 120}, 1000},
                                         {40, 50, {200, 20}, 1500},
                                         {1, 1, {1, 60}, 1000}}) {
    FakeJob job(absl::Seconds(1), absl::Milliseconds(c.version_ms), absl::Milliseconds(c.way_ms),
                {absl::Milliseconds(c.write_ms[0]), absl::Milliseconds(c.write_ms[1])});
    uint64_t common = 0;
    for (size_t kill = 0; kill < 20; ++kill) {
      const uint64_t next =
          job.TrainFor(absl::Milliseconds(c.killed_after_ms), /*restarted=*/kill % 2);
      EXPECT_GT(next, common) << "after " << kill << " kills, versions of " << c.version_ms
                              << " ms, cuts of " << c.write_ms[0] << " and " << c.write_ms[1]
                              << " ms, " << c.way_ms << " ms away";
      common = next;
    }
  }
}

TEST(CutPlannerTest, SlowAnswersDoNotKeepShardsFromACommonCut) {
  FakeJob job(absl::Seconds(1), absl::Milliseconds(5), /*way=*/absl::Milliseconds(400),
              {absl::Milliseconds(3), absl::Milliseconds(5)});
  uint64_t common = 0;
  for (size_t kill = 0; kill < 10; ++kill) {
    const uint64_t next = job.TrainFor(absl::Seconds(8), /*restarted=*/kill % 2);
    EXPECT_GT(next, common) << "after " << kill << " kills";
    common = next;
  }
}

TEST(CutPlannerTest, JobThatIsLeftAloneLosesNoMoreThanAPeriodOrTwo) {
  for (int seconds = 5; seconds < 20; ++seconds) {
    FakeJob job(absl::Seconds(1), absl::Milliseconds(5), /*way=*/absl::Milliseconds(1),
                {absl::Milliseconds(20), absl::Milliseconds(30)});
    EXPECT_GT(job.TrainFor(absl::Seconds(seconds), /*restarted=*/0), (seconds - 2) * 200u);
  }
}

// Workers that take a thousand times as long came in place of others.
TEST(CutPlannerTest, WhatWasAskedForFarAheadOfShardsThatHaveBecomeSlowIsAskedForAnew) {
  absl::Time now = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(10));
  planner.Start(At(0, 0), 0, now);
  planner.Observe(At(1, 1), now);
  planner.Observe(At(10'001, 10'001), now + absl::Seconds(1));
  now += absl::Seconds(2);
  planner.Start(At(10'001, 10'001), 0, now);
  EXPECT_GT(planner.Plan(1, now).also_at(), 11'000u);
  uint64_t version = 10'001;
  while (version < 10'040) {
    now += absl::Seconds(1);
    ++version;
    planner.Observe(At(version, version), now);
  }
  EXPECT_LT(planner.Plan(1, now).also_at(), version + 10);
}

// Shards that leave out different cuts would have none in common for ever.
TEST(CutPlannerTest, OverdueCommonCutIsAskedForAheadOfAllShards) {
  absl::Time now = absl::UnixEpoch();
  CutPlanner planner(absl::Seconds(1));
  planner.Start(At(0, 0), 0, now);
  uint64_t version = 0;
  bool told_at_once = false;
  for (int i = 0; i < 100 && !told_at_once; ++i) {
    now += absl::Seconds(1);
    version += 10;
    told_at_once = planner.Observe(At(version, version + 1), now);
  }
  const uint64_t asked = planner.Plan(1, now).also_at();
  EXPECT_GT(asked, version + 1);
  EXPECT_LT(asked, version + 40);
  planner.Observe(At(version + 1, version + 2), now + absl::Milliseconds(100));
  EXPECT_EQ(planner.Plan(1, now).also_at(), asked) << "it stays until it is reached";
}

// What versions take is known then. Shards that have passed what was asked for are asked for more,
// each time after twice as long: a large shard's cut takes its time.
TEST(CutPlannerTest, FirstCutAfterAStartIsAskedForAtOnceAndAgainWhereItDoesNotCome) {
  absl::Time now = absl::UnixEpoch();
  CutPlanner planner(absl::Minutes(10));
  planner.Start(At(0, 0), 0, now);
  MeasureVersions(&planner, 1, now);
  now += absl::Seconds(7);
  planner.Start(At(11, 11), /*catch_up=*/1000, now);
  EXPECT_EQ(planner.Plan(1, now).also_at(), 14u) << "200 ms ahead";
  EXPECT_TRUE(planner.AwaitsFirstCommon(now));
  std::vector<absl::Duration> pauses;
  std::vector<uint64_t> ahead;
  absl::Time asked_at = now;
  for (uint64_t version = 12; version < 300; ++version) {
    now += absl::Milliseconds(100);
    if (!planner.Observe(At(version, version), now)) continue;
    pauses.push_back(now - std::exchange(asked_at, now));
    ahead.push_back(planner.Plan(1, now).also_at() - version);
  }
  EXPECT_THAT(ahead, ElementsAre(5, 9, 17, 21)) << "up to two seconds";
  for (size_t i = 1; i < pauses.size(); ++i) EXPECT_GT(pauses[i], 1.5 * pauses[i - 1]);
  EXPECT_FALSE(planner.AwaitsFirstCommon(now)) << "it is not asked often for long";
}

}  // namespace
}  // namespace millrace::coordinator
