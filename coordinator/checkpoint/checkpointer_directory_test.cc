// Directories of checkpoints that hang, or that others have taken.
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "coordinator/checkpoint/checkpointer_fixture.h"
#include "coordinator/testing/gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Calls something right before a manifest gets its name.
class CommittingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit CommittingFileSystem(std::function<void()> before)
      : rocksdb::FileSystemWrapper(RealFileSystem()), before_(std::move(before)) {}
  const char* Name() const override { return "CommittingFileSystem"; }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    if (absl::EndsWith(to, "/manifest.json")) before_();
    return FileSystemWrapper::RenameFile(from, to, options, debug);
  }

 private:
  const std::function<void()> before_;
};

// Has no room for a folder until this one is gone.
class FullFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FullFileSystem(const std::string& garbage)
      : rocksdb::FileSystemWrapper(RealFileSystem()), garbage_(garbage) {}
  const char* Name() const override { return "FullFileSystem"; }
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override {
    if (std::filesystem::exists(garbage_ + "/shard-00000.json")) {
      return rocksdb::IOStatus::NoSpace("a full disk");
    }
    return FileSystemWrapper::CreateDir(path, options, debug);
  }

 private:
  const std::string garbage_;
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
  checkpointer_->TellRequests();
  EXPECT_FALSE((*asked)->ok());
  checkpointer_.reset();
  hanging->gate.Open();
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
  checkpointer_->TellRequests();
  Attach(10);
  AwaitIdle();
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "ps-1 went");
  EXPECT_FALSE(shards_.request);
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
  EXPECT_THAT(FilesOf("000002"), ElementsAre("being-removed"));
  EXPECT_THAT(Numbers(), ElementsAre(1));
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

// Of another cluster, say, which knows nothing of this job.
TEST_F(CheckpointerTest, ADirectoryThatAnotherJobHasTakenIsLeftAlone) {
  OpenIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  shards_.Write();
  const CheckpointFiles other(RealFileSystem(), spec_.checkpoints(), {"j-2", {}});
  const auto begun = other.Begin(1, 2, /*is_first=*/true, {});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->number, 2u);
  AwaitIdle();
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("was taken by job 'j-2'"));
  EXPECT_THAT(Numbers(), IsEmpty());
  const auto again = Request();
  AwaitIdle();
  EXPECT_THAT(std::string((*again)->status().message()), HasSubstr("was taken by job 'j-2'"));
  EXPECT_THAT(Folders(), ElementsAre("000002"));
}

// It was told as written, and the other one may have taken its files for garbage.
TEST_F(CheckpointerTest, OneIsGivenUpWhenTheDirectoryIsTakenWhileItIsCommitted) {
  Open(std::make_shared<CommittingFileSystem>([this] {
    EXPECT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
  }));
  AwaitIdle();
  At(10);
  const auto asked = Request();
  WriteOne();
  ASSERT_TRUE(asked->has_value());
  EXPECT_THAT(std::string((*asked)->status().message()), HasSubstr("was taken by job 'j-2'"));
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(CheckpointerTest, GivingOneUpTouchesNothingOfAnotherJob) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  const CheckpointFiles late(RealFileSystem(), spec_.checkpoints(), {"j-0", {}});
  EXPECT_EQ(late.GiveUp(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Numbers(), ElementsAre(1));
  At(20);
  Request();
  AwaitWriting();
  ASSERT_TRUE(WriteFakeShard(*shards_.request, SpecOf(0), shards_.states[0]).ok());
  const std::vector<std::string> written = FilesOf("000002");
  EXPECT_THAT(written, SizeIs(2));
  EXPECT_TRUE(late.GiveUp(3).ok());
  EXPECT_EQ(FilesOf("000002"), written);
}

// Whoever took it wrote nothing, and may be gone.
TEST_F(CheckpointerTest, ADirectoryWithoutCheckpointsBecomesTheJobsWhoeverItWas) {
  const CheckpointFiles other(RealFileSystem(), spec_.checkpoints(), {"j-0", {}});
  ASSERT_TRUE(other.Begin(1, 2, /*is_first=*/true, {}).ok());
  std::ofstream(directory_ + "/000001/shard-00000.json") << "{}";
  OpenIdle();
  EXPECT_EQ(checkpointer_->trouble(), "");
  EXPECT_THAT(FilesOf("000001"), ElementsAre("shard-00000.json")) << "the other one may write yet";
  At(10);
  const auto asked = Request();
  WriteOne();
  EXPECT_EQ((*asked)->value().number(), 2u);
  EXPECT_EQ(CheckpointDirectory(RealFileSystem(), directory_).Owner().value(), kSavedJob);
}

TEST_F(CheckpointerTest, ThatAnotherJobHasTakenTheDirectoryIsToldByTheNextLifeOfTheCoordinator) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  ASSERT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
  OpenIdle();
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("was taken by job 'j-2'"));
}

TEST_F(CheckpointerTest, ADiskThatIsFullOfWhatNobodyNeedsIsClearedForTheNextOne) {
  OpenIdle();
  At(10);
  Request();
  AwaitWriting();
  ASSERT_TRUE(WriteFakeShard(*shards_.request, SpecOf(0), shards_.states[0]).ok());
  checkpointer_.reset();  // Its coordinator was killed.
  shards_.request.reset();
  const auto full = std::make_shared<FullFileSystem>(directory_ + "/000001");
  const CheckpointFiles files(full, spec_.checkpoints(), owner_);
  const auto begun = files.Begin(/*at_least=*/1, /*shards=*/2, /*is_first=*/false, {});
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->number, 2u);
  EXPECT_THAT(Folders(), ElementsAre("000002"));
}

// It stayed a checkpoint where the coordinator died then, and one before had gone for it.
TEST_F(CheckpointerTest, OneThatIsNoneWhenItsManifestIsThereIsTakenBackAtOnce) {
  spec_.mutable_checkpoints()->set_keep(1);
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  const auto commit = [this](const CheckpointFiles& files, CommitDecision* decision) {
    WriteCheckpointRequest request;
    request.set_directory(directory_);
    request.set_checkpoint(
        files.Begin(/*at_least=*/2, /*shards=*/2, /*is_first=*/false, {}).value().number);
    CheckpointManifest manifest = Manifest(1);
    manifest.set_number(request.checkpoint());
    manifest.set_step(20);
    shards_.SetStates(20);
    for (uint32_t i = 0; i < 2; ++i) {
      *manifest.mutable_shards(static_cast<int>(i)) =
          WriteFakeShard(request, SpecOf(i), shards_.states[i]).value();
    }
    return files.Commit(&manifest, {.before = 1, .decision = decision}).status();
  };
  CommitDecision decision;
  const CheckpointFiles given_up(std::make_shared<CommittingFileSystem>([&] { decision.GiveUp(); }),
                                 spec_.checkpoints(), owner_);
  const absl::Status cancelled = commit(given_up, &decision);
  EXPECT_TRUE(absl::IsCancelled(cancelled)) << cancelled;
  EXPECT_THAT(Numbers(), ElementsAre(1));

  const CheckpointFiles taken(
      std::make_shared<CommittingFileSystem>([this] {
        EXPECT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
      }),
      spec_.checkpoints(), owner_);
  const absl::Status lost = commit(taken, nullptr);
  EXPECT_TRUE(IsAnotherRuns(lost)) << lost;
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(CheckpointerTest, GivingUpWhatCannotBeReadIsAnError) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  std::filesystem::resize_file(directory_ + "/000001/manifest.json", 10);
  const std::vector<std::string> written = FilesOf("000001");
  const CheckpointFiles files(RealFileSystem(), spec_.checkpoints(), owner_);
  EXPECT_FALSE(files.GiveUp(1).ok());
  EXPECT_EQ(FilesOf("000001"), written);
}

// What is nearly done when the job ends counts, and who asked for it hears of it.
TEST_F(CheckpointerTest, OneThatIsBeingCommittedWhenTheJobEndsIsWaitedFor) {
  Gate gate;
  Open(std::make_shared<CommittingFileSystem>([&gate] { gate.Pass(); }));
  AwaitIdle();
  At(10);
  const auto asked = Request();
  AwaitWriting();
  shards_.Write();
  Advance();
  gate.AwaitSomebody();
  checkpointer_->Detach("the job was cancelled");
  const int wakes = Wakes();
  gate.Open();
  AwaitWake(wakes);
  checkpointer_->Close(absl::UnavailableError("the job was cancelled"));
  checkpointer_->TellRequests();
  ASSERT_TRUE(asked->has_value());
  EXPECT_EQ((*asked)->value().number(), 1u);
  EXPECT_EQ(checkpointer_->TakeEnded().at(0).error(), "");
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

// Its state was not the job's any more when it was there.
TEST_F(CheckpointerTest, TheEndThatIsCommittedWhenItsShardsHaveGoneIsSavedAgain) {
  Gate gate;
  Open(std::make_shared<CommittingFileSystem>([&gate] { gate.Pass(); }));
  AwaitIdle();
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  AwaitWriting();
  shards_.Write();
  Advance();
  gate.AwaitSomebody();
  checkpointer_->Detach("ps-1 went");
  Attach(990);
  At(990);
  gate.Open();
  AwaitIdle();
  At(kSavedSteps);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  WriteOne();
  EXPECT_TRUE(checkpointer_->MayEnd(absl::nullopt));
  EXPECT_TRUE(Manifest(2).ended());
}

// All checkpoints of a job went with a directory that was unmounted, and nobody heard of it.
TEST_F(CheckpointerTest, ThatTheOneBeforeIsNotThereAnyMoreIsTold) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  EXPECT_EQ(checkpointer_->trouble(), "");
  std::filesystem::remove_all(directory_);
  std::filesystem::create_directory(directory_);
  At(20);
  Request();
  WriteOne();
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_THAT(
      checkpointer_->trouble(),
      HasSubstr(directory_ + "/000001, the checkpoint before this one, is not there any more"));
  At(30);
  Request();
  WriteOne();
  EXPECT_EQ(checkpointer_->trouble(), "");
}

// It waited for a minute, as for a disk that is full.
TEST_F(CheckpointerTest, TheEndIsNotTriedAgainInADirectoryOfAnotherRun) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  ASSERT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
  At(kSavedSteps);
  AwaitMayEnd();
  EXPECT_TRUE(checkpointer_->has_lost_directory());
  EXPECT_EQ(checkpointer_->trouble(), "the last checkpoint is missing: '" + directory_ +
                                          "' was taken by job 'j-2' (" + directory_ +
                                          "/owner says so)");
  EXPECT_THAT(checkpointer_->TakeEnded(), SizeIs(2));
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

// Who removes checkpoints must know which one to leave, until the job has one of its own.
TEST_F(CheckpointerTest, WhoHasTheDirectorySaysWhichCheckpointItGoesOnFrom) {
  std::filesystem::create_directory(directory_);
  owner_.restored = 17;
  hold_ = std::make_shared<CheckpointHold>(RealFileSystem(), directory_);
  OpenIdle();
  CheckpointHold other(RealFileSystem(), directory_);
  EXPECT_THAT(WhoHolds(other.Take("job 'other-1'", /*makes_directory=*/false)),
              HasSubstr("is held by job 'j-1', which goes on from 000017, of process "));
}

// It ended as if its last state were there.
TEST_F(CheckpointerTest, TheEndHasNoDirectoryWhileAnotherJobHoldsItForAMinute) {
  CheckpointHold other(RealFileSystem(), directory_);
  EndWhileHeldBy(&other, "job 'other-1'");
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt)) << "it may be about to end";
  clock_.Advance(absl::Minutes(2));
  AwaitMayEnd();
  EXPECT_TRUE(checkpointer_->has_lost_directory());
  EXPECT_THAT(checkpointer_->trouble(), HasSubstr("the last checkpoint is missing: '" + directory_ +
                                                  "' is held by job 'other-1' of process "));
  EXPECT_THAT(Numbers(), IsEmpty());
}

// A job whose coordinator was started again meanwhile had done all its steps, and failed.
TEST_F(CheckpointerTest, TheEndThatACommandHoldsUpForAMinuteIsMissingAndTheDirectoryIsNotLost) {
  CheckpointHold command(RealFileSystem(), directory_);
  EndWhileHeldBy(&command, kRemovingCommand);
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  clock_.Advance(absl::Minutes(2));
  AwaitMayEnd();
  EXPECT_FALSE(checkpointer_->has_lost_directory());
  EXPECT_THAT(checkpointer_->trouble(),
              AllOf(HasSubstr("the last checkpoint is missing: "),
                    HasSubstr("' is held by `millrace checkpoints rm` of process ")));
}

TEST_F(CheckpointerTest, TheEndIsSavedOnceACommandHasLetGoOfTheDirectory) {
  CheckpointHold command(RealFileSystem(), directory_);
  EndWhileHeldBy(&command, kRemovingCommand);
  command.Release();
  clock_.Advance(absl::Seconds(30));
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  AwaitWriting();
  shards_.Write();
  AwaitMayEnd();
  EXPECT_EQ(checkpointer_->trouble(), "");
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(CheckpointerTest, TheEndIsSavedOnceAnotherJobHasLetGoOfTheDirectory) {
  CheckpointHold other(RealFileSystem(), directory_);
  EndWhileHeldBy(&other, "job 'other-1'");
  other.Release();
  clock_.Advance(absl::Seconds(30));
  EXPECT_FALSE(checkpointer_->MayEnd(absl::nullopt));
  AwaitWriting();
  shards_.Write();
  AwaitMayEnd();
  EXPECT_FALSE(checkpointer_->has_lost_directory());
  EXPECT_EQ(checkpointer_->trouble(), "");
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

TEST_F(CheckpointerTest, WhoAsksForOneInADirectoryOfAnotherRunNeedNotAskAgain) {
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  ASSERT_TRUE(CheckpointDirectory(RealFileSystem(), directory_).SetOwner("j-2").ok());
  At(20);
  const auto asked = Request();
  AwaitIdle();
  EXPECT_EQ((*asked)->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(checkpointer_->has_lost_directory());
}

TEST_F(CheckpointerTest, ANewJobIsRefusedADirectoryThatHasCheckpoints) {
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr).ok());
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  const absl::Status refused = CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has checkpoints of job 'j-1'"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("restore.directory"));
  std::filesystem::resize_file(directory_ + "/000001/manifest.json", 10);
  const absl::Status unreadable = CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr);
  EXPECT_EQ(unreadable.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(unreadable.message()), HasSubstr("checkpoints that cannot be read"));
  spec_.mutable_restore()->set_directory(directory_);
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr).ok());
  spec_.mutable_restore()->set_directory(directory_ + "/");
  EXPECT_TRUE(CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr).ok());
}

// One was taken, in place of --restore, and nobody found the checkpoints that were written there.
TEST_F(CheckpointerTest, ANewJobIsRefusedTheFolderOfACheckpoint) {
  const std::string above = NormalDirectory(directory_);
  OpenIdle();
  At(10);
  Request();
  WriteOne();
  for (const std::string folder : {"/000001", "/000001/", "/000017"}) {
    spec_.mutable_checkpoints()->set_directory(directory_ + folder);
    const absl::Status refused = CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(refused.message()),
        AllOf(HasSubstr("is the folder of one checkpoint in '" + above + "'; must be"),
              HasSubstr("such as '" + above + "'"), HasSubstr("--restore=" + above + "/0000")));
  }
  std::filesystem::rename(directory_ + "/000001", directory_ + "/best");
  spec_.mutable_checkpoints()->set_directory(directory_ + "/best");
  const absl::Status refused = CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/best' has a manifest.json"));
}

class DirectoryOfADayTest : public CheckpointerTest {
 protected:
  DirectoryOfADayTest() {
    std::filesystem::create_directories(directory_);
    spec_.mutable_checkpoints()->set_directory(directory_ + "/20260101");
  }

  void WriteAbove(const std::string& file, const std::string& text) {
    std::ofstream(directory_ + "/" + file) << text;
  }
  // As a new directory, and as an empty one.
  void ExpectTaken() {
    std::filesystem::remove_all(directory_ + "/20260101");
    for (int attempt = 0; attempt < 2; ++attempt) {
      const absl::Status taken = CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr);
      EXPECT_TRUE(taken.ok()) << taken;
      std::filesystem::create_directory(directory_ + "/20260101");
    }
  }
  void ExpectRefused() {
    EXPECT_EQ(CheckNewOwner(RealFileSystem(), spec_, /*hold=*/nullptr).code(),
              absl::StatusCode::kInvalidArgument);
  }
};

TEST_F(DirectoryOfADayTest, ANewJobMayHaveIt) { ExpectTaken(); }

// They were taken for a job's, and each run after the first one was refused.
TEST_F(DirectoryOfADayTest, ANewJobMayHaveItBesideOthersFilesOfThoseNames) {
  std::filesystem::create_directory(directory_ + "/20251231");
  std::filesystem::create_directory_symlink("20251231", directory_ + "/latest");
  ExpectTaken();
  std::filesystem::remove(directory_ + "/latest");
  for (const std::string text : {"20251231\n", "20260101\n", "the second run\n", ""}) {
    WriteAbove("latest", text);
    ExpectTaken();
  }
  for (const std::string text : {"", "Ada Lovelace\n"}) {
    WriteAbove("owner", text);
    ExpectTaken();
  }
}

TEST_F(DirectoryOfADayTest, ANewJobIsRefusedItBesideAJobsFiles) {
  WriteAbove("owner", "j-1\n");
  ExpectRefused();
  std::filesystem::remove(directory_ + "/owner");
  WriteAbove("held-by", "job 'j-1' of process 4711 on trainer-0\n");
  ExpectRefused();
  std::filesystem::remove(directory_ + "/held-by");
  std::filesystem::create_directory(directory_ + "/000017");
  WriteAbove("latest", "000017\n");
  ExpectTaken();
  WriteAbove("000017/manifest.json", "{}");
  ExpectRefused();
}

}  // namespace
}  // namespace millrace::coordinator
