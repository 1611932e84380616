// The keys of a ps server's database.
//
//   S <shard>                          ShardRecord
//   E                                  the last stop was clean: see CutStore::MarkStopped
//   C <shard> <cut> B <block> <array>  an array of a block: its values, or a slot's
//   C <shard> <cut> H <step> <block>   a held contribution's part for a block
//   C <shard> <cut> M                  CutManifest
//
// The keys of one cut are those of one file (see database.h), whose first one is block 0, array 0.
//
// <shard> is the length of the job's id (2 bytes), the id, and the shard's number (4 bytes).
// Numbers are big-endian, so that keys of one shard, and of one cut, are neighbours in the order of
// cuts.
#ifndef MILLRACE_PS_CUT_CUT_KEYS_H_
#define MILLRACE_PS_CUT_CUT_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace millrace::ps {

// REQUIRES: job_id.size() < 65536.
std::string ShardKey(absl::string_view job_id, uint32_t shard);

std::string RecordKey(absl::string_view shard_key);
// Begins all keys of records.
std::string RecordPrefix();

std::string CleanStopKey();

// Begins all keys of cuts, of all shards; of one shard; of one cut.
std::string CutsPrefix();
std::string CutsPrefix(absl::string_view shard_key);
std::string CutPrefix(absl::string_view shard_key, uint64_t cut);

std::string ManifestKey(absl::string_view shard_key, uint64_t cut);
// Begins the keys of a cut's blocks.
std::string BlocksPrefix(absl::string_view shard_key, uint64_t cut);
std::string BlockKey(absl::string_view shard_key, uint64_t cut, uint32_t block, int array);
// Begins the keys of a held contribution.
std::string HeldPrefix(absl::string_view shard_key, uint64_t cut, uint64_t step);
std::string HeldKey(absl::string_view shard_key, uint64_t cut, uint64_t step, uint32_t block);

// The shard key and the cut's number in a key of a cut; nullopt: it is none.
struct CutKey {
  std::string shard_key;
  uint64_t cut = 0;
};
absl::optional<CutKey> ParseCutKey(absl::string_view key);

// The shard in a key that begins with RecordPrefix(); nullopt: it is none.
struct ShardId {
  std::string job_id;
  uint32_t shard = 0;
};
absl::optional<ShardId> ParseRecordKey(absl::string_view key);

// The first key after all those that begin with `prefix`. REQUIRES: not only bytes 255.
std::string EndOfPrefix(std::string prefix);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_KEYS_H_
