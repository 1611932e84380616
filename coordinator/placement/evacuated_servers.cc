#include "coordinator/placement/evacuated_servers.h"

#include <utility>

#include "common/status_macros.h"

namespace millrace::coordinator {

absl::Status EvacuatedServers::Load() {
  MILLRACE_ASSIGN_OR_RETURN(const EvacuatedDirectories read, journal_->ReadEvacuated());
  MutexLock lock(&mutex_);
  for (const std::string& directory_id : read.directory_ids()) {
    const auto name = read.names().find(directory_id);
    names_[directory_id] = name == read.names().end() ? "" : name->second;
  }
  return absl::OkStatus();
}

absl::Status EvacuatedServers::Add(const std::string& directory_id, const std::string& name) {
  MutexLock change(&changing_);
  std::map<std::string, std::string> names = this->names();
  names[directory_id] = name;
  return Write(std::move(names));
}

absl::Status EvacuatedServers::Remove(const std::string& directory_id) {
  MutexLock change(&changing_);
  std::map<std::string, std::string> names = this->names();
  names.erase(directory_id);
  return Write(std::move(names));
}

absl::Status EvacuatedServers::Write(std::map<std::string, std::string> names) {
  EvacuatedDirectories record;
  for (const auto& [directory_id, name] : names) {
    record.add_directory_ids(directory_id);
    (*record.mutable_names())[directory_id] = name;
  }
  MILLRACE_RETURN_IF_ERROR(journal_->WriteEvacuated(record));
  MutexLock lock(&mutex_);
  names_ = std::move(names);
  return absl::OkStatus();
}

}  // namespace millrace::coordinator
