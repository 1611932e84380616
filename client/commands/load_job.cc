#include "client/commands/load_job.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/commands/exit_code.h"
#include "common/job_spec.h"
#include "common/status_macros.h"

namespace millrace::client {
namespace {

// A cluster takes no larger jobs.
constexpr size_t kMaxJobFileBytes = 2 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return UsageError(absl::StrCat("cannot read the job file ", path, ": it is a directory"));
  }
  std::ifstream file(path);
  if (!file) {
    return UsageError(absl::StrCat("cannot read the job file ", path, ": ", std::strerror(errno)));
  }
  std::string text(kMaxJobFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    return UsageError(absl::StrCat("cannot read the job file ", path, ": ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxJobFileBytes) {
    return UsageError(absl::StrCat("cannot read the job file ", path, ": it has more than ",
                                   kMaxJobFileBytes, " bytes"));
  }
  return text;
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return UsageError(absl::StrCat("--data=", path, ": ", error.message()));
  return absolute.lexically_normal().string();
}

}  // namespace

absl::StatusOr<JobSpec> LoadJob(const Flags& flags) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadFile(flags.job_file));
  MILLRACE_ASSIGN_OR_RETURN(JobSpec spec, ParseJobSpec(text, flags.job_file));
  for (const std::string& assignment : flags.set) {
    if (const absl::Status status = SetField(assignment, &spec); !status.ok()) {
      return UsageError(absl::StrCat("--set ", assignment, ": ", std::string(status.message())));
    }
  }
  if (!flags.data.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(*spec.mutable_data()->mutable_directory(), AbsolutePath(flags.data));
  }
  return spec;
}

}  // namespace millrace::client
