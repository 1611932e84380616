// The `millrace` binary as a process: exit codes, what goes where, signals.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/fake_jobs.h"
#include "client/testing/small_checkpoint.h"
#include "client/testing/small_job.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern char** environ;

namespace millrace::client {
namespace {

using ::millrace::testing::FakeJobs;
using ::millrace::testing::NoDirectory;
using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::millrace::testing::StateEvent;
using ::millrace::testing::WriteFile;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// In the runfiles, where tests run.
constexpr char kBinary[] = "client/millrace";

// What a process has for its standard output.
enum class Output { kPipe, kFullDisk, kClosed };

// A run of the binary: its standard output comes through a pipe, unless it is given another; its
// standard error is in a file.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, Output output = Output::kPipe) {
    arguments.insert(arguments.begin(), kBinary);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int pipe_ends[2];
    CHECK_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    if (output == Output::kFullDisk) {
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/full", O_WRONLY, 0);
    } else if (output == Output::kClosed) {
      posix_spawn_file_actions_addclose(&actions, STDOUT_FILENO);
    }
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, ErrorPath().c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK_EQ(posix_spawn(&pid_, kBinary, &actions, /*attrp=*/nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    pipe_ = pipe_ends[0];
  }

  ~Process() {
    if (!ended_) kill(pid_, SIGKILL);
    Wait();
    close(pipe_);
  }

  void Signal(int signal) { CHECK_EQ(kill(pid_, signal), 0); }

  // Reads standard output until `text` has come; false: it ended without it.
  bool ReadUntil(const std::string& text) {
    while (out_.find(text) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    return true;
  }

  // Its exit status, as a shell has it.
  int Wait() {
    if (ended_) return exit_;
    while (ReadSome()) {
    }
    int status = 0;
    CHECK_EQ(waitpid(pid_, &status, 0), pid_);
    ended_ = true;
    exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return exit_;
  }

  // What was read of standard output: all of it after Wait.
  const std::string& out() const { return out_; }

  std::string err() const {
    std::ifstream file(ErrorPath());
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  static std::string ErrorPath() { return absl::StrCat(::testing::TempDir(), "/standard_error"); }

  // False at the end.
  bool ReadSome() {
    char buffer[4096];
    const ssize_t count = read(pipe_, buffer, sizeof(buffer));
    CHECK_GE(count, 0);
    out_.append(buffer, static_cast<size_t>(count));
    return count > 0;
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string out_;
  bool ended_ = false;
  int exit_ = 0;
};

TEST(MillraceProcessTest, HelpSucceedsOnStandardOutput) {
  Process process({"--help"});
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.out(), HasSubstr("Exit codes:"));
  EXPECT_THAT(process.err(), IsEmpty());
}

// They exited with 0.
TEST(MillraceProcessTest, OutputThatCannotBeWrittenIsAFailure) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"},
        std::vector<std::string>{"train", WriteFile("job.textproto", SmallJob()),
                                 "--data=" + SmallData(), "--json"}}) {
    for (const Output output : {Output::kFullDisk, Output::kClosed}) {
      Process process(arguments, output);
      EXPECT_EQ(process.Wait(), 1);
      EXPECT_THAT(process.err(), HasSubstr("cannot write to the standard output"));
    }
  }
}

TEST(MillraceProcessTest, WrongUsageExitsWithTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, std::vector<std::string>{"dance"},
        std::vector<std::string>{"train", "/nonexistent.textproto"},
        std::vector<std::string>{"list", "--cluster=nowhere"}}) {
    Process process(arguments);
    EXPECT_EQ(process.Wait(), 2);
    EXPECT_THAT(process.out(), IsEmpty());
  }
}

TEST(MillraceProcessTest, JobsThatAreNotValidExitWithOne) {
  Process process({"validate", WriteFile("bad.textproto", "name: 'a/b'")});
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("millrace: INVALID_ARGUMENT: name: "));
}

TEST(MillraceProcessTest, TrainsInOneProcessAndKeepsStandardErrorClean) {
  Process process({"train", WriteFile("job.textproto", SmallJob()), "--data=" + SmallData()});
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.out(), HasSubstr("SUCCEEDED: job small-1"));
  EXPECT_THAT(process.err(), IsEmpty());
}

TEST(MillraceProcessTest, AnInterruptCancelsTheJobOfAnEmbeddedClusterAndExitsWith130) {
  Process process({"train", WriteFile("job.textproto", SmallJob()), "--data=" + SmallData(),
                   "--set", "epochs=100000000"});
  EXPECT_TRUE(process.ReadUntil("RUNNING"));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_THAT(process.out(), HasSubstr("Cancelling the job"));
  EXPECT_THAT(process.out(), HasSubstr("CANCELLED: job small-1"));
  EXPECT_THAT(process.err(), IsEmpty());
}

TEST(MillraceProcessTest, ATrainingThatWasKilledGoesOnFromItsStateDirectory) {
  const std::string state = ::testing::TempDir() + "/state";
  const std::vector<std::string> arguments = {"train",
                                              WriteFile("job.textproto", SmallJob()),
                                              "--data=" + SmallData(),
                                              "--set",
                                              "epochs=2000",
                                              "--state_dir=" + state};
  {
    Process process(arguments);
    EXPECT_TRUE(process.ReadUntil("RUNNING"));
    process.Signal(SIGKILL);
    EXPECT_EQ(process.Wait(), 137);
  }
  Process process(arguments);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.out(), HasSubstr("Resuming job small-1"));
  EXPECT_THAT(process.out(),
              ContainsRegex("SUCCEEDED: job small-1-[a-z0-9]+\n  steps      10,000 of 10,000"));
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Of a synchronous job with a checkpoint every 100 of its 10,000 steps.
std::vector<std::string> TrainWithCheckpoints(const std::string& checkpoints,
                                              const std::string& export_file) {
  return {"train",
          WriteFile("job.textproto", SmallJob()),
          "--data=" + SmallData(),
          "--set=epochs=2000",
          "--set=synchronous.replicas=2",
          "--set=checkpoints.every_steps=100",
          "--checkpoints=" + checkpoints,
          "--export=" + export_file};
}

TEST(MillraceProcessTest, ATrainingThatWasKilledGoesOnFromItsCheckpointsWithTheSameBits) {
  const std::string undisturbed = ::testing::TempDir() + "/undisturbed.safetensors";
  Process reference(TrainWithCheckpoints(NoDirectory("undisturbed"), undisturbed));
  EXPECT_EQ(reference.Wait(), 0) << reference.out();

  const std::string file = ::testing::TempDir() + "/killed.safetensors";
  const std::vector<std::string> arguments = TrainWithCheckpoints(NoDirectory("killed"), file);
  for (int kill = 0; kill < 2; ++kill) {
    Process process(arguments);
    EXPECT_TRUE(process.ReadUntil(kill == 0 ? "checkpoint 000001 at step" : "Goes on at step"));
    process.Signal(SIGKILL);
    EXPECT_EQ(process.Wait(), 137);
  }
  Process process(arguments);
  EXPECT_EQ(process.Wait(), 0) << process.out();
  EXPECT_THAT(process.out(), ContainsRegex("Goes on at step [0-9,]+ from checkpoint 0+[1-9]"));
  EXPECT_THAT(process.out(),
              ContainsRegex("SUCCEEDED: job small-1-[a-z0-9]+\n  steps      10,000 of 10,000"));
  EXPECT_FALSE(BytesOf(file).empty());
  EXPECT_EQ(BytesOf(file), BytesOf(undisturbed));

  Process again(arguments);
  EXPECT_EQ(again.Wait(), 0);
  EXPECT_THAT(again.out(), HasSubstr("The job has ended before"));
  EXPECT_EQ(BytesOf(file), BytesOf(undisturbed));
}

// Both trained, and the loser heard of it at its first checkpoint. A killed holder must not hold.
TEST(MillraceProcessTest, ATrainingInTheDirectoryOfAnotherIsRefusedUntilThatOneIsKilled) {
  const std::vector<std::string> arguments = {"train", WriteFile("job.textproto", SmallJob()),
                                              "--data=" + SmallData(), "--set=epochs=100000000",
                                              "--checkpoints=" + NoDirectory("held")};
  Process holder(arguments);
  EXPECT_TRUE(holder.ReadUntil("RUNNING"));
  Process refused(arguments);
  EXPECT_EQ(refused.Wait(), 1);
  EXPECT_THAT(refused.err(), ContainsRegex("/held' is held by job 'small.* of process [0-9]+ on "));
  holder.Signal(SIGKILL);
  EXPECT_EQ(holder.Wait(), 137);
  Process next(arguments);
  EXPECT_TRUE(next.ReadUntil("RUNNING"));
}

TEST(MillraceProcessTest, AnInterruptedTrainingWithCheckpointsStopsAtOne) {
  std::vector<std::string> arguments = {"train",         WriteFile("job.textproto", SmallJob()),
                                        "--set",         "epochs=100000000",
                                        "--data",        SmallData(),
                                        "--checkpoints", NoDirectory("interrupted")};
  Process process(arguments);
  EXPECT_TRUE(process.ReadUntil("step "));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  EXPECT_THAT(process.out(), HasSubstr("Writing a checkpoint"));
  EXPECT_THAT(process.out(), ContainsRegex("Checkpoint 00000[1-9] at step [0-9,]+ is in "));
  EXPECT_THAT(process.err(), IsEmpty());
  Process again(arguments);
  EXPECT_TRUE(again.ReadUntil("Goes on at step "));
  EXPECT_TRUE(again.ReadUntil("RUNNING"));
}

// It read on to the end of the data.
TEST(MillraceProcessTest, AnInterruptEndsAValidationAtOnce) {
  const std::string job = ::testing::TempDir() + "/endless.textproto";
  unlink(job.c_str());
  ASSERT_EQ(mkfifo(job.c_str(), 0666), 0);
  Process process({"validate", job});
  const int writer = open(job.c_str(), O_WRONLY | O_CLOEXEC);  // Waits until it is being read.
  ASSERT_GE(writer, 0);
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 130);
  close(writer);
}

TEST(MillraceProcessTest, AnInterruptLeavesAJobOfAClusterAloneAndExitsWith130) {
  for (int signal : {SIGINT, SIGTERM}) {
    FakeJobs jobs;
    jobs.AddEvent("job-1", StateEvent(RUNNING));
    Process process({"watch", "job-1", "--cluster=" + jobs.address()});
    EXPECT_TRUE(jobs.WaitForWatches(1));
    process.Signal(signal);
    EXPECT_EQ(process.Wait(), 130);
    EXPECT_THAT(process.out(), HasSubstr("millrace watch job-1"));
  }
}

}  // namespace
}  // namespace millrace::client
