#include "coordinator/job/shard_placement.h"

namespace millrace::coordinator {

bool IsPlacedOn(const JobRecord& record, const std::string& directory_id, uint32_t shard) {
  return shard < static_cast<uint32_t>(record.shards_size()) &&
         record.shards(static_cast<int>(shard)).directory_id() == directory_id;
}

uint64_t ElementsOf(const ShardPlacement& shard) {
  uint64_t elements = 0;
  for (const Slice& slice : shard.slices()) elements += slice.length();
  return elements;
}

}  // namespace millrace::coordinator
