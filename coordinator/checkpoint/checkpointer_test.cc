// With scripted shards, whose files are real, and the real directory.
#include "coordinator/checkpoint/checkpointer.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/proto_duration.h"
#include "common/proto_time.h"
#include "coordinator/testing/fake_shard_files.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_file_system.h"

namespace millrace::coordinator {
namespace {

using ::millrace::testing::Fault;
using ::millrace::testing::FaultFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kSavedJob[] = "j-1";
constexpr uint64_t kSavedSteps = 1000;

ShardSpec SpecOf(uint32_t shard) {
  ShardSpec spec;
  spec.set_job_id(kSavedJob);
  spec.set_shard(shard);
  ShardSlice& slice = *spec.add_slices();
  slice.set_variable_name("w");
  slice.mutable_slice()->set_offset(shard * 10);
  slice.mutable_slice()->set_length(10);
  spec.mutable_optimizer()->mutable_sgd();
  return spec;
}

// They write when the test says so.
class ScriptedShards final : public CheckpointShards {
 public:
  explicit ScriptedShards(int count) : states(count) {}

  void StartWrite(const WriteCheckpointRequest& asked, std::function<void()> on_end) override {
    ASSERT_FALSE(request);
    request = asked;
    on_end_ = std::move(on_end);
  }
  absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> TakeWritten() override {
    auto taken = std::exchange(answer_, absl::nullopt);
    if (taken) request.reset();
    return taken;
  }
  void CancelWrite() override {
    request.reset();
    answer_.reset();
    ++cancelled;
  }
  absl::Status UnpinCut(uint64_t /*generation*/, const std::string& cut_id) override {
    unpinned.push_back(cut_id);
    return absl::OkStatus();
  }

  // Each shard writes what `states` has of it.
  void Write() {
    std::vector<WriteCheckpointResponse> answers;
    for (uint32_t i = 0; i < states.size(); ++i) {
      const auto written = WriteFakeShard(*request, SpecOf(i), states[i]);
      ASSERT_TRUE(written.ok()) << written.status();
      *answers.emplace_back().mutable_shard() = *written;
      answers.back().set_extra_memory(i + 1);
    }
    End(std::move(answers));
  }
  void End(absl::StatusOr<std::vector<WriteCheckpointResponse>> answer) {
    answer_ = std::move(answer);
    on_end_();
  }
  void SetStates(uint64_t watermark, uint64_t version = 0, uint64_t epoch = 0) {
    for (ShardStatus& state : states) {
      state.mutable_applied()->set_watermark(watermark);
      state.set_version(version);
      state.set_epoch(epoch);
    }
  }

  std::vector<ShardStatus> states;
  absl::optional<WriteCheckpointRequest> request;  // That is under way.
  int cancelled = 0;
  std::vector<std::string> unpinned;

 private:
  std::function<void()> on_end_;
  absl::optional<absl::StatusOr<std::vector<WriteCheckpointResponse>>> answer_;
};

// Does not answer while its gate is shut.
class HangingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  HangingFileSystem() : rocksdb::FileSystemWrapper(RealFileSystem()) {}
  const char* Name() const override { return "HangingFileSystem"; }
  rocksdb::IOStatus GetChildren(const std::string& path, const rocksdb::IOOptions& options,
                                std::vector<std::string>* children,
                                rocksdb::IODebugContext* debug) override {
    gate.Pass();
    return FileSystemWrapper::GetChildren(path, options, children, debug);
  }
  Gate gate;
};

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest()
      : directory_(absl::StrCat(::testing::TempDir(), "/checkpointer-", getpid(), "-",
                                ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    spec_.mutable_checkpoints()->set_directory(directory_);
    spec_.mutable_checkpoints()->mutable_period()->set_seconds(600);
    spec_.mutable_optimizer()->mutable_sgd();
    clock_.Advance(absl::Hours(9));
  }
  ~CheckpointerTest() override { std::filesystem::remove_all(directory_); }

  void Open(const FileSystemPtr& file_system = RealFileSystem()) {
    checkpointer_ = std::make_unique<Checkpointer>(
        Checkpointer::Options{.spec = spec_,
                              .owner = owner_,
                              .total_steps = kSavedSteps,
                              .newest = newest_,
                              .describe_job =
                                  [](CheckpointManifest* manifest) {
                                    manifest->mutable_plan()->set_train_examples(7);
                                  },
                              .wake = [this] { Wake(); },
                              .file_system = file_system,
                              .clock = &clock_},
        &requests_);
    Attach();
  }
  void Attach(uint64_t watermark = 0) {
    checkpointer_->Attach({.shards = &shards_,
                           .count = static_cast<int>(shards_.states.size()),
                           .generation = 3,
                           .epoch = 2,
                           .watermark = watermark});
  }
  // Has found out what there is in the directory.
  void OpenIdle() {
    Open();
    AwaitIdle();
  }

  void Wake() {
    MutexLock lock(&mutex_);
    ++wakes_;
    woken_.SignalAll();
  }

  void At(uint64_t step) {
    situation_.applied = situation_.watermark = step;
    shards_.SetStates(step);
  }
  void Advance() { checkpointer_->Advance(situation_); }

  // Advances whenever something has ended, until `reached`.
  void AwaitThat(const std::function<bool()>& reached) {
    const absl::Time deadline = Clock::Real()->Now() + absl::Seconds(60);
    for (;;) {
      int wakes = 0;
      {
        MutexLock lock(&mutex_);
        wakes = wakes_;
      }
      Advance();
      if (reached()) return;
      MutexLock lock(&mutex_);
      while (wakes_ == wakes) {
        ASSERT_FALSE(Clock::Real()->WaitUntil(&woken_, &mutex_, deadline)) << "nothing ends";
      }
    }
  }
  void AwaitIdle() {
    AwaitThat([this] { return !checkpointer_->under_way(); });
  }
  void AwaitWriting() {
    AwaitThat([this] { return shards_.request.has_value(); });
  }
  // One that is due, from its beginning to its end.
  void WriteOne() {
    AwaitWriting();
    shards_.Write();
    AwaitIdle();
  }
  void AwaitMayEnd(const absl::optional<CutName>& cut = absl::nullopt) {
    AwaitThat([&] { return checkpointer_->MayEnd(cut); });
  }

  // What becomes of a request.
  std::shared_ptr<absl::optional<absl::StatusOr<CheckpointInfo>>> Request(
      const std::string& cause = "a client asked for it", bool urgent = false) {
    auto result = std::make_shared<absl::optional<absl::StatusOr<CheckpointInfo>>>();
    requests_.Add({cause, urgent, [result](const auto& info) { *result = info; }});
    return result;
  }

  std::vector<uint64_t> Numbers() {
    std::vector<uint64_t> numbers;
    const auto listed = CheckpointDirectory(RealFileSystem(), directory_).List();
    if (!listed.ok()) return numbers;
    for (const auto& each : *listed) numbers.push_back(each.number);
    return numbers;
  }
  CheckpointManifest Manifest(uint64_t number) {
    const auto listed = CheckpointDirectory(RealFileSystem(), directory_).List();
    for (const auto& each : listed.value()) {
      if (each.number == number) return each.manifest.value();
    }
    ADD_FAILURE() << "no checkpoint " << number;
    return {};
  }
  std::vector<std::string> Folders() {
    std::vector<std::string> folders;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.is_directory()) folders.push_back(entry.path().filename());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
  }

  // Of a synchronous job with two contributions: shards at `version`, with these cuts.
  void AtVersion(uint64_t version, const std::vector<uint64_t>& cuts) {
    situation_.applied = situation_.watermark = 2 * version;
    situation_.newest_version = version;
    situation_.version_ahead = version + 20;
    for (ShardStatus& state : shards_.states) {
      state.set_version(version);
      state.set_epoch(2);
      state.clear_cuts();
      for (const uint64_t cut : cuts) {
        state.add_cuts()->set_epoch(2);
        state.mutable_cuts(state.cuts_size() - 1)->set_version(cut);
      }
    }
    situation_.shards = shards_.states;
  }
  void WriteCut(uint64_t version) {
    AwaitWriting();
    EXPECT_EQ(shards_.request->cut().version(), version);
    EXPECT_EQ(shards_.request->cut().epoch(), 2u);
    const std::vector<ShardStatus> before = shards_.states;
    shards_.SetStates(2 * version, version, 2);
    shards_.Write();
    AwaitIdle();
    shards_.states = before;
    situation_.shards = shards_.states;
  }

  const std::string directory_;
  SimulatedClock clock_;
  JobSpec spec_;
  CheckpointOwner owner_{.job_id = kSavedJob, .earlier_job_ids = {}};
  CheckpointInfo newest_;
  CheckpointRequests requests_;
  ScriptedShards shards_{2};
  std::unique_ptr<Checkpointer> checkpointer_;
  Checkpointer::Situation situation_;

 private:
  Mutex mutex_;
  CondVar woken_;
  int wakes_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(CheckpointerTest, OneThatIsDueIsWrittenAndTold) {
  OpenIdle();
  At(17);
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  EXPECT_EQ(shards_.request->generation(), 3u);
  EXPECT_EQ(shards_.request->directory(), directory_);
  EXPECT_EQ(shards_.request->state_case(), WriteCheckpointRequest::STATE_NOT_SET);
  clock_.Advance(absl::Seconds(5));
  shards_.Write();
  AwaitIdle();
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].number(), 1u);
  EXPECT_EQ(ended[0].cause(), "every 10m");
  EXPECT_EQ(ended[0].error(), "");
  EXPECT_EQ(ended[0].step(), 17u);
  EXPECT_TRUE(ended[0].exact());
  EXPECT_GT(ended[0].bytes(), 0u);
  EXPECT_EQ(ended[0].extra_memory(), 2u);
  EXPECT_EQ(FromProto(ended[0].took()), absl::Seconds(5));
  EXPECT_EQ(ended[0].path(), directory_ + "/000001");
  EXPECT_EQ(checkpointer_->newest()->number(), 1u);
  EXPECT_EQ(checkpointer_->newest()->step(), 17u);
  const CheckpointManifest manifest = Manifest(1);
  EXPECT_EQ(manifest.job_id(), kSavedJob);
  EXPECT_EQ(manifest.plan().train_examples(), 7u);
  EXPECT_EQ(manifest.step(), 17u);
  EXPECT_THAT(manifest.shards(), SizeIs(2));
}

TEST_F(CheckpointerTest, TheNextOneRefersToTheOneBefore) {
  OpenIdle();
  for (const uint64_t step : {10, 20}) {
    At(step);
    clock_.Advance(absl::Minutes(10));
    AwaitWriting();
    EXPECT_EQ(shards_.request->base(), step == 10 ? 0u : 1u);
    shards_.Write();
    AwaitIdle();
  }
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

TEST_F(CheckpointerTest, AStateThatIsSavedIsNotSavedAgain) {
  OpenIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  WriteOne();
  clock_.Advance(absl::Hours(10));
  const auto asked = Request();
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_EQ((*asked)->value().number(), 1u);
}

TEST_F(CheckpointerTest, OldOnesGo) {
  spec_.mutable_checkpoints()->set_keep(2);
  OpenIdle();
  for (uint64_t step = 1; step <= 4; ++step) {
    At(step);
    clock_.Advance(absl::Minutes(10));
    WriteOne();
  }
  EXPECT_THAT(Numbers(), ElementsAre(3, 4));
}

TEST_F(CheckpointerTest, OneThatAShardCannotWriteIsGivenUpAndLeavesNothing) {
  OpenIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  shards_.End(absl::UnavailableError("ps-1: no space on the disk"));
  AwaitIdle();
  EXPECT_THAT(Folders(), IsEmpty());
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].error(), "ps-1: no space on the disk");
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("no space"));
  EXPECT_FALSE(checkpointer_->newest());

  At(20);
  clock_.Advance(absl::Minutes(9));
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  clock_.Advance(absl::Minutes(1));
  WriteOne();
  EXPECT_EQ(checkpointer_->trouble(), "");
  EXPECT_THAT(Numbers(), ElementsAre(2));
}

TEST_F(CheckpointerTest, AManifestThatCannotBeWrittenIsNoCheckpoint) {
  const auto faults = std::make_shared<FaultFileSystem>();
  Open(faults);
  AwaitIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  faults->Arm(0, Fault::kFull);
  shards_.Write();
  AwaitIdle();
  EXPECT_TRUE(faults->fired());
  EXPECT_THAT(Numbers(), IsEmpty());
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("manifest"));
  faults->Heal();
  At(20);
  clock_.Advance(absl::Minutes(10));
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_THAT(Folders(), ElementsAre("000002"));
}

TEST_F(CheckpointerTest, AnswersOfAnotherStateAreNoCheckpoint) {
  OpenIdle();
  At(10);
  clock_.Advance(absl::Minutes(10));
  AwaitWriting();
  std::vector<WriteCheckpointResponse> answers(2);
  shards_.End(answers);
  AwaitIdle();
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("shard 1 was asked"));
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(CheckpointerTest, ShardsThatGoWhileTheyWriteEndIt) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  checkpointer_->Detach("ps-1 went");
  EXPECT_EQ(shards_.cancelled, 1);
  ASSERT_TRUE(asked->has_value());
  EXPECT_EQ((*asked)->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("ps-1 went"));
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "ps-1 went");
  Attach(10);
  AwaitIdle();
  EXPECT_THAT(Folders(), IsEmpty());
}

TEST_F(CheckpointerTest, ShardsThatGoWhileTheFolderIsMadeEndIt) {
  const auto hanging = std::make_shared<HangingFileSystem>();
  Open(hanging);
  hanging->gate.Open();
  AwaitIdle();
  At(10);
  Request();
  Advance();
  checkpointer_->Detach("ps-1 went");
  Attach(10);
  AwaitIdle();
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "ps-1 went");
  EXPECT_FALSE(shards_.request);
}

TEST_F(CheckpointerTest, WhatAllShardsHaveWrittenCountsWhateverBecomesOfThem) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  shards_.Write();
  Advance();
  checkpointer_->Detach("ps-1 went");
  Attach(10);
  AwaitIdle();
  EXPECT_EQ((*asked)->value().number(), 1u);
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(CheckpointerTest, RequestsJoinUntilOneIsUnderWay) {
  OpenIdle();
  At(10);
  const auto first = Request();
  const auto second = Request("ps-1 stops");
  AwaitWriting();
  const auto third = Request();
  Advance();
  shards_.Write();
  At(20);
  AwaitWriting();
  EXPECT_EQ((*first)->value().number(), 1u);
  EXPECT_EQ((*second)->value().number(), 1u);
  EXPECT_FALSE(third->has_value());
  shards_.Write();
  AwaitIdle();
  EXPECT_EQ((*third)->value().number(), 2u);
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  ASSERT_THAT(ended, SizeIs(2));
  EXPECT_EQ(ended[0].cause(), "a client asked for it");
}

TEST_F(CheckpointerTest, SynchronousShardsAreAskedForTheVersionThatIsDueInTime) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(100);
  spec_.mutable_checkpoints()->clear_period();
  OpenIdle();
  AtVersion(1, {});
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 50u);
  AtVersion(52, {32});
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  AtVersion(60, {32, 50, 56});
  AwaitWriting();
  EXPECT_EQ(checkpointer_->held_cut()->version(), 50u);
  WriteCut(50);
  EXPECT_FALSE(checkpointer_->held_cut());
  EXPECT_EQ(Manifest(1).step(), 100u);
  EXPECT_TRUE(Manifest(1).exact());
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 100u);
}

TEST_F(CheckpointerTest, SynchronousShardsThatMissedTheVersionAreAskedForOneAhead) {
  spec_.mutable_synchronous()->set_replicas(2);
  spec_.mutable_checkpoints()->set_every_steps(100);
  OpenIdle();
  AtVersion(60, {32});
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  clock_.Advance(absl::Seconds(6));
  Advance();
  EXPECT_EQ(checkpointer_->wanted_version(), 80u);
  AtVersion(81, {32, 80});
  WriteCut(80);
  EXPECT_EQ(Manifest(1).step(), 160u);
}

TEST_F(CheckpointerTest, ARequestOfASynchronousJobIsForWhatIsDoneByThen) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32, 59});
  Request();
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  EXPECT_EQ(checkpointer_->wanted_version(), 80u);
  AtVersion(64, {32, 59, 64});
  WriteCut(64);
}

TEST_F(CheckpointerTest, WhoWantsToStopTakesAnOlderCutWhereNoneComes) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32, 59});
  const auto asked = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  EXPECT_TRUE(checkpointer_->awaits_cut());
  clock_.Advance(absl::Seconds(6));
  WriteCut(59);
  EXPECT_EQ((*asked)->value().step(), 118u);
  // Nothing is newer than that now.
  const auto again = Request("ps-1 stops", /*urgent=*/true);
  Advance();
  clock_.Advance(absl::Seconds(6));
  Advance();
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ((*again)->value().number(), 1u);
}

TEST_F(CheckpointerTest, RequestsOutliveShardsThatGoBeforeAnythingIsWritten) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(60, {32});
  const auto asked = Request();
  Advance();
  checkpointer_->Detach("ps-1 went");
  EXPECT_THAT(checkpointer_->TakeEnded(), IsEmpty());
  EXPECT_FALSE(asked->has_value());
  Attach(120);
  AtVersion(61, {32, 61});
  WriteCut(61);
  EXPECT_EQ((*asked)->value().number(), 1u);
}

TEST_F(CheckpointerTest, AnExactOneIsOfWhatWasPinnedAtTheBarrier) {
  spec_.mutable_checkpoints()->set_exact(true);
  spec_.mutable_checkpoints()->set_every_steps(100);
  OpenIdle();
  EXPECT_EQ(checkpointer_->BarrierFrom(1), 100u);
  EXPECT_EQ(checkpointer_->BarrierFrom(101), 200u);
  At(99);
  Advance();
  EXPECT_FALSE(checkpointer_->WantsBarrier());
  At(100);
  Advance();
  EXPECT_TRUE(checkpointer_->WantsBarrier());
  ASSERT_TRUE(checkpointer_->IsDueAt(100));
  checkpointer_->Pinned(100, absl::Milliseconds(3));
  EXPECT_FALSE(checkpointer_->IsDueAt(100));
  At(105);
  AwaitWriting();
  EXPECT_EQ(shards_.request->cut_id(), "checkpoint");
  shards_.SetStates(100);
  shards_.Write();
  AwaitIdle();
  EXPECT_THAT(shards_.unpinned, ElementsAre("checkpoint"));
  const std::vector<CheckpointEnded> ended = checkpointer_->TakeEnded();
  EXPECT_EQ(ended.at(0).step(), 100u);
  EXPECT_EQ(FromProto(ended.at(0).held_up()), absl::Milliseconds(3));
}

TEST_F(CheckpointerTest, AnExactOneThatIsNotOfThePinnedStepsIsGivenUp) {
  spec_.mutable_checkpoints()->set_exact(true);
  OpenIdle();
  At(10);
  Request();
  Advance();
  checkpointer_->Pinned(10, absl::ZeroDuration());
  At(11);
  AwaitWriting();
  shards_.Write();
  AwaitIdle();
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("not exactly those before 10"));
  EXPECT_THAT(shards_.unpinned, ElementsAre("checkpoint"));
}

TEST_F(CheckpointerTest, TheJobsEndIsSavedOnce) {
  OpenIdle();
  At(kSavedSteps);
  Advance();
  EXPECT_FALSE(checkpointer_->under_way());
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).cause(), "the job's end");
  EXPECT_EQ(Manifest(1).step(), kSavedSteps);
  // Another life of the coordinator comes to the same end.
  Open();
  Attach(kSavedSteps);
  AwaitMayEnd();
  EXPECT_FALSE(shards_.request);
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(CheckpointerTest, TheEndOfASynchronousJobIsTheCutThatWasFlushed) {
  spec_.mutable_synchronous()->set_replicas(2);
  OpenIdle();
  AtVersion(kSavedSteps / 2, {});
  Advance();
  CutName cut;
  cut.set_epoch(2);
  cut.set_version(kSavedSteps / 2);
  EXPECT_FALSE(checkpointer_->MayEnd(cut));
  WriteCut(kSavedSteps / 2);
  EXPECT_TRUE(checkpointer_->MayEnd(cut));
}

TEST_F(CheckpointerTest, AnEndThatCannotBeSavedIsTriedForAMinute) {
  OpenIdle();
  At(kSavedSteps);
  const absl::Time begin = clock_.Now();
  size_t tries = 0;
  while (!checkpointer_->MayEnd(absl::nullopt)) {
    if (checkpointer_->under_way()) {
      AwaitWriting();
      shards_.End(absl::UnavailableError("no space on the disk"));
      AwaitIdle();
      ++tries;
    }
    clock_.Advance(absl::Seconds(1));
    ASSERT_LT(clock_.Now() - begin, absl::Minutes(2));
  }
  EXPECT_GE(clock_.Now() - begin, absl::Minutes(1));
  EXPECT_GE(tries, 3u);
  EXPECT_THAT(checkpointer_->TakeEnded(), SizeIs(tries));
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("the last checkpoint is missing"));
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("no space"));
}

TEST_F(CheckpointerTest, ADirectoryThatDoesNotAnswerHoldsUpNobody) {
  const auto hanging = std::make_shared<HangingFileSystem>();
  std::filesystem::create_directory(directory_);
  Open(hanging);
  At(10);
  const auto asked = Request();
  Advance();
  hanging->gate.AwaitSomebody();
  clock_.Advance(absl::Minutes(2));
  Advance();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr(directory_ + " does not answer"));
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  clock_.Advance(absl::Minutes(2));
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("does not answer"));
  checkpointer_->Close(absl::UnavailableError("the job ends"));
  EXPECT_FALSE((*asked)->ok());
  checkpointer_.reset();
  hanging->gate.Open();
}

TEST_F(CheckpointerTest, WhatAnEarlierLifeOfTheCoordinatorLeftIsCollected) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  At(20);
  Request();
  AwaitWriting();
  ASSERT_TRUE(WriteFakeShard(*shards_.request, SpecOf(0), shards_.states[0]).ok());
  // Killed.
  shards_.request.reset();
  ASSERT_THAT(Folders(), ElementsAre("000001", "000002"));
  OpenIdle();
  EXPECT_THAT(Folders(), ElementsAre("000001"));
  ASSERT_TRUE(checkpointer_->newest());
  EXPECT_EQ(checkpointer_->newest()->step(), 10u);
}

TEST_F(CheckpointerTest, ADirectoryThatBecameAnotherRunsIsLeftAlone) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  owner_.job_id = "j-2";
  OpenIdle();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("has checkpoints of job 'j-1'"));
  At(20);
  const auto asked = Request();
  AwaitIdle();
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("two runs must not share one"));
  EXPECT_THAT(checkpointer_->TakeEnded().at(0).error(), HasSubstr("has checkpoints of job 'j-1'"));
  EXPECT_THAT(Numbers(), ElementsAre(1));

  owner_.earlier_job_ids = {kSavedJob};
  OpenIdle();
  Request();
  AwaitWriting();
  EXPECT_EQ(shards_.request->checkpoint(), 2u);
  EXPECT_EQ(shards_.request->base(), 0u);
}

TEST_F(CheckpointerTest, ANewJobIsRefusedADirectoryThatHasCheckpoints) {
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_).ok());
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  const absl::Status refused = CheckNewOwner(RealFileSystem(), spec_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has checkpoints of job 'j-1'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("restore.directory"));
  spec_.mutable_restore()->set_directory(directory_);
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_).ok());
}

TEST_F(CheckpointerTest, RequestsAreAnsweredWhenTheJobEnds) {
  OpenIdle();
  At(10);
  const auto early = Request();
  AwaitWriting();
  const auto waiting = Request();
  Advance();
  checkpointer_->Close(absl::UnavailableError("the job was cancelled"));
  EXPECT_FALSE((*early)->ok());
  EXPECT_FALSE((*waiting)->ok());
}

}  // namespace
}  // namespace millrace::coordinator
