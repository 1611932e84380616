// Memory for blocks that outlives the process.
#ifndef MILLRACE_PS_BLOCK_ARENA_H_
#define MILLRACE_PS_BLOCK_ARENA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "ps/block/arena_directory.h"
#include "ps/block/mapped_file.h"
#include "ps/block/recent_peak.h"
#include "ps/block/root_file.h"

namespace millrace::ps {

// Of every buffer, in an arena or not, in bytes.
constexpr size_t kBufferAlignment = 64;
// Buffers of this size in all wait to be used again in any case: small shards find theirs again.
constexpr size_t kSpareBytes = size_t{4} << 20;

struct ArenaOptions {
  // A directory of a memory file system, such as /dev/shm; the arena is one below it.
  std::string parent;
  std::string data_dir;
  std::string directory_id;
  // What tests replace.
  std::string boot_id = KernelBootId();
  ReserveFile reserve = ReserveWithFallocate;
  Clock* clock = Clock::Real();
};

// Where a buffer is: it means the same in the next process. 0: not in the arena.
using ArenaPlace = uint64_t;

struct ArenaBuffer {
  float* data = nullptr;  // nullptr: there is none.
  ArenaPlace place = 0;
};

// Buffers for blocks, and roots, which say which buffers matter. See the essay in the .cc file.
// Thread-safe; nothing waits for a disk.
class Arena {
 public:
  // What an earlier process left is there to be adopted, until EndRecovery; new buffers are
  // elsewhere until then. Statuses as for ArenaDirectory::Open.
  static absl::StatusOr<std::shared_ptr<Arena>> Open(const ArenaOptions& options);

  // The files stay, as after Abandon().
  ~Arena();

  const std::string& path() const { return path_; }

  // A buffer of at least `bytes`, aligned to 64, with undefined contents; or none where the file
  // system is full: then one line in the log says what is needed.
  ArenaBuffer Take(size_t bytes) ABSL_LOCKS_EXCLUDED(growing_, mutex_);

  // Nobody uses the buffer any more, and no root leads to it.
  void Release(ArenaPlace place) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes a buffer that an earlier process used for `bytes`. None: there is no such buffer, or it
  // has been taken.
  ArenaBuffer Adopt(ArenaPlace place, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // A root by name, in the place of an older one. `capacity`: see RootFile.
  absl::StatusOr<std::unique_ptr<RootFile>> MakeRoot(const std::string& name, size_t capacity)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // One of an earlier process. NOT_FOUND: there is none. DATA_LOSS: it is damaged.
  absl::StatusOr<std::unique_ptr<RootFile>> OpenRoot(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Frees what has not been adopted, and deletes roots that were neither made nor opened.
  void EndRecovery() ABSL_LOCKS_EXCLUDED(mutex_);

  // Leaves everything as a kill would: from now on buffers and roots are not given back, and
  // another process may open the arena.
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);
  bool abandoned() const { return abandoned_.load(); }

  // Forgets what was needed of late, which otherwise stays: less is needed from now on, such as
  // when a shard goes.
  void Trim() ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back what is not needed any more. To be called every now and then: otherwise that waits
  // for the next Release.
  void GiveBackSurplus() ABSL_LOCKS_EXCLUDED(mutex_);

  // Deletes the files: nothing in them is needed any more. Buffers in use stay readable.
  void Remove() ABSL_LOCKS_EXCLUDED(mutex_);

  // Of buffers that wait to be used again.
  size_t idle_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of all files with buffers.
  size_t mapped_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The buffers of one size. Sizes are counted apart, so that what a job has left does not stand
  // for what another one needs.
  struct SizeClass {
    size_t count = 0;                     // Of buffers.
    absl::btree_set<uint32_t> with_free;  // Segments with free buffers,
    absl::btree_set<uint32_t> unused;     // and those without used ones.
    size_t living_bytes = 0;
    size_t idle_bytes = 0;
    RecentPeak peak;  // Of living_bytes.
  };
  // A file of buffers of one size.
  struct Segment {
    std::unique_ptr<MappedFile> file;
    size_t buffer_bytes = 0;
    SizeClass* size = nullptr;
    std::vector<bool> used;      // By index.
    std::vector<uint32_t> free;  // Indices. Of an earlier process: none before EndRecovery.
    bool fresh = false;          // Made by this process.

    uint32_t count() const { return static_cast<uint32_t>(used.size()); }
    size_t bytes() const { return used.size() * buffer_bytes; }
    bool is_unused() const { return free.size() == used.size(); }
  };
  using SegmentPtr = std::shared_ptr<Segment>;

  Arena(std::unique_ptr<ArenaDirectory> directory, const ArenaOptions& options);

  void MapSegments() ABSL_LOCKS_EXCLUDED(mutex_);
  SizeClass* SizeOf(size_t buffer_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Segment* AddMapped(uint32_t number, size_t buffer_bytes, std::unique_ptr<MappedFile> file)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ArenaBuffer TakeFree(size_t buffer_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ArenaBuffer TakeFrom(uint32_t number, Segment* segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A buffer of a new segment. Where there is no room for it, what other shards have left makes
  // some.
  absl::StatusOr<ArenaBuffer> Grow(size_t buffer_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ArenaBuffer> AddSegment(size_t buffer_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(growing_) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether there was something to delete.
  bool DeleteUnused() ABSL_LOCKS_EXCLUDED(mutex_);
  void SayItIsFull(size_t wanted, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Begins another window when it is time to. Returns whether it did.
  bool RollWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether it takes the segment to have again what has lived of late.
  static bool IsNeeded(const Segment& segment);
  // Moves segments without used buffers to `surplus`, as many as are too many; never any that are
  // needed.
  void Shrink(SizeClass* size, std::vector<SegmentPtr>* surplus)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShrinkAll(std::vector<SegmentPtr>* surplus) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Deletes the file of a segment without used buffers; its memory is free when nobody has what is
  // returned any more.
  SegmentPtr Delete(uint32_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The path of a root, which is not deleted by EndRecovery.
  std::string Claim(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;
  const ReserveFile reserve_;
  Clock* const clock_;
  std::atomic<bool> abandoned_ = false;

  // Held while a segment is made, so that those who need buffers of its size wait for it instead of
  // making their own. Taken before mutex_.
  Mutex growing_;
  absl::Time try_again_ ABSL_GUARDED_BY(growing_) = absl::InfinitePast();
  bool full_ ABSL_GUARDED_BY(growing_) = false;

  mutable Mutex mutex_;
  std::unique_ptr<ArenaDirectory> directory_ ABSL_GUARDED_BY(mutex_);  // nullptr: abandoned.
  bool recovering_ ABSL_GUARDED_BY(mutex_) = true;
  uint32_t last_segment_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, SegmentPtr> segments_ ABSL_GUARDED_BY(mutex_);  // By number.
  // By buffer size. Never removed: segments point to them.
  absl::flat_hash_map<size_t, std::unique_ptr<SizeClass>> sizes_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> claimed_roots_ ABSL_GUARDED_BY(mutex_);
  size_t living_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  PeakWindow window_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_BLOCK_ARENA_H_
