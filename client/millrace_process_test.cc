// The `millrace` binary as a process: exit codes, what goes where, signals.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/fake_jobs.h"
#include "client/testing/small_job.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

extern char** environ;

namespace millrace::client {
namespace {

using ::millrace::testing::FakeJobs;
using ::millrace::testing::SmallData;
using ::millrace::testing::SmallJob;
using ::millrace::testing::StateEvent;
using ::millrace::testing::WriteFile;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// In the runfiles, where tests run.
constexpr char kBinary[] = "client/millrace";

// A run of the binary, its output in files.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kBinary);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      CHECK_EQ(posix_spawn_file_actions_addopen(&actions, stream, Path(stream).c_str(),
                                                O_WRONLY | O_CREAT | O_TRUNC, 0666),
               0);
    }
    CHECK_EQ(posix_spawn(&pid_, kBinary, &actions, /*attrp=*/nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }

  ~Process() {
    if (!ended_) kill(pid_, SIGKILL);
    Wait();
  }

  void Signal(int signal) { CHECK_EQ(kill(pid_, signal), 0); }

  // Its exit status, as a shell has it.
  int Wait() {
    if (ended_) return exit_;
    int status = 0;
    CHECK_EQ(waitpid(pid_, &status, 0), pid_);
    ended_ = true;
    exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return exit_;
  }

  std::string out() const { return Contents(STDOUT_FILENO); }
  std::string err() const { return Contents(STDERR_FILENO); }

 private:
  static std::string Path(int stream) {
    return absl::StrCat(::testing::TempDir(), "/stream-", stream);
  }
  static std::string Contents(int stream) {
    std::ifstream file(Path(stream));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_ = 0;
};

TEST(MillraceProcessTest, HelpSucceedsOnStandardOutput) {
  Process process({"--help"});
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.out(), HasSubstr("Exit codes:"));
  EXPECT_THAT(process.err(), IsEmpty());
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
