// Placements for tests of plans.
#ifndef MILLRACE_COORDINATOR_SHARDS_PLACEMENTS_TEST_UTIL_H_
#define MILLRACE_COORDINATOR_SHARDS_PLACEMENTS_TEST_UTIL_H_

#include <string>
#include <vector>

#include "coordinator/journal/job_record.pb.h"

namespace millrace::coordinator {

// A shard in each of these directories, of ten elements.
inline std::vector<ShardPlacement> ShardsIn(const std::vector<std::string>& directories) {
  std::vector<ShardPlacement> shards;
  for (const std::string& directory : directories) {
    shards.emplace_back().set_directory_id(directory);
    shards.back().add_slices()->set_length(10);
  }
  return shards;
}

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_SHARDS_PLACEMENTS_TEST_UTIL_H_
