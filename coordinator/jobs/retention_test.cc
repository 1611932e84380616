// What becomes of ended jobs' logs and records; shards are dropped in coordinator/*_test.cc.
#include "coordinator/jobs/retention.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/membership/silent_link.h"
#include "coordinator/testing/fake_ps.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/spin/spin_until.h"

namespace millrace::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Counts the waits of who uses it.
class CountingClock final : public Clock {
 public:
  explicit CountingClock(Clock* clock) : clock_(clock) {}

  absl::Time Now() override { return clock_->Now(); }
  bool WaitUntil(CondVar* condition, Mutex* mutex, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    ++waits_;
    return clock_->WaitUntil(condition, mutex, deadline);
  }

  // Who waits now and then may have been at something until now, and waits afterwards.
  void AwaitWait() const {
    const int before = waits_;
    SpinUntil("a wait", [&] { return waits_ > before; });
  }

 private:
  Clock* const clock_;
  std::atomic<int> waits_{0};
};

class RetentionTest : public testing::Test {
 protected:
  RetentionTest() : registry_(absl::Hours(1), &clock_) {}

  // Adds a job that ended a second after the one before, with many events.
  Job& AddEnded(uint64_t number) {
    JobRecord record;
    record.set_number(number);
    record.set_job_id(absl::StrCat("j-", number));
    jobs_.push_back(std::make_shared<Job>(record, /*last_event=*/0, journal_.get(), &clock_));
    for (int i = 1; i < kEvents; ++i) jobs_.back()->events().Append(JobEvent());
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(jobs_.back()->SetState(SUCCEEDED, "").ok());
    return *jobs_.back();
  }

  // Sweeps once, and returns the jobs that were forgotten, in their order.
  std::vector<uint64_t> Sweep(const RetentionLimits& limits) {
    std::vector<uint64_t> forgotten;
    Retention retention(OptionsWith(limits, &forgotten, Clock::Real()));
    retention.Wake();
    AwaitSweeps(1);
    std::vector<uint64_t> once;
    retention.Wake();  // When the second sweep has begun the first one is over.
    AwaitSweeps(2);
    retention.Stop();
    std::set<uint64_t> seen;
    for (uint64_t number : forgotten) {
      if (seen.insert(number).second) once.push_back(number);
    }
    return once;
  }

  // Sweeps are counted from here on. What `forgotten` gets is there when the next sweep has begun.
  Retention::Options OptionsWith(const RetentionLimits& limits, std::vector<uint64_t>* forgotten,
                                 Clock* clock) {
    ForgetSweeps();
    return {.limits = limits,
            .registry = &registry_,
            .ended_jobs =
                [this] {
                  MutexLock lock(&mutex_);
                  ++sweeps_;
                  swept_.SignalAll();
                  return jobs_;
                },
            .forget =
                [forgotten](const Job& job) {
                  forgotten->push_back(job.number());
                  return absl::OkStatus();
                },
            .clock = clock};
  }

  void Join(const FakePs& server) {
    RegisterPs ps;
    ps.set_name("ps-0");
    ps.set_directory_id(server.directory_id());
    ps.set_address(server.address());
    ASSERT_TRUE(registry_.AddPs(ps, std::make_shared<SilentLink>()).ok());
  }

  static uint64_t FirstEvent(Job& job) {
    const auto read = job.events().ReadAfter(0, absl::ZeroDuration());
    return read.ok() && read->event ? read->event->sequence() : 0;
  }

  static constexpr int kEvents = 150;

  void ForgetSweeps() {
    MutexLock lock(&mutex_);
    sweeps_ = 0;
  }

  void AwaitSweeps(int sweeps) {
    const absl::Time deadline = Clock::Real()->Now() + kPatience;
    MutexLock lock(&mutex_);
    while (sweeps_ < sweeps) {
      ASSERT_FALSE(Clock::Real()->WaitUntil(&swept_, &mutex_, deadline)) << "no sweep";
    }
  }

  SimulatedClock clock_{absl::UnixEpoch() + absl::Hours(1)};
  MemberRegistry registry_;
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  std::vector<std::shared_ptr<Job>> jobs_;

  Mutex mutex_;
  CondVar swept_;
  int sweeps_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(RetentionTest, JobsThatEndedLongestAgoAreForgottenOldestFirst) {
  for (const uint64_t number : {7, 3, 5, 4}) AddEnded(number);
  EXPECT_THAT(Sweep({.shards = 0, .events = 4, .records = 2}), ElementsAre(7, 3));
}

// A thousand jobs with large specs took more memory than there was, and again after a restart.
TEST_F(RetentionTest, JobsAreForgottenWhereTheRecordsTogetherAreTooLarge) {
  uint64_t bytes = 0;
  for (const uint64_t number : {7, 3, 5, 4}) {
    const Job& job = AddEnded(number);
    if (number == 5 || number == 4) bytes += job.record_bytes();
  }
  EXPECT_THAT(Sweep({.shards = 0, .events = 4, .records = 9, .record_bytes = bytes}),
              ElementsAre(7, 3));
  EXPECT_THAT(Sweep({.shards = 0, .events = 4, .records = 9, .record_bytes = bytes - 1}),
              ElementsAre(7, 3, 5));
}

// They stayed until another job ended.
TEST_F(RetentionTest, ThoseThatMayBeAskedForAreForgottenWhenTheirTimeIsOver) {
  for (const uint64_t number : {1, 2}) AddEnded(number);
  std::vector<uint64_t> forgotten;
  CountingClock clock(&clock_);
  Retention retention(
      OptionsWith({.shards = 0, .events = 4, .records = 9, .record_bytes = 0}, &forgotten, &clock));
  retention.Wake();
  AwaitSweeps(1);
  clock.AwaitWait();
  EXPECT_THAT(forgotten, IsEmpty());
  clock_.Advance(absl::Minutes(5));
  AwaitSweeps(2);
  clock.AwaitWait();
  EXPECT_THAT(forgotten, ElementsAre(1, 2));
}

TEST_F(RetentionTest, JobThatMayStillHaveShardsIsNotForgotten) {
  Job& job = AddEnded(1);
  ASSERT_TRUE(job.Update([](JobRecord& record) {
                   ShardPlacement& shard = *record.add_shards();
                   shard.set_server("ps-0");
                   shard.set_directory_id("of a server that is away");
                 })
                  .ok());
  AddEnded(2);
  EXPECT_THAT(Sweep({.shards = 0, .events = 4, .records = 1}), IsEmpty());
  EXPECT_TRUE(job.record().shards_dropped()) << "nobody is sent to its variables any more";
  EXPECT_TRUE(job.HasShards());
}

// A server went on reading it, for as long as that took, and kept the memory for ever.
TEST_F(RetentionTest, ShardThatIsStillBeingMadeAtTheEndIsDropped) {
  FakePs server("ps-0");
  server.Serve();
  Join(server);
  Job& job = AddEnded(1);
  ASSERT_TRUE(job.Update([&](JobRecord& record) {
                   record.mutable_started();
                   record.set_generation(5);
                   ShardPlacement& shard = *record.add_shards();
                   shard.set_server("ps-0");
                   shard.set_directory_id(server.directory_id());
                   shard.set_making(ShardPlacement::TO_BE_MADE);
                 })
                  .ok());
  Sweep({});
  EXPECT_GE(server.drops(), 1);
  CreateShardRequest late;
  late.mutable_spec()->set_job_id(job.id());
  late.set_generation(4);
  ShardStatus status;
  EXPECT_TRUE(server.CreateShard(nullptr, &late, &status).ok());
  Sweep({});
  EXPECT_THAT(server.Shards(job.id()), IsEmpty());
}

TEST_F(RetentionTest, OldJobsKeepTheirLastEventsAndNewOnesAll) {
  Job& old_job = AddEnded(1);
  Job& new_job = AddEnded(2);
  Sweep({.shards = 1, .events = 1, .records = 2});
  EXPECT_EQ(FirstEvent(old_job), kEvents - 100 + 1u);
  EXPECT_EQ(FirstEvent(new_job), 1u);
  EXPECT_TRUE(old_job.events().ReadAfter(kEvents, absl::ZeroDuration())->end);
}

}  // namespace
}  // namespace millrace::coordinator
