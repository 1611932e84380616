#include "coordinator/jobs/held_directories.h"

#include "gtest/gtest.h"

namespace millrace::coordinator {
namespace {

TEST(HeldDirectoriesTest, DirectoryIsHeldUntilItsHoldIsReleasedHoweverItIsWritten) {
  HeldDirectories directories(RealFileSystem());
  EXPECT_FALSE(directories.HasHold("/ckpt/a"));
  const auto hold = directories.MakeHold("/ckpt//a/");
  EXPECT_TRUE(directories.HasHold("/ckpt/a"));
  EXPECT_FALSE(directories.HasHold("/ckpt/b"));
  hold->Release();
  EXPECT_FALSE(directories.HasHold("/ckpt/a"));
}

// A submission was left behind, since its disk does not answer, and another one follows.
TEST(HeldDirectoriesTest, DirectoryWithSeveralHoldsIsHeldUntilTheLastIsReleased) {
  HeldDirectories directories(RealFileSystem());
  const auto first = directories.MakeHold("/ckpt/a");
  const auto second = directories.MakeHold("/ckpt/a");
  first->Release();
  EXPECT_TRUE(directories.HasHold("/ckpt/a"));
  second->Release();
  EXPECT_FALSE(directories.HasHold("/ckpt/a"));
}

TEST(HeldDirectoriesTest, HoldThatIsGoneIsReleased) {
  HeldDirectories directories(RealFileSystem());
  directories.MakeHold("/ckpt/a").reset();
  EXPECT_FALSE(directories.HasHold("/ckpt/a"));
}

}  // namespace
}  // namespace millrace::coordinator
