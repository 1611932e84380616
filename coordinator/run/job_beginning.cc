#include "coordinator/run/job_beginning.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "coordinator/checkpoint/checkpoint_finder.h"

namespace millrace::coordinator {

void SetRestoredFrom(const RestoredFrom& from, JobRecord& record) {
  *record.mutable_restored_from() = from;
  record.clear_stopping();
  record.clear_best();
  if (from.has_stopping()) *record.mutable_stopping() = from.stopping();
  if (from.has_best()) *record.mutable_best() = from.best();
}

absl::StatusOr<std::vector<std::string>> ResolveRestore(const RunnerEnvironment& environment,
                                                        const std::function<bool()>& cancelled,
                                                        JobRecord& record) {
  std::vector<std::string> notices;
  if (!record.spec().has_restore()) return notices;
  MILLRACE_ASSIGN_OR_RETURN(
      FoundRestore found,
      environment.file_caller->Call<FoundRestore>(
          absl::StrCat("restore.directory: ", record.spec().restore().directory()),
          [spec = record.spec(), before = record.restored_from().checkpoint().checkpoint(),
           files = environment.file_system] { return FindRestore(files, spec, before); },
          cancelled));
  SetRestoredFrom(found.from, record);
  for (const std::string& damage : found.damaged) {
    notices.push_back(
        absl::StrCat("a checkpoint cannot be used, and the one before is taken: ", damage));
  }
  return notices;
}

absl::StatusOr<std::string> ResolveWarmStart(const RunnerEnvironment& environment,
                                             const std::function<bool()>& cancelled,
                                             JobRecord& record) {
  if (!record.spec().has_warm_start() || !record.has_plan() || record.warm_start_size() > 0) {
    return "";
  }
  MILLRACE_ASSIGN_OR_RETURN(
      FoundWarmStart found,
      environment.file_caller->Call<FoundWarmStart>(
          absl::StrCat("warm_start.path: ", record.spec().warm_start().path()),
          [spec = record.spec(), plan = record.plan(), files = environment.file_system] {
            return FindWarmStart(files, spec, plan);
          },
          cancelled));
  record.mutable_warm_start()->Assign(found.tensors.begin(), found.tensors.end());
  return std::move(found.notice);
}

std::string DescribeRestore(const JobRecord& record) {
  if (!record.has_restored_from()) return "";
  const RestoredFrom& from = record.restored_from();
  return absl::StrCat("goes on at step ", from.step(), " from checkpoint ",
                      NameOf(from.checkpoint()), " of job ", from.job_id());
}

}  // namespace millrace::coordinator
