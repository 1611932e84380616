// The commands of `millrace`, and which flags each has.
#ifndef MILLRACE_CLIENT_COMMANDS_COMMAND_DECLARATION_H_
#define MILLRACE_CLIENT_COMMANDS_COMMAND_DECLARATION_H_

#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "client/commands/flags.h"

namespace millrace::client {

// Each command has flags of its own: CLI11 reads the environment for all of them, whichever is
// called. Which flags go together is declared with them.
class CommandDeclaration {
 public:
  // Adds the commands to `app`, which is not owned and is used as long as this lives.
  explicit CommandDeclaration(CLI::App* app);

  // What the command that was called was given, once the arguments are parsed.
  const Flags& chosen() const { return chosen_; }

 private:
  void AddTrain();
  void AddValidate();
  void AddConvert();
  void AddSubmit();
  // Where the job begins, and where its checkpoints go. A job that goes on from a checkpoint need
  // have no file.
  void AddStart(CLI::App* command);
  // Of files: no cluster is needed.
  void AddCheckpoints();
  void AddCheckpointsExport(CLI::App* group);
  void AddCheckpointsRm(CLI::App* group);
  void AddPath(CLI::App* command);
  void AddSlots(CLI::App* command);
  void AddCancel();
  void AddEvacuate();
  void AddRebalance();
  void AddExport();
  void AddCheckpoint();
  // `group`: the command whose part it is, if any.
  CLI::App* Add(const std::string& name, const std::string& description, CLI::App* group = nullptr);
  CLI::App* AddOfCluster(const std::string& name, const std::string& description);
  void AddJobFile(CLI::App* command);
  void AddJobId(CLI::App* command);
  CLI::Option* AddBest(CLI::App* command);
  CLI::Option* AddExportFile(CLI::App* command, const std::string& names);
  Flags* Of(CLI::App* command);

  CLI::App* const app_;
  std::map<const CLI::App*, Flags> flags_;  // By command.
  Flags chosen_;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_COMMAND_DECLARATION_H_
