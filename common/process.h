// What the main() of every binary does around its work: logging, and stopping when asked to.
#ifndef MILLRACE_COMMON_PROCESS_H_
#define MILLRACE_COMMON_PROCESS_H_

#include <signal.h>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace millrace {

// Opens /dev/null for those of standard input, output and error that are closed, so that no file
// that is opened later gets their number. There is nothing to read, and writing fails as it would
// without. Call first of all in main().
void OpenStandardStreams();

// Logs go to stderr, those of libprotobuf a line in a minute at most; neither a peer that closes
// its connection nor a file that reaches the limit of its size kills the process (SIGPIPE and
// SIGXFSZ are ignored: writing fails instead); as many files can be open as the hard limit allows
// (2^20 at most), and a warning says so where those are few. With fewer than 64, or where fewer
// than 32 threads can be started, the process ends, with exit code 1. Call once, at the beginning
// of main(). `name` must stay in place: argv[0] does.
void InitProcess(const char* name);

// Ends the process at once: writes what is printed and logged, but runs nothing of what is to run
// at an exit, which might wait for threads or devices that do not answer.
[[noreturn]] void EndProcess(int exit_status);

// Takes over SIGTERM and SIGINT while it lives. Make it in main() before any other thread is
// started, so that every thread leaves these signals alone; then no code ever runs in a signal
// handler.
//
// The first signal ends Wait(). One that comes after that ends the process at once, with the exit
// status that a shell expects (143 for SIGTERM, 130 for SIGINT): whoever asks twice does not want
// to wait. One at a time in a process.
class StopSignal {
 public:
  StopSignal();
  // The signals do again what they did before.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Blocks until the process is asked to stop. Returns the signal, or 0 after RequestStop().
  // Call in the thread that made the object.
  int Wait();

  // The same, for at most about `timeout`; nullopt: nobody has asked.
  absl::optional<int> WaitFor(absl::Duration timeout);

  // Ends Wait() from within, now or when it is called. Thread-safe.
  void RequestStop();

  // From now on the process may be there for `limit` (1 s to a day): then it ends at once, with
  // exit code 1 and an error that says so, whatever it waits for. Needs no thread. Once.
  static void LimitStopping(absl::Duration limit);

 private:
  int Stopped(int signal);

  sigset_t signals_;        // Those that Wait takes.
  sigset_t previous_mask_;  // Of the thread that made the object.
  struct sigaction previous_terminate_;
  struct sigaction previous_interrupt_;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_PROCESS_H_
