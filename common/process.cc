#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/memory_limit.h"
#include "common/start_thread.h"
#include "glog/logging.h"
#include "google/protobuf/stubs/logging.h"

namespace millrace {
namespace {

// How RequestStop wakes Wait; blocked like the others, so it does nothing else.
constexpr int kWakeUp = SIGUSR1;

// Files open at once.
constexpr rlim_t kMostOpenFiles = 1 << 20;
constexpr rlim_t kFewOpenFiles = 4096;
constexpr rlim_t kTooFewOpenFiles = 64;  // With fewer, libraries abort.

// With fewer gRPC aborts in one place, and waits for ever in another; a coordinator has 17 before
// anybody calls it.
constexpr int kFewestThreads = 32;

constexpr int kProtobufLogSeconds = 60;

// Runs in a signal handler: _exit and nothing more.
void ExitAtOnce(int signal) { _exit(128 + signal); }

// The same: of a process that has not stopped in time.
void ExitLate(int /*signal*/) {
  constexpr char kMessage[] =
      "the process has not stopped within its time, and ends at once: what it was writing is as "
      "after a crash\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(1);
}

// A server that runs out of them ends (net/deaf_listener.h).
void RaiseLimitOfOpenFiles() {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, kMostOpenFiles));
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  if (limit.rlim_cur < kTooFewOpenFiles) {
    LOG(ERROR) << "only " << limit.rlim_cur << " files can be open; must be at least "
               << kTooFewOpenFiles << " (ulimit -n, or LimitNOFILE= of a systemd unit)";
    EndProcess(/*exit_status=*/1);
  }
  LOG_IF(WARNING, limit.rlim_cur < kFewOpenFiles)
      << "only " << limit.rlim_cur << " files can be open, and each connection needs one; allow "
      << kFewOpenFiles << " at least (ulimit -n, or LimitNOFILE= of a systemd unit)";
}

void WarnOfLittleAddressSpace() {
  const uint64_t limit = AddressSpaceLimit();
  if (limit == std::numeric_limits<uint64_t>::max()) return;
  LOG(WARNING) << "the address space is limited to " << (limit >> 20)
               << " MiB (ulimit -v), which counts what is reserved and never used, as for each "
               << "thread: where it is used up libraries abort, and do not say why. Limit memory "
               << "instead (MemoryMax= of a systemd unit, or memory.max of a control group)";
}

// Starts so many at once as are needed at least, and ends them.
void CheckThreads() {
  std::promise<void> promise;
  const std::shared_future<void> end = promise.get_future().share();
  std::vector<std::thread> threads;
  absl::Status status;
  while (status.ok() && threads.size() < kFewestThreads) {
    absl::StatusOr<std::thread> thread = StartThread([end] { end.wait(); });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  promise.set_value();
  for (std::thread& thread : threads) thread.join();
  if (status.ok()) return;
  LOG(ERROR) << "only " << threads.size() << " threads can be started; must be at least "
             << kFewestThreads << " (ulimit -u and -v, TasksMax= of a systemd unit, or pids.max of "
             << "a container): " << status.message();
  EndProcess(/*exit_status=*/1);
}

// What it says is of messages that others sent, who may send as many as they like. After a fatal
// one it throws, or ends the process.
void LogOfProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                   const std::string& message) {
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    LOG(ERROR) << "libprotobuf " << file << ":" << line << ": " << message;
    return;
  }
  LOG_EVERY_T(WARNING, kProtobufLogSeconds)
      << "libprotobuf " << file << ":" << line << ": " << message << " (one such line in "
      << kProtobufLogSeconds << " s at most)";
}

}  // namespace

void OpenStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    // The lowest number that is free: this one.
    CHECK_EQ(open("/dev/null", O_RDONLY), stream) << "cannot open /dev/null: error " << errno;
  }
}

void InitProcess(const char* name) {
  FLAGS_logtostderr = true;
  FLAGS_colorlogtostderr = isatty(STDERR_FILENO) != 0;  // glog itself looks at TERM only.
  google::InitGoogleLogging(name);
  google::protobuf::SetLogHandler(LogOfProtobuf);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  RaiseLimitOfOpenFiles();
  WarnOfLittleAddressSpace();
  CheckThreads();
}

void EndProcess(int exit_status) {
  google::FlushLogFiles(google::GLOG_INFO);
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  std::_Exit(exit_status);
}

StopSignal::StopSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, kWakeUp);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals_, &previous_mask_), 0);
  // A signal whose action is to be ignored may be dropped even while it is blocked.
  struct sigaction exit_at_once = {};
  exit_at_once.sa_handler = ExitAtOnce;
  CHECK_EQ(sigaction(SIGTERM, &exit_at_once, &previous_terminate_), 0);
  CHECK_EQ(sigaction(SIGINT, &exit_at_once, &previous_interrupt_), 0);
}

StopSignal::~StopSignal() {
  // A request that nobody waited for must not end the process when the mask is back.
  sigset_t wake_up;
  sigemptyset(&wake_up);
  sigaddset(&wake_up, kWakeUp);
  const timespec now = {};
  sigtimedwait(&wake_up, nullptr, &now);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

int StopSignal::Wait() {
  int signal = 0;
  CHECK_EQ(sigwait(&signals_, &signal), 0);
  return Stopped(signal);
}

absl::optional<int> StopSignal::WaitFor(absl::Duration timeout) {
  const timespec time =
      absl::ToTimespec(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24)));
  const int signal = sigtimedwait(&signals_, /*info=*/nullptr, &time);
  if (signal > 0) return Stopped(signal);
  CHECK(errno == EAGAIN || errno == EINTR) << "sigtimedwait: error " << errno;
  return absl::nullopt;
}

void StopSignal::RequestStop() { CHECK_EQ(kill(getpid(), kWakeUp), 0); }

void StopSignal::LimitStopping(absl::Duration limit) {
  struct sigaction exit_late = {};
  exit_late.sa_handler = ExitLate;
  CHECK_EQ(sigaction(SIGALRM, &exit_late, nullptr), 0);
  sigset_t alarm_signal;  // Whoever started the process may have blocked it.
  sigemptyset(&alarm_signal);
  sigaddset(&alarm_signal, SIGALRM);
  CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &alarm_signal, nullptr), 0);
  alarm(static_cast<unsigned>(
      absl::ToInt64Seconds(std::clamp(limit, absl::Seconds(1), absl::Hours(24)))));
}

// From here on SIGTERM and SIGINT reach their handler, in this thread.
int StopSignal::Stopped(int signal) {
  sigset_t asked_twice;
  sigemptyset(&asked_twice);
  sigaddset(&asked_twice, SIGTERM);
  sigaddset(&asked_twice, SIGINT);
  CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &asked_twice, nullptr), 0);
  return signal == kWakeUp ? 0 : signal;
}

}  // namespace millrace
