#include "coordinator/placement/evacuated_servers.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace millrace::coordinator {

ArrivingShards::~ArrivingShards() {
  if (servers_ != nullptr) servers_->Forget(this);
}

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

std::unique_ptr<ArrivingShards> EvacuatedServers::Announce(const std::string& job_id,
                                                           std::vector<std::string> directory_ids) {
  auto shards = std::make_unique<ArrivingShards>(this, job_id, std::move(directory_ids));
  bool is_evacuated = false;
  {
    MutexLock lock(&mutex_);
    for (const std::string& id : shards->directory_ids()) is_evacuated |= names_.contains(id);
    if (!is_evacuated) arriving_.insert(shards.get());
  }
  return is_evacuated ? nullptr : std::move(shards);
}

std::map<std::string, uint64_t> EvacuatedServers::ArrivingAt(
    const std::string& directory_id) const {
  std::map<std::string, uint64_t> jobs;
  MutexLock lock(&mutex_);
  for (const ArrivingShards* const shards : arriving_) {
    const auto& there = shards->directory_ids();
    const auto count = std::count(there.begin(), there.end(), directory_id);
    if (count > 0) jobs[shards->job_id()] += static_cast<uint64_t>(count);
  }
  return jobs;
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
