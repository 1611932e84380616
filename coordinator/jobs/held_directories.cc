#include "coordinator/jobs/held_directories.h"

#include <algorithm>

#include "common/checkpoint/checkpoint_paths.h"

namespace millrace::coordinator {

std::shared_ptr<CheckpointHold> HeldDirectories::MakeHold(const std::string& directory) {
  auto hold = std::make_shared<CheckpointHold>(file_system_, directory);
  MutexLock lock(&mutex_);
  holdings_.erase(std::remove_if(holdings_.begin(), holdings_.end(),
                                 [](const Holding& holding) { return holding.released->load(); }),
                  holdings_.end());
  holdings_.push_back({NormalDirectory(directory), hold->released()});
  return hold;
}

bool HeldDirectories::HasHold(const std::string& directory) const {
  MutexLock lock(&mutex_);
  return std::any_of(holdings_.begin(), holdings_.end(), [&](const Holding& holding) {
    return holding.directory == directory && !*holding.released;
  });
}

}  // namespace millrace::coordinator
