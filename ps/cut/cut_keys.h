// The keys of a ps server's records, and the names and keys of its cuts' files.
//
//   S <shard>                          ShardRecord
//   H <shard>                          the shard has had a cut
//   D <shard>                          the shard has no record, and cuts with numbers below this
//                                      one (decimal) are not to be of any: their files go
//   N                                  the next cut's number is this one (decimal) or a later one
//   E                                  the last stop was clean: see CutStore::MarkStopped
//   I                                  the database's id, which is with its files too (database.cc)
//
// A cut is the file JOB.SHARD.CUT.sst, in which
//
//   C <shard> <cut> B <block> <array>  an array of a block: its values, or a slot's
//   C <shard> <cut> H <step> <block>   a held contribution's part for a block
//   C <shard> <cut> M                  CutManifest
//
// <shard> is the length of the job's id (2 bytes), the id, and the shard's number (4 bytes).
// Numbers are big-endian, so that keys are in the order of blocks. A file whose keys are of another
// cut is not what its name says.
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

// Likewise of its marks.
std::string HadCutKey(absl::string_view shard_key);
std::string HadCutPrefix();
std::string DroppedKey(absl::string_view shard_key);
std::string DroppedPrefix();

std::string NextNumberKey();
std::string CleanStopKey();
std::string DatabaseIdKey();

// Begins all keys of a cut.
std::string CutPrefix(absl::string_view shard_key, uint64_t cut);

std::string ManifestKey(absl::string_view shard_key, uint64_t cut);
// Begins the keys of a cut's blocks.
std::string BlocksPrefix(absl::string_view shard_key, uint64_t cut);
std::string BlockKey(absl::string_view shard_key, uint64_t cut, uint32_t block, int array);
// Begins the keys of a held contribution.
std::string HeldPrefix(absl::string_view shard_key, uint64_t cut, uint64_t step);
std::string HeldKey(absl::string_view shard_key, uint64_t cut, uint64_t step, uint32_t block);

// REQUIRES: the job's id may be a file's name.
std::string CutFileName(absl::string_view shard_key, uint64_t cut);

// nullopt: it is no name of a cut's file.
struct CutKey {
  std::string shard_key;
  uint64_t cut = 0;
};
absl::optional<CutKey> ParseCutFileName(absl::string_view name);

// The shard in a key that begins with RecordPrefix(); nullopt: it is none.
struct ShardId {
  std::string job_id;
  uint32_t shard = 0;
};
absl::optional<ShardId> ParseRecordKey(absl::string_view key);

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_KEYS_H_
