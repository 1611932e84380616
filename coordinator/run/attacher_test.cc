// How a new job makes its shards while it waits for servers and their memory; and how a running one
// makes them again while it has nothing to make them of.
#include "coordinator/run/attacher.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/checkpoint/checkpoint_finder.h"
#include "coordinator/journal/new_journal.h"
#include "coordinator/membership/silent_link.h"
#include "coordinator/run/notices_of.h"
#include "coordinator/testing/fake_checkpoint.h"
#include "coordinator/testing/fake_cluster.h"
#include "coordinator/testing/fake_ps.h"
#include "coordinator/testing/fake_worker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kNewJob[] = "j-1";

int64_t CountOf(const std::string& text, const std::vector<std::string>& notices) {
  return std::count_if(notices.begin(), notices.end(),
                       [&](const std::string& notice) { return absl::StrContains(notice, text); });
}

// Time passes as fast as its one user waits: a wait ends at once, at its deadline.
class PassingClock final : public Clock {
 public:
  absl::Time Now() override {
    MutexLock lock(&mutex_);
    return now_;
  }
  bool WaitUntil(CondVar* /*condition*/, Mutex* mutex, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    mutex->Unlock();
    {
      MutexLock lock(&mutex_);
      now_ = std::max(now_, deadline);
    }
    if (on_wait_) on_wait_();
    mutex->Lock();
    return true;
  }

  // Runs whenever somebody has waited.
  void set_on_wait(std::function<void()> on_wait) { on_wait_ = std::move(on_wait); }

 private:
  Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
  std::function<void()> on_wait_;
};

// A job with a shard on each of the servers.
class AttacherTest : public testing::Test {
 protected:
  static constexpr int kServers = 3;

  void SetUp() override {
    JobRecord record = PendingJob();
    for (int i = 0; i < kServers; ++i) {
      servers_.push_back(std::make_unique<FakePs>(absl::StrCat("ps-", i)));
      servers_[i]->Serve();
      record.add_shards()->set_directory_id(servers_[i]->directory_id());
      record.mutable_shards(i)->set_server(absl::StrCat("ps-", i));
    }
    environment_.registry = &registry_;
    environment_.clock = &clock_;
    SetJob(record);
  }

  uint64_t Join(int server) {
    RegisterPs ps;
    ps.set_name(absl::StrCat("ps-", server));
    ps.set_directory_id(servers_[server]->directory_id());
    ps.set_address(servers_[server]->address());
    return registry_.AddPs(ps, std::make_shared<SilentLink>()).value();
  }

  // Runs `at` after each wait until it returns true; then nothing else happens until attaching ends
  // or `limit` has passed. Returns whether it has ended.
  bool Attach(
      absl::Duration limit, std::function<bool()> at = [] { return true; }) {
    const absl::Time end = clock_.Now() + limit;
    bool done = false;
    clock_.set_on_wait([&, at = std::move(at)] {
      if (!done) done = at();
      if (clock_.Now() >= end) inbox_.Interrupt(absl::CancelledError("enough"));
    });
    ShardGroup shards(job_->record(), &registry_);
    Attacher attacher(job_.get(), &environment_, &inbox_, reporter_.get());
    const auto attached = attacher.Attach(shards);
    clock_.set_on_wait(nullptr);
    EXPECT_TRUE(attached.ok() || absl::IsCancelled(attached.status())) << attached.status();
    EXPECT_TRUE(done);
    return attached.ok();
  }

  // The job runs, and is about to make its shards again from its checkpoint.
  void LoseAllShards() {
    spec_ = PlainJob(60);
    spec_.mutable_checkpoints()->set_directory(NewCheckpointDirectory());
    WriteCheckpoint();
    const std::string& directory = spec_.checkpoints().directory();
    const auto found = FindCheckpoint(RealFileSystem(), directory, kNewJob, /*written=*/0, {});
    ASSERT_TRUE(found.ok() && found->checkpoint) << found.status();
    JobRecord record = job_->record();
    *record.mutable_spec() = spec_;
    *record.mutable_plan() = PlainPlan();
    record.set_total_steps(60);
    record.mutable_remake()->set_cause("the disks are gone");
    for (int i = 0; i < kServers; ++i) {
      ShardPlacement& shard = *record.mutable_shards(i);
      shard.add_slices()->set_variable(static_cast<uint32_t>(i));
      shard.mutable_slices(0)->set_length(record.plan().variables(i).shape(0));
      shard.set_making(ShardPlacement::TO_BE_DROPPED);
      *shard.mutable_restore() = *found->checkpoint;
    }
    SetJob(record);
    ASSERT_TRUE(job_->SetState(RUNNING, "").ok());
  }

  void WriteCheckpoint() {
    WriteFakeCheckpoint(
        spec_.checkpoints().directory(),
        {.job_id = kNewJob, .spec = spec_, .plan = PlainPlan(), .applied = {StepsBefore(10)}});
  }

  using Failing = std::array<std::atomic<bool>, kServers>;
  // Servers answer with an error from now on where the test says so.
  std::shared_ptr<Failing> FailingServers() {
    const auto failing = std::make_shared<Failing>();
    for (int i = 0; i < kServers; ++i) {
      const auto call = [failing, i] {
        return (*failing)[i] ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk")
                             : grpc::Status::OK;
      };
      servers_[i]->set_on_drop(call);
      servers_[i]->set_on_get(call);
    }
    return failing;
  }

  // Attaches wherever the shards are placed again; gives up after `limit`. Runs `on_wait` after
  // each wait.
  absl::Status AttachSomewhere(
      absl::Duration limit, const std::function<void()>& on_wait = [] {}) {
    const absl::Time end = clock_.Now() + limit;
    clock_.set_on_wait([&] {
      if (clock_.Now() > end) inbox_.Interrupt(absl::CancelledError("enough"));
      on_wait();
    });
    Attacher attacher(job_.get(), &environment_, &inbox_, reporter_.get());
    for (;;) {
      ShardGroup shards(job_->record(), &registry_);
      const auto attached = attacher.Attach(shards);
      if (attached.ok() && !*attached) continue;
      clock_.set_on_wait(nullptr);
      return attached.status();
    }
  }

  // Waits as for a journal that gives this error.
  void WaitForJournal(const std::string& error) {
    EXPECT_EQ(reporter_->WaitForJournal(absl::UnavailableError(error)), absl::OkStatus());
  }

  void SetJob(const JobRecord& record) {
    reporter_.reset();
    job_ = std::make_unique<Job>(record, /*last_event=*/0, journal_.get(), &clock_);
    reporter_ = std::make_unique<Reporter>(job_.get(), &environment_, &inbox_);
  }

  PassingClock clock_;
  MemberRegistry registry_{absl::Hours(1), &clock_};
  RunnerEnvironment environment_;
  std::vector<std::unique_ptr<FakePs>> servers_;
  const std::unique_ptr<Journal> journal_ = OpenNewJournal();
  std::unique_ptr<Job> job_;

 private:
  RunnerInbox inbox_{&clock_};
  JobSpec spec_;
  std::unique_ptr<Reporter> reporter_;
};

// RocksDB names a file, and each try begins another one: there was a notice a second.
TEST_F(AttacherTest, JobThatWaitsForTheJournalSaysSoAgainOnlyWhereTheReasonIsAnother) {
  WaitForJournal("cannot write the database: No space left: /d/000012.log");
  WaitForJournal("cannot write the database: No space left: /d/000013.log");
  EXPECT_THAT(job_->Status().message(), HasSubstr("/d/000013.log), for "));
  WaitForJournal("cannot write the database: Input/output error: /d/000014.log");
  EXPECT_EQ(
      NoticesOf(*job_),
      (std::vector<std::string>{"waits for the coordinator's journal (it cannot be written: cannot "
                                "write the database: No space left: /d/000012.log)",
                                "waits for the coordinator's journal (it cannot be written: cannot "
                                "write the database: Input/output error: /d/000014.log)"}));
}

// It had a part of the servers' memory, and the turn to wait for more, for as long as a server
// stayed away: jobs that could have run waited with it.
TEST_F(AttacherTest, NewJobThatWaitsForAServerDoesNotKeepMemoryOfOthersForLong) {
  for (int i = 0; i < 2; ++i) Join(i);
  const uint64_t last = Join(2);
  servers_[2]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "not enough memory");
  });
  const absl::Time begin = clock_.Now();
  absl::Time gone_at = absl::InfiniteFuture();
  const bool attached = Attach(absl::Minutes(10), [&] {
    if (gone_at == absl::InfiniteFuture()) {
      EXPECT_FALSE(environment_.memory_turn->Take("another"));
      EXPECT_THAT(servers_[0]->Shards(kNewJob), SizeIs(1)) << "it has the turn";
      if (clock_.Now() - begin < absl::Minutes(1)) return false;
      registry_.Remove(last, "it was killed");
      gone_at = clock_.Now();
    }
    if (clock_.Now() - gone_at < absl::Seconds(30)) return false;
    EXPECT_TRUE(environment_.memory_turn->Take("another"));
    for (int i = 0; i < 2; ++i) EXPECT_THAT(servers_[i]->Shards(kNewJob), IsEmpty());
    servers_[2]->set_on_create(nullptr);
    Join(2);
    return true;
  });
  EXPECT_TRUE(attached) << "it makes them again";
}

TEST_F(AttacherTest, NewJobThatAServerRefusesDoesNotKeepMemoryOfOthersForLong) {
  for (int i = 0; i < kServers; ++i) Join(i);
  servers_[1]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is full");
  });
  EXPECT_FALSE(Attach(absl::Minutes(1)));
  EXPECT_TRUE(environment_.memory_turn->Take("another"));
  EXPECT_THAT(servers_[0]->Shards(kNewJob), IsEmpty());
}

class PlacedElsewhereTest : public AttacherTest {
 protected:
  void SetUp() override {
    AttacherTest::SetUp();
    JobRecord record = job_->record();
    record.set_was_placed_elsewhere(true);
    for (ShardPlacement& shard : *record.mutable_shards()) {
      shard.set_making(ShardPlacement::TO_BE_DROPPED);
    }
    SetJob(record);
    for (int i = 0; i < kServers; ++i) Join(i);
  }

  // Of the placement before: another shard than what is to be made.
  void MakeLeftover() {
    CreateShardRequest request;
    request.mutable_spec()->set_job_id(kNewJob);
    request.mutable_spec()->set_shard(1);
    request.mutable_spec()->set_replicas(7);
    request.set_generation(1);
    ShardStatus status;
    EXPECT_TRUE(servers_[1]->CreateShard(nullptr, &request, &status).ok());
  }
};

TEST_F(PlacedElsewhereTest, WhatIsLeftOfThePlacementBeforeGoesFirst) {
  MakeLeftover();
  EXPECT_EQ(AttachSomewhere(absl::InfiniteDuration()), absl::OkStatus());
  EXPECT_EQ(servers_[1]->SpecOf(kNewJob, 1)->replicas(), 0u);
}

TEST_F(PlacedElsewhereTest, WhatIsMadeOfThePlacementBeforeAfterAllIsDroppedAgain) {
  std::atomic<int> calls{0};
  servers_[1]->set_on_create([&](const std::string& /*job_id*/) {
    if (++calls == 1) MakeLeftover();
    return grpc::Status::OK;
  });
  EXPECT_EQ(AttachSomewhere(absl::Minutes(1)), absl::OkStatus());
  EXPECT_EQ(servers_[1]->SpecOf(kNewJob, 1)->replicas(), 0u);
}

// Its first servers had room for it, and may be back.
TEST_F(PlacedElsewhereTest, JobThatHasNoRoomThereWaits) {
  servers_[1]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "needs more memory than there is");
  });
  EXPECT_FALSE(Attach(absl::Minutes(1)));
  EXPECT_THAT(job_->Status().message(), HasSubstr("needs more memory than there is"));
}

TEST_F(PlacedElsewhereTest, ServerThatCannotDropWhatIsLeftThereIsLeft) {
  MakeLeftover();
  servers_[1]->set_on_drop([] { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk"); });
  const absl::Time begin = clock_.Now();
  EXPECT_TRUE(Attach(absl::Hours(1))) << "it is to be placed again";
  EXPECT_GE(clock_.Now() - begin, environment_.restore_grace);
  EXPECT_THAT(job_->record().shards(), IsEmpty());
}

// It did not make way for others where another server had another trouble.
TEST_F(AttacherTest, ErrorThatPassesDoesNotHideThatThereIsNoMemory) {
  for (int i = 0; i < kServers; ++i) Join(i);
  servers_[0]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow");
  });
  servers_[2]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "not enough memory");
  });
  EXPECT_TRUE(environment_.memory_turn->Take("another"));
  EXPECT_FALSE(Attach(absl::ZeroDuration()));
  EXPECT_THAT(servers_[1]->Shards(kNewJob), IsEmpty());
}

// Up to that step the coordinator counted, until there was no memory left.
TEST_F(AttacherTest, JobSaysWhichServerTellsOfAStepThatItHasNotGot) {
  for (int i = 0; i < kServers; ++i) Join(i);
  ASSERT_TRUE(job_->Update([](JobRecord& record) { record.set_total_steps(60); }).ok());
  servers_[1]->set_says_step(uint64_t{1} << 60);
  const bool attached = Attach(absl::Minutes(5), [&] {
    EXPECT_THAT(job_->Status().message(),
                AllOf(HasSubstr("waits for ps-1"),
                      HasSubstr("shard 1: it says that it has step 1152921504606846976, and the "
                                "job has steps 0 to 59")));
    servers_[1]->set_says_step(absl::nullopt);
    return true;
  });
  EXPECT_TRUE(attached) << "it says so no more";
}

// It was refused for ever what it asked of that shard.
TEST_F(AttacherTest, GenerationOfAStrangerDoesNotKeepAJobFromBeingPlacedAgain) {
  for (int i = 0; i < 2; ++i) Join(i);
  const uint64_t lost = Join(2);
  servers_[2]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk is slow");
  });
  const bool ended = Attach(absl::Minutes(10), [&] {
    SetGenerationRequest request;
    request.set_job_id(kNewJob);
    request.set_generation(1000);
    ShardStatus status;
    EXPECT_TRUE(servers_[0]->SetGeneration(nullptr, &request, &status).ok());
    registry_.Remove(lost, "its disk is replaced");
    servers_[2]->ReplaceDisk();
    Join(2);
    return true;
  });
  EXPECT_TRUE(ended) << "it is to be placed again";
  EXPECT_THAT(job_->record().shards(), IsEmpty());
  for (int i = 0; i < 2; ++i) EXPECT_THAT(servers_[i]->Shards(kNewJob), IsEmpty());
}

// It made and dropped its shards every other second, and wrote as many notices: they say how much
// memory there is.
TEST_F(AttacherTest, JobThatWaitsForOthersMemoryMakesShardsRarelyAndSaysSoOnce) {
  for (int i = 0; i < kServers; ++i) Join(i);
  EXPECT_TRUE(environment_.memory_turn->Take("another"));
  std::atomic<int> calls{0};
  servers_[1]->set_on_create([&](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        absl::StrCat("it needs 100 MiB; ", 50 + ++calls, " MiB are free"));
  });
  EXPECT_FALSE(Attach(absl::Minutes(10)));
  EXPECT_LE(calls, 25);
  const std::vector<std::string> notices = NoticesOf(*job_);
  EXPECT_EQ(CountOf("are free", notices), 1);
}

// It waited for ever, and had the servers read the damaged one every other second.
TEST_F(AttacherTest, JobWhoseOnlyCheckpointIsDamagedEndsAfterAWhileAndNamesFileAndByte) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  std::atomic<int> reads{0};
  servers_[1]->set_on_restore([&](const ShardSpec& /*spec*/) {
    ++reads;
    return absl::DataLossError("000001/shard-00001.safetensors: byte 17 is damaged");
  });
  const absl::Time begin = clock_.Now();
  const absl::Status end = AttachSomewhere(absl::InfiniteDuration(), [] {});
  EXPECT_TRUE(absl::IsDataLoss(end)) << end;
  EXPECT_THAT(std::string(end.message()),
              AllOf(HasSubstr("000001/shard-00001.safetensors: byte 17 is damaged"),
                    HasSubstr("there is no other checkpoint of the job in ")));
  EXPECT_GE(clock_.Now() - begin, environment_.member_timeout);
  EXPECT_LE(clock_.Now() - begin, environment_.member_timeout + absl::Minutes(1));
  EXPECT_LE(reads, 40);
  const std::vector<std::string> notices = NoticesOf(*job_);
  EXPECT_EQ(CountOf("/000001 cannot be used: ", notices), 1);
  EXPECT_EQ(CountOf("looks for a checkpoint every 10s, and fails after 10m", notices), 1);
}

// It was asked again and again, for ever.
TEST_F(AttacherTest, ShardThatAServerDoesNotMakeInTimeIsMadeOnAnotherOne) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  servers_[1]->set_on_create([](const std::string& /*job_id*/) {
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "its disk does not answer");
  });
  const absl::Status end = AttachSomewhere(absl::Hours(1));
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_THAT(servers_[1]->Shards(kNewJob), IsEmpty());
  EXPECT_THAT(job_->record().shards(1).server(), AnyOf("ps-0", "ps-2"));
}

TEST_F(AttacherTest, JobWhoseShardNoServerMakesInTimeEndsAfterAWhileAndNamesOne) {
  for (int i = 0; i < kServers; ++i) {
    Join(i);
    servers_[i]->set_on_create([](const std::string& /*job_id*/) {
      return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "its disk does not answer");
    });
  }
  LoseAllShards();
  const absl::Time begin = clock_.Now();
  const absl::Status end = AttachSomewhere(absl::Hours(1));
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
  EXPECT_THAT(std::string(end.message()),
              AllOf(HasSubstr("CreateShard of shard"), HasSubstr("its disk does not answer")));
  EXPECT_GE(clock_.Now() - begin, environment_.member_timeout);
  EXPECT_EQ(CountOf("no other ps server could make it", NoticesOf(*job_)), 1);
}

// What is to be made again goes first, which did not work either.
TEST_F(AttacherTest, ShardWhoseServerCannotDropWhatItHasIsMadeOnAnotherOneAfterTheGrace) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  const auto unserved = [] { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the disk"); };
  servers_[1]->set_on_drop(unserved);
  servers_[1]->set_on_get(unserved);
  const absl::Time begin = clock_.Now();
  const absl::Status end = AttachSomewhere(absl::Hours(1));
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_GE(clock_.Now() - begin, environment_.restore_grace);
  EXPECT_THAT(servers_[1]->Shards(kNewJob), IsEmpty());
  EXPECT_THAT(job_->record().shards(1).server(), AnyOf("ps-0", "ps-2"));
}

// It waited for half a day, since another one was there, which did not answer either.
TEST_F(AttacherTest, ShardGoesToAServerThatFailedBeforeWhereAllOthersFailNow) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  const auto fails = FailingServers();
  (*fails)[1] = true;
  const absl::Status end = AttachSomewhere(absl::Hours(1), [&] {
    if (job_->record().shards(1).server() == "ps-1") return;
    for (int i = 0; i < kServers; ++i) (*fails)[i] = i != 1;
  });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(job_->record().shards(1).server(), "ps-1");
}

TEST_F(AttacherTest, ShardsGoToAServerThatFailedBeforeWhereAllOthersHaveGone) {
  std::vector<uint64_t> members;
  for (int i = 0; i < kServers; ++i) members.push_back(Join(i));
  LoseAllShards();
  const auto fails = FailingServers();
  (*fails)[1] = true;
  const absl::Status end = AttachSomewhere(absl::Hours(1), [&] {
    if (job_->record().shards(1).server() == "ps-1" || !(*fails)[1]) return;
    (*fails)[1] = false;
    for (const int i : {0, 2}) registry_.Remove(members[i], "its machine died");
  });
  EXPECT_TRUE(end.ok()) << end;
  const JobRecord record = job_->record();
  for (const ShardPlacement& shard : record.shards()) EXPECT_EQ(shard.server(), "ps-1");
}

TEST_F(AttacherTest, ShardAtAStrangersGenerationIsDroppedAndMade) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  CreateShardRequest request;
  request.mutable_spec()->set_job_id(kNewJob);
  request.mutable_spec()->set_shard(1);
  request.set_generation(1000);
  ShardStatus status;
  ASSERT_TRUE(servers_[1]->CreateShard(nullptr, &request, &status).ok());
  const absl::Status end = AttachSomewhere(absl::Hours(1));
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_GT(job_->record().generation(), 1000u);
  EXPECT_TRUE(servers_[1]->SpecOf(kNewJob, 1)->has_restore());
}

TEST_F(AttacherTest, JobEndsWhereAServerRefusesToDropWhatItHas) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  servers_[1]->set_on_drop(
      [] { return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no such job_id"); });
  const absl::Status end = AttachSomewhere(absl::Hours(1));
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("no such job_id"));
}

// The record's remake goes when the shards are made, before people are told.
TEST_F(AttacherTest, ThatShardsWereMadeAgainIsKnownUntilItIsTold) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  EXPECT_FALSE(job_->record().may_lack_steps());
  const absl::Status end = AttachSomewhere(absl::InfiniteDuration());
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_FALSE(job_->record().has_remake());
  EXPECT_TRUE(job_->record().may_lack_steps());
}

TEST_F(AttacherTest, WholeCheckpointThatComesMeanwhileIsTaken) {
  for (int i = 0; i < kServers; ++i) Join(i);
  LoseAllShards();
  servers_[1]->set_on_restore([](const ShardSpec& spec) {
    return spec.restore().checkpoint() == 1 ? absl::DataLossError("byte 17 is damaged")
                                            : absl::OkStatus();
  });
  const absl::Time begin = clock_.Now();
  bool written = false;
  const absl::Status end = AttachSomewhere(absl::InfiniteDuration(), [&] {
    if (clock_.Now() - begin < absl::Minutes(5) || std::exchange(written, true)) return;
    WriteCheckpoint();
  });
  EXPECT_TRUE(end.ok()) << end;
  for (int i = 0; i < kServers; ++i) {
    EXPECT_EQ(servers_[i]->SpecOf(kNewJob, i)->restore().checkpoint(), 2u);
  }
}

}  // namespace
}  // namespace millrace::coordinator
