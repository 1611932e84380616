#include "client/commands/command_declaration.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/flags.h"
#include "common/plain_name.h"
#include "common/printable.h"
#include "worker/devices.h"

namespace millrace::client {
namespace {

constexpr int kMostMembers = 64;
constexpr char kExportTo[] =
    "Write the variables to FILE.safetensors, to FILE.npz (for numpy.load), or to FOLDER/, an .npy "
    "file for each: h.kernel.npy for h/kernel";

// "": models can run on it. The flag's name is put before what is wrong.
std::string WhatIsWrongWithDevice(const std::string& name) {
  const absl::Status status = worker::CheckDeviceName(name);
  return std::string(absl::StripPrefix(status.message(), "device: "));
}

// "": a job can have it.
std::string WhatIsWrongWithJobId(const std::string& id) {
  if (IsPlainName(id)) return "";
  return absl::StrCat("'", PrintableName(id), "'; must be letters, digits, '_', '-' and '.'");
}

}  // namespace

CommandDeclaration::CommandDeclaration(CLI::App* app) : app_(app) {
  AddTrain();
  AddValidate();
  AddConvert();
  AddSubmit();
  AddOfCluster("list", "Print the jobs of a cluster, the newest first.");
  AddOfCluster("members",
               "Print the ps servers and workers of a cluster: what they are, hold and compute on, "
               "which version they run, and who has gone of late.");
  AddJobId(AddOfCluster("status", "Print what a cluster knows of a job."));
  AddJobId(AddOfCluster(
      "why", "Print why a job of a cluster does not get on: who waits for whom, since when."));
  AddJobId(AddOfCluster(
      "watch", "Follow a job of a cluster to its end. Interrupting leaves the job alone."));
  AddCancel();
  AddEvacuate();
  AddRebalance();
  AddExport();
  AddCheckpoint();
  AddCheckpoints();
}

void CommandDeclaration::AddTrain() {
  CLI::App* train =
      Add("train",
          "Train a job to its end, on a cluster inside this process unless --cluster "
          "names one. Interrupting leaves a job of a cluster alone. It ends an embedded one: "
          "for good, or with --checkpoints at a checkpoint, from which the same command goes "
          "on, as it does after a crash.");
  AddJobFile(train);
  CLI::Option* cluster = train
                             ->add_option("--cluster", Of(train)->cluster,
                                          "Train on the cluster of the coordinator at HOST:PORT")
                             ->type_name("HOST:PORT");
  AddTlsFlags(*train, &Of(train)->tls);
  AddStart(train);
  train->add_option("--ps", Of(train)->ps, "Parameter servers of the embedded cluster")
      ->check(CLI::Range(1, kMostMembers))
      ->capture_default_str()
      ->excludes(cluster);
  train->add_option("--workers", Of(train)->workers, "Workers of the embedded cluster")
      ->check(CLI::Range(1, kMostMembers))
      ->capture_default_str()
      ->excludes(cluster);
  train
      ->add_option("--device", Of(train)->device,
                   "What the embedded workers' models run on: cpu, cuda (the first GPU), cuda:N, "
                   "cuda:N,M,... (several, which share each batch), or auto: a GPU where there is "
                   "one")
      ->check(WhatIsWrongWithDevice)
      ->capture_default_str()
      ->excludes(cluster);
  AddDurationFlag(*train, "--device_timeout", &Of(train)->device_timeout,
                  {worker::kLeastDeviceTimeout, worker::kMostDeviceTimeout},
                  "How long a GPU may take for a step of the embedded workers. After that it is "
                  "lost to this process. Making a model and giving it back may take 120s in any "
                  "case")
      ->excludes(cluster);
  train
      ->add_option("--deterministic", Of(train)->deterministic,
                   "On a GPU equal values give equal bits; false: the embedded workers' sums are "
                   "made in any order where that is faster. Default: true")
      ->type_name("BOOL")
      ->excludes(cluster);
  train
      ->add_option(
          "--state_dir", Of(train)->state_dir,
          "Keep the embedded cluster's state in DIR: a run that was killed goes on from its "
          "newest cuts when it is started again")
      ->type_name("DIR")
      ->excludes(cluster);
  AddBest(train)->needs(AddExportFile(train, "--export"));
}

void CommandDeclaration::AddValidate() {
  AddJobFile(Add("validate",
                 "Check a job without training. With its data (--data, or data.directory in the "
                 "file) the model and the examples are checked too, and the layers printed."));
  AddJobFile(Add("summary",
                 "Print the layers of a job's model on its data (--data, or data.directory in the "
                 "file): kind, inputs, output, parameters and FLOPs of each; how many parameters "
                 "are trained, frozen or statistics; what a step pushes, and what memory a worker "
                 "needs."));
}

void CommandDeclaration::AddConvert() {
  CLI::App* command =
      Add("convert",
          "Print a model that Keras has written as the model of a job file, with losses, metrics "
          "and optimizer where the file has them. What cannot be converted is named with its "
          "place; what was changed is told on standard error. For example: millrace convert "
          "model.keras --weights=model.safetensors >job.textproto");
  command
      ->add_option("MODEL", Of(command)->path,
                   "A .keras file, an .h5 file of a whole model, or what model.to_json() wrote")
      ->required()
      ->type_name("");
  CLI::Option* weights =
      command
          ->add_option("--weights", Of(command)->weights,
                       "Write the values of the model's variables to FILE.safetensors, for train "
                       "--init_from=FILE.safetensors")
          ->type_name("FILE");
  command
      ->add_option("WEIGHTS.h5", Of(command)->weights_file,
                   "The file with the values, as model.save_weights() wrote it, where MODEL has "
                   "none or others")
      ->type_name("")
      ->needs(weights);
}

void CommandDeclaration::AddSubmit() {
  CLI::App* submit = AddOfCluster(
      "submit",
      "Hand a job to a cluster, print its id and return. --data is a path that workers see.");
  AddJobFile(submit);
  AddStart(submit);
}

void CommandDeclaration::AddStart(CLI::App* command) {
  command
      ->add_option("--checkpoints", Of(command)->checkpoints,
                   "Write checkpoints of the job into DIR, which the coordinator and all ps "
                   "servers must see (checkpoints.directory)")
      ->type_name("DIR");
  CLI::Option* restore = command
                             ->add_option("--restore", Of(command)->restore,
                                          "Go on from a checkpoint: DIR or DIR/latest for the "
                                          "whole one with the most steps, or DIR/000017. Without "
                                          "JOB.textproto the job is the checkpoint's")
                             ->type_name("PATH");
  CLI::Option* init_from =
      command
          ->add_option("--init_from", Of(command)->init_from,
                       "Begin with variables that another job has learned: a checkpoint, or a "
                       "safetensors file")
          ->type_name("PATH")
          ->excludes(restore);
  command
      ->add_option("--init_rule", Of(command)->init_rule,
                   "Take the variables whose whole names match the regular expression PATTERN "
                   "from the tensor NAME, where \\1 is what the first group matched; no NAME: "
                   "leave them as they are. The first rule that fits counts; can be repeated")
      ->type_name("PATTERN=NAME")
      ->allow_extra_args(false)
      ->needs(init_from);
  command
      ->add_flag("--init_allow_missing", Of(command)->init_allow_missing,
                 "Variables that PATH lacks have their initial values")
      ->needs(init_from);
  command
      ->add_flag("--init_allow_unused", Of(command)->init_allow_unused,
                 "Leave out what no variable has use for")
      ->needs(init_from);
  CLI::Option* job = command->get_option("JOB.textproto")->required(false);
  command->parse_complete_callback([job, restore] {
    if (job->empty() && restore->empty()) {
      throw CLI::RequiredError("JOB.textproto (or --restore)");
    }
  });
}

void CommandDeclaration::AddCheckpoints() {
  CLI::App* group = app_->add_subcommand(
      "checkpoints", "Look at checkpoints, check, export and remove them. No cluster is needed.");
  group->require_subcommand(1);
  AddPath(Add("ls", "List the checkpoints of a directory, and what is wrong with them.", group));
  CLI::App* show = Add("show",
                       "Print what a checkpoint has: its job, its step, and shape, range, mean, "
                       "norm and bytes of each variable.",
                       group);
  AddPath(show);
  AddSlots(show);
  AddPath(Add("verify",
              "Read every byte of a checkpoint. Where something is damaged it is named, and the "
              "whole checkpoint that a job would go on from; then the exit code is 1.",
              group));
  AddCheckpointsExport(group);
  AddCheckpointsRm(group);
}

void CommandDeclaration::AddCheckpointsExport(CLI::App* group) {
  CLI::App* command = Add("export",
                          "Write the variables of a checkpoint to files that other programs "
                          "read. Memory does not grow with the model.",
                          group);
  AddPath(command);
  AddSlots(command);
  AddExportFile(command, "--to")->required();
}

void CommandDeclaration::AddCheckpointsRm(CLI::App* group) {
  CLI::App* command = Add("rm",
                          "Remove a checkpoint, and files that none needs. What others refer to "
                          "stays. The furthest whole one, which a job goes on from, and that of "
                          "the best evaluation go only with --force: to know which is the "
                          "furthest, the values of those that stay are read, as verify does, until "
                          "enough are whole.",
                          group);
  AddPath(command);
  command
      ->add_option("--keep", Of(command)->keep,
                   "Remove all of the directory but so many of the newest whole ones, the "
                   "furthest and the best. Damaged ones are named, and go only by their own paths")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("N");
  command->add_flag(
      "--force", Of(command)->force,
      "Remove it even if it is the furthest whole one, the best, or unfinished; reads no values");
}

void CommandDeclaration::AddPath(CLI::App* command) {
  command
      ->add_option("PATH", Of(command)->path,
                   "One checkpoint, such as DIR/000017, or a directory of them, DIR or DIR/latest: "
                   "the newest one there; ls and rm --keep take the directory as a whole")
      ->required()
      ->type_name("");
}

void CommandDeclaration::AddSlots(CLI::App* command) {
  command->add_flag("--slots", Of(command)->slots, "The optimizer's slots too");
}

void CommandDeclaration::AddCancel() {
  CLI::App* cancel = AddOfCluster(
      "cancel", "End a job of a cluster early, and wait for its end. What was trained stays.");
  AddJobId(cancel);
  AddDurationFlag(*cancel, "--timeout", &Of(cancel)->timeout, DurationRange(),
                  "How long to wait for the coordinator (1s at least) and the job's end");
}

void CommandDeclaration::AddEvacuate() {
  CLI::App* command = AddOfCluster(
      "evacuate",
      "Have all jobs that run leave a ps server, so that it can be stopped for good: their shards "
      "move to others, training pauses for that and loses nothing, and new shards go elsewhere. "
      "Waits until then, or for --timeout; either way, and also when this is interrupted, the "
      "server stays evacuated until --undo.");
  command
      ->add_option("PS_SERVER", Of(command)->ps_server,
                   "The server's name, as `millrace members` prints it, or its data directory's id")
      ->required()
      ->type_name("");
  Of(command)->timeout = absl::Minutes(10);
  CLI::Option* timeout = AddDurationFlag(*command, "--timeout", &Of(command)->timeout,
                                         DurationRange(), "How long to wait for it");
  command
      ->add_flag("--undo", Of(command)->undo,
                 "The server gets shards again. Those that have moved stay where they are")
      ->excludes(timeout);
}

void CommandDeclaration::AddRebalance() {
  AddJobId(AddOfCluster(
      "rebalance",
      "Have shards of a running job move, so that ps servers hold as much as one another, as far "
      "as whole shards allow: to servers that came after it was placed, or that were evacuated and "
      "are not any more. Training pauses for that and loses nothing. Prints what moves, and does "
      "not wait."));
}

void CommandDeclaration::AddExport() {
  CLI::App* command = AddOfCluster(
      "export",
      "Write the variables of a job that has ended to files that other programs read. Memory "
      "does not grow with the model.");
  AddJobId(command);
  AddExportFile(command, "--export,--to")->required();
  command
      ->add_flag("--while_running", Of(command)->while_running,
                 "Of a job that has not ended too: each shard as it is just then, all of them "
                 "of no single moment")
      ->excludes(AddBest(command));
}

void CommandDeclaration::AddCheckpoint() {
  CLI::App* command =
      AddOfCluster("checkpoint",
                   "Have a checkpoint of a job written now; of one that has ended, of its end. "
                   "The job needs a "
                   "directory for checkpoints (train or submit --checkpoints=DIR).");
  AddJobId(command);
  command->add_flag("--wait", Of(command)->wait, "Return when the checkpoint is there");
  Of(command)->timeout = absl::Minutes(10);
  AddDurationFlag(*command, "--timeout", &Of(command)->timeout, {.least = absl::Seconds(1)},
                  "How long to wait for it");
}

CLI::App* CommandDeclaration::Add(const std::string& name, const std::string& description,
                                  CLI::App* group) {
  CLI::App* command = (group == nullptr ? app_ : group)->add_subcommand(name, description);
  Flags* flags = &flags_[command];
  const std::string whole_name = group == nullptr ? name : group->get_name() + " " + name;
  command->callback([this, flags, whole_name] {
    chosen_ = *flags;
    chosen_.command = whole_name;
  });
  command->add_flag("--json", flags->json,
                    "Write JSON to standard output, one object on a line; the rest goes to "
                    "standard error");
  command->add_flag("--verbose", flags->verbose, "Log what happens inside, on standard error");
  return command;
}

CLI::App* CommandDeclaration::AddOfCluster(const std::string& name,
                                           const std::string& description) {
  CLI::App* command = Add(name, description);
  command->add_option("--cluster", Of(command)->cluster, "The coordinator")
      ->type_name("HOST:PORT")
      ->envname("MILLRACE_CLUSTER")
      ->required();
  AddTlsFlags(*command, &Of(command)->tls);
  return command;
}

void CommandDeclaration::AddJobFile(CLI::App* command) {
  command
      ->add_option("JOB.textproto", Of(command)->job_file,
                   "The job: a JobSpec in protobuf text format, of at most 2 MiB; /dev/stdin or "
                   "another pipe is read to its end")
      ->required()
      ->type_name("");
  command->add_option("--data", Of(command)->data, "The folder of the job's data (data.directory)")
      ->type_name("DIR");
  command
      ->add_option("--set", Of(command)->set,
                   "Set a field of the job, such as epochs=3 or model.layers[2].dense.units=64; "
                   "can be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

void CommandDeclaration::AddJobId(CLI::App* command) {
  command->add_option("JOB_ID", Of(command)->job_id, "The job, as `millrace submit` printed it")
      ->required()
      ->check(WhatIsWrongWithJobId)
      ->type_name("");
}

CLI::Option* CommandDeclaration::AddBest(CLI::App* command) {
  return command->add_flag("--best", Of(command)->best,
                           "Of the state with the best evaluation instead of the last one. The "
                           "job keeps it where it has evaluation.keep_best");
}

CLI::Option* CommandDeclaration::AddExportFile(CLI::App* command, const std::string& names) {
  return command->add_option(names, Of(command)->export_file, kExportTo)->type_name("FILE");
}

Flags* CommandDeclaration::Of(CLI::App* command) { return &flags_.at(command); }

}  // namespace millrace::client
