// A cut's file: how it is written, and how it is read back. See cut_keys.h for its keys.
#ifndef MILLRACE_PS_CUT_CUT_FILE_H_
#define MILLRACE_PS_CUT_CUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "ps/block/block.h"
#include "ps/cut/cut_checksums.h"
#include "ps/cut/cut_record.pb.h"
#include "ps/cut/database.h"
#include "ps/dense/push_assembly.h"
#include "ps/dense/shard_contents.h"
#include "ps/dense/shard_plan.h"
#include "ps/dense/shard_state.h"

namespace millrace::ps {

// What becomes a cut.
struct CutContents {
  uint64_t epoch = 0;
  StatePtr state;
  std::vector<PushPtr> held = {};  // By step.
  // Written by a clean stop, for this shard alone: it is not among CutStore::Names, and goes when a
  // later cut is there.
  bool of_stop = false;
};

// Of the values in its file, all together.
uint64_t CutFileBytes(const ShardPlan& plan, const CutContents& contents);

// Puts all that the file of the cut with that number has, its manifest last. Returns the first
// error of `put`.
absl::Status PutCut(const ShardPlan& plan, uint64_t number, const CutContents& contents,
                    const Database::Put& put);

// A cut whose file is open: it can be read to its end, also when the cut is none any more. Calls
// block on the disk; statuses as for CutReader. Not thread-safe.
class OpenCut {
 public:
  ~OpenCut();

  const CutManifest& manifest() const { return manifest_; }
  // The cut's, in its shard.
  uint64_t number() const { return number_; }

  // The bytes of an array of a block, whose checksum is right; until the next call. REQUIRES: the
  // plan has such a block and array.
  absl::StatusOr<absl::string_view> Read(size_t block, int array);

  // As the manifest has it. Empty: it has none.
  absl::string_view Checksum(size_t block, int array) const;

 private:
  friend class CutReader;
  OpenCut(const ShardPlan* plan, std::unique_ptr<BulkFile> file, std::string shard_key,
          uint64_t number);
  absl::Status ReadManifest();
  absl::StatusOr<absl::string_view> Get(const std::string& key);

  const ShardPlan& plan_;
  const std::unique_ptr<BulkFile> file_;
  const std::string shard_key_;
  const uint64_t number_;
  CutManifest manifest_;
  absl::optional<CutChecksums> checksums_;  // Set by ReadManifest.
};

// Reads one cut's file. DATA_LOSS: it is damaged. UNAVAILABLE: the disk gave an error three times
// running. Both calls block on the disk. Thread-safe.
class CutReader {
 public:
  // `database` must outlive it.
  CutReader(Database* database, std::string shard_key, uint64_t number);

  absl::StatusOr<CutManifest> Manifest() const;

  // RESOURCE_EXHAUSTED: `pool` has no memory for the blocks.
  absl::StatusOr<ShardContents> Contents(const ShardPlan& plan, BlockPool* pool) const;

  // `plan` must outlive what is returned.
  absl::StatusOr<std::unique_ptr<OpenCut>> Open(const ShardPlan& plan) const;

 private:
  absl::StatusOr<CutManifest> ManifestOnce() const;
  absl::StatusOr<ShardContents> ContentsOnce(const ShardPlan& plan, BlockPool* pool) const;
  absl::StatusOr<StatePtr> State(const ShardPlan& plan, const CutManifest& manifest,
                                 BlockPool* pool) const;
  absl::StatusOr<PushPtr> Held(const ShardPlan& plan, const HeldContribution& held) const;
  absl::Status Read(const std::string& prefix, const Database::Visit& visit) const;

  Database* const database_;
  const std::string shard_key_;
  const uint64_t number_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_FILE_H_
