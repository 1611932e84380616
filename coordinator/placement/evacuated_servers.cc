#include "coordinator/placement/evacuated_servers.h"

#include <utility>

#include "common/status_macros.h"

namespace millrace::coordinator {

absl::Status EvacuatedServers::Load() {
  MILLRACE_ASSIGN_OR_RETURN(const EvacuatedDirectories read, journal_->ReadEvacuated());
  MutexLock lock(&mutex_);
  directories_ = {read.directory_ids().begin(), read.directory_ids().end()};
  return absl::OkStatus();
}

absl::Status EvacuatedServers::Set(const std::string& directory_id, bool is_evacuated) {
  MutexLock change(&changing_);
  std::set<std::string> directories;
  {
    MutexLock lock(&mutex_);
    directories = directories_;
  }
  const bool changes =
      is_evacuated ? directories.insert(directory_id).second : directories.erase(directory_id) > 0;
  if (!changes) return absl::OkStatus();
  EvacuatedDirectories record;
  record.mutable_directory_ids()->Assign(directories.begin(), directories.end());
  MILLRACE_RETURN_IF_ERROR(journal_->WriteEvacuated(record));
  MutexLock lock(&mutex_);
  directories_ = std::move(directories);
  return absl::OkStatus();
}

}  // namespace millrace::coordinator
