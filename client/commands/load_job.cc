#include "client/commands/load_job.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/commands/checkpoint_choice.h"
#include "client/commands/exit_code.h"
#include "client/commands/read_text_file.h"
#include "client/keras/keras_file.h"
#include "common/job_spec.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// A cluster takes no larger jobs.
constexpr size_t kMaxJobFileBytes = 2 << 20;

// The job of a checkpoint, which goes on in its directory. Where the name is a directory's it
// gets the number of the furthest whole one: the job and what it goes on from must be of one
// checkpoint, and another one may be written meanwhile.
absl::StatusOr<JobSpec> JobOfCheckpoint(const Reading& reading, CheckpointName* name) {
  std::unique_ptr<Checkpoint> checkpoint;
  if (name->number == 0) {
    MILLRACE_ASSIGN_OR_RETURN(checkpoint, OpenFurthestWhole(name->directory, reading));
  }
  // Also where there is none: this says so.
  if (checkpoint == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(checkpoint, OpenCheckpoint(*name));
  }
  name->number = checkpoint->manifest().number();
  JobSpec spec = checkpoint->manifest().spec();
  // The checkpoint's own beginning is behind it.
  spec.clear_restore();
  spec.clear_warm_start();
  spec.mutable_checkpoints()->set_directory(name->directory);
  return spec;
}

// What people take for a job file or for weights, since it has both.
bool IsOfKeras(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  switch (KerasFormatOf(path)) {
    case KerasFormat::kArchive:  // NumPy's .npz files begin alike.
      return absl::EndsWith(path, ".keras");
    case KerasFormat::kHdf5:
      return true;
    case KerasFormat::kJson:
      return false;
  }
  return false;
}

absl::StatusOr<JobSpec> ReadJobFile(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text,
                            ReadTextFile("job file", flags.job_file, kMaxJobFileBytes));
  return ParseJobSpec(text, flags.job_file);
}

absl::StatusOr<JobSpec> JobOfFile(const Flags& flags) {
  absl::StatusOr<JobSpec> spec = ReadJobFile(flags);
  if (spec.ok() || !IsOfKeras(flags.job_file)) return spec;
  return UsageError(absl::StrCat(flags.job_file,
                                 ": a file of Keras's; must be a job file. This makes one of it: "
                                 "millrace convert ",
                                 flags.job_file, " --weights=FILE.safetensors > JOB.textproto"));
}

absl::Status CheckWarmStart(const JobSpec& spec) {
  const std::string& path = spec.warm_start().path();
  if (path.empty() || !IsOfKeras(path)) return absl::OkStatus();
  const bool may_be_weights = KerasFormatOf(path) == KerasFormat::kHdf5;
  return UsageError(absl::StrCat(
      "--init_from (warm_start.path): ", path,
      ": a file of Keras's; must be a checkpoint or a safetensors file. This writes "
      "its weights as one: millrace convert ",
      path, " --weights=FILE.safetensors > JOB.textproto",
      may_be_weights ? "; where it has weights alone, name the MODEL.json before it" : ""));
}

void SetRestore(const CheckpointName& name, JobSpec* spec) {
  spec->clear_warm_start();
  spec->mutable_restore()->set_directory(name.directory);
  spec->mutable_restore()->set_checkpoint(name.number);
}

absl::StatusOr<NameRule> ParseRule(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return UsageError(absl::StrCat("--init_rule ", text, "; must be PATTERN=NAME"));
  }
  NameRule rule;
  rule.set_pattern(text.substr(0, equals));
  rule.set_replacement(text.substr(equals + 1));
  return rule;
}

absl::Status SetWarmStart(const Flags& flags, JobSpec* spec) {
  if (flags.init_from.empty()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(const CheckpointName name,
                            ParseAbsolutePath("--init_from", flags.init_from));
  spec->clear_restore();
  WarmStartSpec& warm_start = *spec->mutable_warm_start();
  warm_start.set_path(name.directory);
  warm_start.set_checkpoint(name.number);
  if (!flags.init_rule.empty()) warm_start.clear_rules();
  for (const std::string& text : flags.init_rule) {
    MILLRACE_ASSIGN_OR_RETURN(*warm_start.add_rules(), ParseRule(text));
  }
  if (flags.init_allow_missing) warm_start.set_allow_missing(true);
  if (flags.init_allow_unused) warm_start.set_allow_unused(true);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobSpec> LoadJob(const Flags& flags, const Reading& reading) {
  absl::optional<CheckpointName> restore;
  if (flags.job_file.empty() || !flags.restore.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(restore, ParseAbsolutePath("--restore", flags.restore));
  }
  MILLRACE_ASSIGN_OR_RETURN(JobSpec spec, flags.job_file.empty()
                                              ? JobOfCheckpoint(reading, &*restore)
                                              : JobOfFile(flags));
  for (const std::string& assignment : flags.set) {
    if (const absl::Status status = SetField(assignment, &spec); !status.ok()) {
      return UsageError(absl::StrCat("--set ", assignment, ": ", std::string(status.message())));
    }
  }
  if (!flags.data.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(*spec.mutable_data()->mutable_directory(),
                              MakeAbsolute("--data", flags.data));
  }
  if (!flags.checkpoints.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(*spec.mutable_checkpoints()->mutable_directory(),
                              MakeAbsolute("--checkpoints", flags.checkpoints));
  }
  if (restore) SetRestore(*restore, &spec);
  MILLRACE_RETURN_IF_ERROR(SetWarmStart(flags, &spec));
  MILLRACE_RETURN_IF_ERROR(CheckWarmStart(spec));
  return spec;
}

}  // namespace millrace::client
