// When a root is used instead of a cut.
//
// A root that is found was kept up to date by every life of the server (ArenaDirectory sees to
// that), so it is at least as new as the database. Should that be wrong after all, these rules are
// what the database can say against it:
//
//  - The generation is in the root before it is in the record: one below the record's is old.
//  - An epoch is begun in memory before it is in the record. So a root of another epoch is either
//    old, or of a step back that nobody has acknowledged; the cut is right for both.
//  - A cut is taken of what was published, so of what was in the root: a root below the newest cut
//    is old.
#include "ps/store/arena_recovery.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

// Why the root does not continue what is stored; empty: it does.
std::string Objection(const RootContents& root, const StoredPlace& stored) {
  if (root.generation < stored.generation) {
    return absl::StrCat("it is of generation ", root.generation, ", and ", stored.generation,
                        " was stored since");
  }
  if (root.epoch != stored.epoch) {
    return absl::StrCat("it is of epoch ", root.epoch, ", and ", stored.epoch, " is stored");
  }
  if (root.state->version < stored.newest_cut) {
    return absl::StrCat("it is of version ", root.state->version, ", and a cut of version ",
                        stored.newest_cut, " was taken since");
  }
  return "";
}

}  // namespace

bool IsMemoryFileSystem(const std::string& directory) {
  struct statfs file_system = {};
  if (statfs(directory.c_str(), &file_system) != 0) return false;
  const auto type = static_cast<uint32_t>(file_system.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}

absl::StatusOr<std::shared_ptr<Arena>> OpenArena(const ArenaOptions& options) {
  if (!options.parent.empty()) {
    absl::StatusOr<std::shared_ptr<Arena>> arena = Arena::Open(options);
    if (arena.ok()) {
      LOG_IF(WARNING, !IsMemoryFileSystem((*arena)->path()))
          << "the arena " << Printable((*arena)->path())
          << " is on no memory file system: it costs writes to a disk, and is of no use after the "
          << "machine's restart all the same; give a directory of one with --arena=DIR, or "
          << "--arena=off";
      return arena;
    }
    LOG(WARNING) << "there is no arena, so that a killed server comes back from its cuts: "
                 << Printable(arena.status().message())
                 << "; give another memory file system with --arena=DIR, or --arena=off";
  }
  MILLRACE_RETURN_IF_ERROR(DisownArena(options.data_dir));
  return std::shared_ptr<Arena>();
}

absl::optional<RecoveredRoot> RecoverShard(const std::shared_ptr<Arena>& arena,
                                           const ShardPlan& plan, const StoredPlace& stored,
                                           BlockPool* pool) {
  if (arena == nullptr) return absl::nullopt;
  absl::StatusOr<absl::optional<RecoveredRoot>> root = RecoverArenaRoot(arena, plan, pool);
  const std::string name = ShardName(plan.spec.job_id(), plan.spec.shard());
  if (!root.ok()) {
    LOG(WARNING) << name << ": " << Printable(root.status().message());
    return absl::nullopt;
  }
  if (!root->has_value()) return absl::nullopt;
  const std::string objection = Objection((*root)->contents, stored);
  if (objection.empty()) return *std::move(root);
  LOG(WARNING) << name << ": its root in the arena is not used: " << objection;
  return absl::nullopt;
}

}  // namespace millrace::ps
