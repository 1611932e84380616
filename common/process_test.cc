#include "common/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/system_error.h"
#include "common/warning_count.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "protos/parameter_server.pb.h"

namespace millrace {
namespace {

TEST(InitProcessDeathTest, LogHasNoColoursInAFile) {
  // glog looks at TERM while a process is loaded: the statement needs one of its own.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  setenv("TERM", "xterm", 1);
  const auto warn = [] {
    InitProcess("process_test");
    LOG(WARNING) << "all is well";
    exit(0);
  };
  EXPECT_EXIT(warn(), ::testing::ExitedWithCode(0), "^W[0-9].*all is well\n$");
}

TEST(StopSignalTest, WaitReturnsTheSignal) {
  StopSignal stop;
  kill(getpid(), SIGTERM);
  EXPECT_EQ(stop.Wait(), SIGTERM);
}

TEST(StopSignalTest, SignalBeforeWaitIsKept) {
  StopSignal stop;
  EXPECT_EQ(stop.WaitFor(absl::ZeroDuration()), absl::nullopt);
  kill(getpid(), SIGINT);
  EXPECT_EQ(stop.WaitFor(absl::Seconds(60)), SIGINT);
}

TEST(StopSignalTest, RequestFromAnotherThreadEndsWait) {
  StopSignal stop;
  std::thread other([&stop] { stop.RequestStop(); });
  EXPECT_EQ(stop.Wait(), 0);
  other.join();
}

TEST(StopSignalTest, RequestsNobodyWaitedForAreHarmless) {
  {
    StopSignal stop;
    stop.RequestStop();
    stop.RequestStop();
  }
  StopSignal stop;
  EXPECT_EQ(stop.WaitFor(absl::ZeroDuration()), absl::nullopt);
}

TEST(StopSignalTest, ThreadsStartedLaterLeaveTheSignalsAlone) {
  StopSignal stop;
  std::thread other([] {
    // To this thread alone: it stays pending there, and the handler does not run.
    pthread_kill(pthread_self(), SIGTERM);
  });
  other.join();
  EXPECT_EQ(stop.WaitFor(absl::ZeroDuration()), absl::nullopt);
}

void StopThenAskAgain(int second) {
  StopSignal stop;
  kill(getpid(), SIGTERM);
  stop.Wait();
  kill(getpid(), second);
  pause();
}

TEST(StopSignalDeathTest, SecondSignalEndsTheProcessAtOnce) {
  EXPECT_EXIT(StopThenAskAgain(SIGTERM), ::testing::ExitedWithCode(143), "");
  EXPECT_EXIT(StopThenAskAgain(SIGINT), ::testing::ExitedWithCode(130), "");
}

TEST(StopSignalDeathTest, SignalsWorkAsBeforeAfterwards) {
  const auto die_of_signal = [] {
    { StopSignal stop; }
    kill(getpid(), SIGTERM);
    pause();
  };
  EXPECT_EXIT(die_of_signal(), ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignalDeathTest, ProcessThatDoesNotStopInTimeEndsAtOnce) {
  const auto hang = [] {
    StopSignal stop;
    kill(getpid(), SIGTERM);
    stop.Wait();
    StopSignal::LimitStopping(absl::ZeroDuration());
    for (;;) pause();
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(1), "not stopped within its time");
}

TEST(InitProcessDeathTest, BrokenPipeIsAnErrorNotTheEnd) {
  const auto write_to_closed_pipe = [] {
    InitProcess("process_test");
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    close(ends[0]);
    const bool refused = write(ends[1], "x", 1) == -1;
    _exit(refused ? 0 : 1);
  };
  EXPECT_EXIT(write_to_closed_pipe(), ::testing::ExitedWithCode(0), "");
}

TEST(InitProcessDeathTest, AFileThatIsTooLargeIsAnErrorNotTheEnd) {
  const std::string path = ::testing::TempDir() + "/too_large";
  const auto write_too_much = [&path] {
    InitProcess("process_test");
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
    if (file < 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    if (write(file, "x", 1) != -1) _exit(3);
    _exit(absl::IsResourceExhausted(SystemError("write", path, errno)) ? 0 : 1);
  };
  EXPECT_EXIT(write_too_much(), ::testing::ExitedWithCode(0), "");
}

TEST(InitProcessDeathTest, LimitOfOpenFilesIsRaised) {
  const auto start = [] {
    struct rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 100);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(3);
    InitProcess("process_test");
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(4);
    _exit(limit.rlim_cur == std::min<rlim_t>(limit.rlim_max, 1 << 20) ? 0 : 1);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(0), "");
}

TEST(InitProcessDeathTest, LowLimitOfOpenFilesIsAWarning) {
  const auto start = [] {
    const struct rlimit limit = {.rlim_cur = 500, .rlim_max = 1000};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
    InitProcess("process_test");
    _exit(0);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(0),
              "only 1000 files .* allow 4096 .*ulimit -n.*LimitNOFILE=");
}

// Libraries aborted, or the server named another reason.
TEST(InitProcessDeathTest, ProcessWithTooFewOpenFilesEnds) {
  const auto start = [](rlim_t files) {
    const struct rlimit limit = {.rlim_cur = files, .rlim_max = files};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(2);
    InitProcess("process_test");
    _exit(0);
  };
  EXPECT_EXIT(start(63), ::testing::ExitedWithCode(1),
              "only 63 files .* at least 64 .*ulimit -n.*LimitNOFILE=");
  EXPECT_EXIT(start(64), ::testing::ExitedWithCode(0), "only 64 files");
}

// Libraries aborted, and blamed a file that is there, or threads.
TEST(InitProcessDeathTest, LimitOfTheAddressSpaceIsTold) {
  const auto start = [] {
    struct rlimit limit = {};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t{1} << 50;  // Sanitizers reserve much.
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    InitProcess("process_test");
    _exit(0);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(0),
              "the address space is limited to 1073741824 MiB .*ulimit -v.*MemoryMax=");
}

// gRPC aborted, or waited for ever.
TEST(InitProcessDeathTest, ProcessWithTooFewThreadsEnds) {
  const auto start = [] {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 60);  // More than there are addresses.
    if (pthread_setattr_default_np(&attributes) != 0) _exit(2);
    InitProcess("process_test");
    _exit(0);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(1),
              "only 0 threads .* at least 32 .*ulimit -u.*TasksMax=.*pids.max");
}

// Each one was a line of the log, without any limit.
TEST(InitProcessDeathTest, MessagesOfStrangersDoNotFillTheLog) {
  const auto parse = [] {
    InitProcess("process_test");
    const WarningCount warnings("invalid UTF-8");
    GetShardRequest request;
    for (int i = 0; i < 1000; ++i) request.ParseFromString("\x0a\x01\xff");
    _exit(warnings.count());
  };
  EXPECT_EXIT(parse(), ::testing::ExitedWithCode(1), "libprotobuf .*invalid UTF-8.*one such line");
}

// A server that was started with 2>&- wrote its log into its lock file.
TEST(OpenStandardStreamsDeathTest, FilesDoNotGetTheNumbersOfClosedStreams) {
  const auto open_a_file = [] {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
    OpenStandardStreams();
    const int file = open("/dev/null", O_RDWR);
    char byte = 0;
    const bool at_end = read(STDIN_FILENO, &byte, 1) == 0;
    const bool refused = write(STDOUT_FILENO, "x", 1) == -1 && write(STDERR_FILENO, "x", 1) == -1;
    _exit(file > STDERR_FILENO && at_end && refused ? 0 : 1);
  };
  EXPECT_EXIT(open_a_file(), ::testing::ExitedWithCode(0), "");
}

TEST(OpenStandardStreamsDeathTest, OpenStreamsStayWhatTheyAre) {
  const auto write_to_standard_error = [] {
    close(STDOUT_FILENO);
    OpenStandardStreams();
    _exit(write(STDERR_FILENO, "all is well", 11) == 11 ? 0 : 1);
  };
  EXPECT_EXIT(write_to_standard_error(), ::testing::ExitedWithCode(0), "^all is well$");
}

}  // namespace
}  // namespace millrace
