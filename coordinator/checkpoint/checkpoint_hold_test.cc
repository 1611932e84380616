#include "coordinator/checkpoint/checkpoint_hold.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/directory/test_directory.h"

namespace millrace::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointHoldTest : public ::testing::Test {
 protected:
  const std::string directory_ = TestDirectory("checkpoints");
  const std::string file_ = directory_ + "/held-by";
  CheckpointHold first_{RealFileSystem(), directory_};
  CheckpointHold second_{RealFileSystem(), directory_};
};

TEST_F(CheckpointHoldTest, WhoComesSecondIsToldWhoHoldsWhichDirectory) {
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  const absl::Status refused = second_.Take("job 'b-1'", /*makes_directory=*/true);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(absl::StrCat("checkpoints.directory: '", directory_,
                                           "' is held by job 'a-1' of process ", getpid(), " on ")),
                    HasSubstr("name another directory")));
  EXPECT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  first_.Release();
  EXPECT_TRUE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());
}

TEST_F(CheckpointHoldTest, WhatIsSaidOfTheHolderCanBecomeShorter) {
  ASSERT_TRUE(first_.Take("job 'a', which has not begun,", /*makes_directory=*/true).ok());
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  EXPECT_THAT(std::string(second_.Take("b", /*makes_directory=*/false).message()),
              HasSubstr(absl::StrCat("held by job 'a-1' of process ", getpid(), " on ")));
}

TEST_F(CheckpointHoldTest, HolderTellsWhatItIs) {
  const auto holder = [&](const std::string& who) {
    EXPECT_TRUE(first_.Take(who, /*makes_directory=*/true).ok());
    return HolderOf(second_.Take("job 'b-1'", /*makes_directory=*/true));
  };
  EXPECT_EQ(holder(NameOfJob("a-1", 0)).job_id, "a-1");
  EXPECT_EQ(holder(NameOfJob("a-1", 0)).restored, 0u);
  const Holder restored = holder(NameOfJob("a-2", 17));
  EXPECT_EQ(restored.job_id, "a-2");
  EXPECT_EQ(restored.restored, 17u);
  EXPECT_FALSE(restored.is_command);
  EXPECT_THAT(restored.held, HasSubstr("is held by job 'a-2', which goes on from 000017, of proc"));
  EXPECT_EQ(holder("job 'a', which has not begun,").job_id, "") << "it is a name";
  EXPECT_TRUE(holder(kRemovingCommand).is_command);
  EXPECT_EQ(holder(kRemovingCommand).job_id, "");
  for (const std::string who : {"job 'a", "job 'a', which goes on from x", "", "somebody"}) {
    EXPECT_EQ(holder(who).restored, 0u) << who;
  }
  EXPECT_EQ(HolderOf(absl::OkStatus()).held, "");
}

TEST_F(CheckpointHoldTest, WhoIsHeldOffByACommandIsToldToWait) {
  ASSERT_TRUE(first_.Take(kRemovingCommand, /*makes_directory=*/true).ok());
  EXPECT_THAT(std::string(second_.Take("job 'b-1'", /*makes_directory=*/true).message()),
              HasSubstr("; name another directory, or wait for its end"));
}

TEST_F(CheckpointHoldTest, ReleasedOneLeavesNothingOfItsOwnAndNeverHoldsAgain) {
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  first_.Release();
  EXPECT_FALSE(std::filesystem::exists(directory_));
  EXPECT_TRUE(absl::IsCancelled(first_.Take("job 'a-1'", /*makes_directory=*/true)));

  ASSERT_TRUE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());
  std::ofstream(directory_ + "/owner") << "b-1\n";
  second_.Release();
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/owner"));
}

TEST_F(CheckpointHoldTest, DirectoryThatIsNotThereIsNotHeldUnlessItIsToBeMade) {
  EXPECT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/false).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_));
  EXPECT_TRUE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());
}

TEST_F(CheckpointHoldTest, FileThatSomebodyRemovedIsHeldAgainWhenItIsNeeded) {
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  std::filesystem::remove_all(directory_);
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  EXPECT_FALSE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());

  std::filesystem::remove(file_);
  ASSERT_TRUE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());
  EXPECT_THAT(std::string(first_.Take("job 'a-1'", /*makes_directory=*/true).message()),
              HasSubstr("is held by job 'b-1'"));
}

TEST_F(CheckpointHoldTest, WhoHasLostTheFileLeavesThatOfAnotherOneWhenItReleases) {
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  std::filesystem::remove(file_);
  ASSERT_TRUE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());
  first_.Release();
  EXPECT_TRUE(std::filesystem::exists(file_));
  CheckpointHold third(RealFileSystem(), directory_);
  EXPECT_THAT(WhoHolds(third.Take("job 'c-1'", /*makes_directory=*/true)),
              HasSubstr("is held by job 'b-1'"));
}

// A job tries for as long as it is held off.
TEST_F(CheckpointHoldTest, OneThatIsHeldOffKeepsNoFileOpen) {
  const auto count_open = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  const auto before = count_open();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(second_.Take("job 'b-1'", /*makes_directory=*/true).ok());
  }
  EXPECT_EQ(count_open(), before);
}

// It let go of a good lock then. A directory that is a link to itself stands for a disk in trouble.
TEST_F(CheckpointHoldTest, DiskThatDoesNotSayWhereTheFileIsCostsNoHold) {
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  const std::string aside = directory_ + "-aside";
  std::filesystem::rename(directory_, aside);
  std::filesystem::create_symlink(directory_, directory_);
  EXPECT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  std::filesystem::remove(directory_);
  std::filesystem::rename(aside, directory_);
  EXPECT_THAT(std::string(second_.Take("job 'b-1'", /*makes_directory=*/true).message()),
              HasSubstr("is held by job 'a-1'"));
}

TEST_F(CheckpointHoldTest, OneThatIsReleasedSaysSoAlsoWhenItIsGone) {
  auto hold = std::make_unique<CheckpointHold>(RealFileSystem(), directory_);
  const auto released = hold->released();
  ASSERT_TRUE(hold->Take("job 'a-1'", /*makes_directory=*/true).ok());
  EXPECT_FALSE(*released);
  hold.reset();
  EXPECT_TRUE(*released);
  EXPECT_TRUE(first_.Take("job 'b-1'", /*makes_directory=*/true).ok());
}

TEST_F(CheckpointHoldTest, OneThatAnotherLetsGoOfMeanwhileIsTaken) {
  ASSERT_TRUE(first_.Take("job 'a-1'", /*makes_directory=*/true).ok());
  const auto second = std::make_shared<CheckpointHold>(RealFileSystem(), directory_);
  bool was_asked = false;
  TakeHold(second, "job 'b-1'", /*makes_directory=*/true, [&] {
    if (!std::exchange(was_asked, true)) {
      EXPECT_FALSE(second_.Take("job 'c-1'", /*makes_directory=*/true).ok());
      first_.Release();
    }
    return false;
  });
  EXPECT_THAT(WhoHolds(second_.Take("job 'c-1'", /*makes_directory=*/true)),
              HasSubstr("is held by job 'b-1'"));
}

// It would be refused for ever, and nobody is there who could let it go.
TEST_F(CheckpointHoldTest, KilledHolderDoesNotHoldAnyMore) {
  int held[2];
  ASSERT_EQ(pipe(held), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CheckpointHold hold(RealFileSystem(), directory_);
    const char taken = hold.Take("job 'a-1'", /*makes_directory=*/true).ok() ? 'y' : 'n';
    if (write(held[1], &taken, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char taken = 0;
  ASSERT_EQ(read(held[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  EXPECT_THAT(std::string(first_.Take("job 'b-1'", /*makes_directory=*/true).message()),
              HasSubstr(absl::StrCat("job 'a-1' of process ", child, " on ")));
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(file_));
  EXPECT_TRUE(first_.Take("job 'b-1'", /*makes_directory=*/true).ok());
  close(held[0]);
  close(held[1]);
}

TEST_F(CheckpointHoldTest, WithoutAThreadNothingIsTakenAndWhatIsHeldIsReleasedAllTheSame) {
  const ThreadStarter no_thread = [](const std::function<void()>&) -> absl::StatusOr<std::thread> {
    return absl::ResourceExhaustedError("no memory");
  };
  const auto hold = std::make_shared<CheckpointHold>(RealFileSystem(), directory_);
  TakeHold(
      hold, "job 'a-1'", /*makes_directory=*/true, [] { return false; }, no_thread);
  EXPECT_FALSE(std::filesystem::exists(file_));
  ASSERT_TRUE(hold->Take("job 'a-1'", /*makes_directory=*/true).ok());
  ReleaseHolds({hold}, no_thread);
  EXPECT_TRUE(*hold->released());
  EXPECT_TRUE(first_.Take("job 'b-1'", /*makes_directory=*/true).ok());
}

TEST_F(CheckpointHoldTest, SeveralAreReleasedInOneGo) {
  auto hold = std::make_shared<CheckpointHold>(RealFileSystem(), directory_);
  ASSERT_TRUE(hold->Take("job 'a-1'", /*makes_directory=*/true).ok());
  ReleaseHolds({hold, std::make_shared<CheckpointHold>(RealFileSystem(), "/no/such/directory")});
  EXPECT_TRUE(first_.Take("job 'b-1'", /*makes_directory=*/true).ok());
}

}  // namespace
}  // namespace millrace::coordinator
