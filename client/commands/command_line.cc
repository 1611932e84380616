#include "client/commands/command_line.h"

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/commands/command_declaration.h"
#include "common/flags.h"
#include "common/printable.h"

namespace millrace::client {
namespace {

constexpr char kDescription[] =
    "Millrace trains machine-learning models through parameter servers.";
constexpr char kFooter[] = R"(
Examples:
  millrace train examples/digits.textproto --data=DIR
  millrace train job.textproto --data=DIR --set epochs=3 --export=model.safetensors
  millrace train job.textproto --data=DIR --checkpoints=CHECKPOINTS
  millrace checkpoints show CHECKPOINTS
  millrace validate job.textproto --data=DIR
  millrace summary job.textproto --data=DIR
  millrace convert model.keras --weights=model.safetensors > job.textproto
  export MILLRACE_CLUSTER=trainer-0:2220
  millrace submit job.textproto --data=/datasets/mnist
  millrace watch JOB_ID

Exit codes:
  0    succeeded
  1    the job failed or was cancelled, its file is no valid job, a checkpoint is damaged, or an
       error on the way
  2    wrong usage: the command line, a job file that cannot be read, a --set that fits no field
  130  interrupted (a second interrupt ends the command at once)

Each command has its own --help.)";
// Index of the argument that stands where a command should and is none; 0: there is no such one.
int UnknownCommand(int argc, const char* const* argv, const CLI::App& app) {
  const auto is_word = [&](int index) { return argc > index && argv[index][0] != '-'; };
  const std::vector<CLI::App*> found = app.get_subcommands();
  if (found.empty()) return is_word(1) ? 1 : 0;
  const bool is_group = !found.front()->get_subcommands(/*filter=*/{}).empty();
  return is_group && found.front()->get_subcommands().empty() && is_word(2) ? 2 : 0;
}

// CLI11 says no more than that a command is required.
int ComplainOfCommand(const std::string& given, const CLI::App& app, std::ostream& err) {
  err << "no command '" << PrintableName(given) << "'; must be one of";
  const char* separator = " ";
  for (const CLI::App* command : app.get_subcommands(/*filter=*/{})) {
    err << separator << command->get_name();
    separator = ", ";
  }
  err << "\nRun with --help for more information." << std::endl;
  return 1;
}

}  // namespace

CommandLine ParseCommandLine(int argc, const char* const* argv, const Console& console) {
  CommandLine line;
  if (const absl::Status status = CheckNoEmptyFlag(argc, argv); !status.ok()) {
    ComplainOfUsage(status.message(), *console.err);
    line.exit = ExitCode::kUsage;
    return line;
  }
  CLI::App app(kDescription, "millrace");
  AddVersionFlag(app);
  app.require_subcommand(1);
  app.footer(kFooter);
  CommandDeclaration declaration(&app);
  try {
    app.parse(argc, argv);
    line.flags = declaration.chosen();
  } catch (const CLI::ParseError& error) {
    const int unknown = UnknownCommand(argc, argv, app);
    const int code =
        unknown > 0
            ? ComplainOfCommand(argv[unknown], unknown == 1 ? app : *app.get_subcommands().front(),
                                *console.err)
            : EndParsing(app, error, *console.out, *console.err);
    line.exit = code == 0 ? ExitCode::kSucceeded : ExitCode::kUsage;
  }
  return line;
}

}  // namespace millrace::client
