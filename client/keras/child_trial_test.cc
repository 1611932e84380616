#include "client/keras/child_trial.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

TEST(ChildTrialTest, WorkThatIsSurvivedIsFine) {
  EXPECT_TRUE(TryInChild([] {}).ok());
}

TEST(ChildTrialTest, WorkThatIsNotIsTold) {
  const absl::Status status = TryInChild([] { std::raise(SIGSEGV); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

// Work that went round for ever outlived a command that somebody had ended.
TEST(ChildTrialTest, TheChildEndsWithWhoeverWaitsForIt) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t waiting = fork();
  ASSERT_GE(waiting, 0);
  if (waiting == 0) {
    TryInChild([&] {
      alarm(0);  // Only its parent's end ends it.
      if (write(pipe_ends[1], "x", 1) == 1) {
        while (true) pause();
      }
    }).IgnoreError();
    _exit(0);
  }
  close(pipe_ends[1]);
  char byte = 0;
  ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);
  kill(waiting, SIGKILL);
  ASSERT_EQ(waitpid(waiting, nullptr, 0), waiting);
  // The pipe ends when nobody is left who could write.
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  close(pipe_ends[0]);
}

}  // namespace
}  // namespace millrace::client
