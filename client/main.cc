// The `millrace` command: see `millrace --help`, and client/commands/ for what it does.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/commands/command_line.h"
#include "client/commands/commands.h"
#include "client/commands/exit_code.h"
#include "client/console.h"
#include "client/interrupt.h"
#include "common/net/channel.h"
#include "common/process.h"
#include "glog/logging.h"

namespace {

// Without --verbose the terminal is the command's: servers of an embedded cluster log what is
// wrong, and gRPC, which reports every connection that is refused, nothing.
void ConfigureLogging(bool verbose) {
  if (verbose) return;
  FLAGS_minloglevel = google::GLOG_WARNING;
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
}

// Whoever reads the output must not take a part of it for the whole.
bool OutputIsWritten() {
  errno = 0;
  std::cout.flush();
  if (std::cout.good()) return true;
  std::cerr << "millrace: cannot write to the standard output"
            << (errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno))) << std::endl;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace::client;  // NOLINT: this is main.
  millrace::OpenStandardStreams();
  CommandContext context;
  context.console = SystemConsole();
  const CommandLine line = ParseCommandLine(argc, argv, context.console);
  if (line.exit) return static_cast<int>(OutputIsWritten() ? *line.exit : ExitCode::kFailed);
  context.flags = line.flags;

  ConfigureLogging(context.flags.verbose);
  millrace::ConfigureGrpcEnvironment();
  millrace::InitProcess(argv[0]);

  // This thread takes the signals, and the command runs in another.
  millrace::StopSignal stop;
  Interrupt interrupt;
  context.interrupt = &interrupt;
  ExitCode exit_code = ExitCode::kSucceeded;
  std::thread command([&] {
    exit_code = RunCommand(context);
    stop.RequestStop();
  });
  if (stop.Wait() != 0) {
    // They only read, for as long as the data take.
    const std::string& name = context.flags.command;
    if (name == "validate" || name == "summary") _exit(static_cast<int>(ExitCode::kInterrupted));
    interrupt.Trigger();
  }
  command.join();
  if (!OutputIsWritten()) exit_code = ExitCode::kFailed;
  // What runs at an exit might wait for a GPU that was lost.
  if (context.flags.command == "train" && exit_code == ExitCode::kFailed) millrace::EndProcess(1);
  return static_cast<int>(exit_code);
}
