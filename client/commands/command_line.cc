#include "client/commands/command_line.h"

#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "common/flags.h"
#include "common/printable.h"

namespace millrace::client {
namespace {

constexpr char kVersion[] = "millrace 0.1.0";
constexpr char kDescription[] =
    "Millrace trains machine-learning models through parameter servers.";
constexpr char kFooter[] = R"(
Examples:
  millrace train examples/digits.textproto --data=DIR
  millrace train job.textproto --data=DIR --set epochs=3 --export=model.safetensors
  millrace validate job.textproto --data=DIR
  export MILLRACE_CLUSTER=trainer-0:2220
  millrace submit job.textproto --data=/datasets/mnist
  millrace watch JOB_ID

Exit codes:
  0    succeeded
  1    the job failed or was cancelled, its file is no valid job, or an error on the way
  2    wrong usage: the command line, a job file that cannot be read, a --set that fits no field
  130  interrupted (a second interrupt ends the command at once)

Each command has its own --help.)";
constexpr int kMostMembers = 64;

// Declares the commands. Each has flags of its own: CLI11 reads the environment for all of them,
// whichever is called.
class Declaration {
 public:
  explicit Declaration(CLI::App* app) : app_(app) {
    app_->set_version_flag("--version", kVersion);
    app_->require_subcommand(1);
    app_->footer(kFooter);
    AddTrain();
    AddValidate();
    AddSubmit();
    AddOfCluster("list", "Print the jobs of a cluster, the newest first.");
    AddJobId(AddOfCluster("status", "Print what a cluster knows of a job."));
    AddJobId(AddOfCluster(
        "why", "Print why a job of a cluster does not get on: who waits for whom, since when."));
    AddJobId(AddOfCluster(
        "watch", "Follow a job of a cluster to its end. Interrupting leaves the job alone."));
    AddCancel();
    AddExport();
  }

  // What the command that was called was given, once the arguments are parsed.
  const Flags& chosen() const { return chosen_; }

 private:
  void AddTrain() {
    CLI::App* train =
        Add("train",
            "Train a job to its end, on a cluster inside this process unless --cluster "
            "names one. Interrupting cancels an embedded job, and leaves one of a "
            "cluster alone.");
    AddJobFile(train);
    CLI::Option* cluster = train
                               ->add_option("--cluster", Of(train)->cluster,
                                            "Train on the cluster of the coordinator at HOST:PORT")
                               ->type_name("HOST:PORT");
    train->add_option("--ps", Of(train)->ps, "Parameter servers of the embedded cluster")
        ->check(CLI::Range(1, kMostMembers))
        ->capture_default_str()
        ->excludes(cluster);
    train->add_option("--workers", Of(train)->workers, "Workers of the embedded cluster")
        ->check(CLI::Range(1, kMostMembers))
        ->capture_default_str()
        ->excludes(cluster);
    train
        ->add_option(
            "--state_dir", Of(train)->state_dir,
            "Keep the embedded cluster's state in DIR: a run that was killed goes on where "
            "it was when it is started again")
        ->type_name("DIR")
        ->excludes(cluster);
    AddExportFile(train);
  }

  void AddValidate() {
    AddJobFile(Add("validate",
                   "Check a job without training. With its data (--data, or data.directory in the "
                   "file) the model and the examples are checked too, and the layers printed."));
  }

  void AddSubmit() {
    CLI::App* submit = AddOfCluster(
        "submit",
        "Hand a job to a cluster, print its id and return. --data is a path that workers see.");
    AddJobFile(submit);
  }

  void AddCancel() {
    CLI::App* cancel = AddOfCluster(
        "cancel", "End a job of a cluster early, and wait for its end. What was trained stays.");
    AddJobId(cancel);
    AddDurationFlag(*cancel, "--timeout", &Of(cancel)->timeout, DurationRange(),
                    "How long to wait for the coordinator (1s at least) and the job's end");
  }

  void AddExport() {
    CLI::App* command = AddOfCluster(
        "export", "Write the variables of a job that has ended to a safetensors file.");
    AddJobId(command);
    AddExportFile(command)->required();
  }

  CLI::App* Add(const std::string& name, const std::string& description) {
    CLI::App* command = app_->add_subcommand(name, description);
    Flags* flags = &flags_[name];
    command->callback([this, flags, name] {
      chosen_ = *flags;
      chosen_.command = name;
    });
    command->add_flag("--json", flags->json,
                      "Write JSON to standard output, one object on a line; the rest goes to "
                      "standard error");
    command->add_flag("--verbose", flags->verbose, "Log what happens inside, on standard error");
    return command;
  }

  CLI::App* AddOfCluster(const std::string& name, const std::string& description) {
    CLI::App* command = Add(name, description);
    command->add_option("--cluster", Of(command)->cluster, "The coordinator")
        ->type_name("HOST:PORT")
        ->envname("MILLRACE_CLUSTER")
        ->required();
    return command;
  }

  void AddJobFile(CLI::App* command) {
    command
        ->add_option("JOB.textproto", Of(command)->job_file,
                     "The job: a JobSpec in protobuf text format")
        ->required()
        ->type_name("");
    command
        ->add_option("--data", Of(command)->data, "The folder of the job's data (data.directory)")
        ->type_name("DIR");
    command
        ->add_option("--set", Of(command)->set,
                     "Set a field of the job, such as epochs=3 or model.layers[2].dense.units=64; "
                     "can be repeated")
        ->type_name("PATH=VALUE")
        ->allow_extra_args(false);
  }

  void AddJobId(CLI::App* command) {
    command->add_option("JOB_ID", Of(command)->job_id, "The job, as `millrace submit` printed it")
        ->required()
        ->type_name("");
  }

  CLI::Option* AddExportFile(CLI::App* command) {
    return command
        ->add_option("--export", Of(command)->export_file,
                     "Write the final variables to a safetensors file")
        ->type_name("FILE.safetensors");
  }

  Flags* Of(CLI::App* command) { return &flags_.at(command->get_name()); }

  CLI::App* const app_;
  std::map<std::string, Flags> flags_;  // By command.
  Flags chosen_;
};

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
  Declaration declaration(&app);
  try {
    app.parse(argc, argv);
    line.flags = declaration.chosen();
  } catch (const CLI::ParseError& error) {
    const bool unknown = argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty();
    const int code = unknown ? ComplainOfCommand(argv[1], app, *console.err)
                             : EndParsing(app, error, *console.out, *console.err);
    line.exit = code == 0 ? ExitCode::kSucceeded : ExitCode::kUsage;
  }
  return line;
}

}  // namespace millrace::client
