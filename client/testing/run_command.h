// Runs a command of `millrace` in a test, with its output in strings.
#ifndef MILLRACE_CLIENT_TESTING_RUN_COMMAND_H_
#define MILLRACE_CLIENT_TESTING_RUN_COMMAND_H_

#include <sstream>
#include <string>

#include "client/commands/command.h"
#include "client/commands/exit_code.h"
#include "client/interrupt.h"
#include "worker/devices.h"

namespace millrace::testing {

// A command's surroundings. Set the flags, then Run.
class CommandRun {
 public:
  CommandRun() {
    context_.console = {&out_, &err_, false, [] { return 80; }};
    context_.interrupt = &interrupt_;
  }

  client::Flags& flags() { return context_.flags; }
  client::Interrupt& interrupt() { return interrupt_; }
  worker::CudaLoader& load_cuda() { return context_.load_cuda; }
  const client::CommandContext& context() const { return context_; }

  // The command's own result; errors are not reported.
  absl::StatusOr<client::ExitCode> Run(client::Command command) { return command(context_); }

  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

 private:
  std::ostringstream out_;
  std::ostringstream err_;
  client::Interrupt interrupt_;
  client::CommandContext context_;
};

}  // namespace millrace::testing

#endif  // MILLRACE_CLIENT_TESTING_RUN_COMMAND_H_
