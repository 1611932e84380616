// Why a successor finds whole blocks, and no block that somebody still writes.
//
// Files of a memory file system hold buffers (segments) and, for each shard, a root: a small record
// that says which buffers hold its state (RootFile; ps/dense/arena_root.cc knows what is in it).
// Nothing else about buffers is written down: a buffer matters if a root leads to it, and all
// others are free. So taking and releasing buffers changes no file, and no kill can leave them in
// disorder.
//
// What has to hold is that the buffers that a root leads to do not change while it counts. A block
// is written before it is published, published before it is in a root, and released only when the
// last reference is gone; the shard keeps its references to a state until a newer root is written
// (ps/shard/shard.cc). So a buffer that a root leads to is never on a free list.
//
// A successor maps the segments, takes the buffers that the roots lead to (Adopt), and only then
// frees the rest (EndRecovery). Until then it takes buffers from new segments only: a shard that is
// restored before another one cannot take that one's buffers.
//
// Segments hold buffers of one size each; sizes are rounded up to four for each power of two, so
// that at most a fifth is lost and those of full blocks fit exactly. A size's first segment is
// small, and later ones as large as those before together, up to 64 MiB. A buffer is taken from the
// oldest segment that has one, so that younger ones empty themselves. One without used buffers is
// deleted when of its size more waits to be used again than lives, unless it was needed in the last
// seconds: how many states of a shard live goes up and down with each step, and to make a segment
// costs as much as to write all of it.
#include "ps/block/arena.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace millrace::ps {
namespace {

constexpr size_t kMinSegmentBytes = size_t{64} << 10;
constexpr size_t kMaxSegmentBytes = size_t{64} << 20;
constexpr size_t kMinBuffers = 4;
// After a failed attempt to make a segment; attempts cost time.
constexpr absl::Duration kPause = absl::Seconds(10);
constexpr char kSegmentPrefix[] = "segment.";
constexpr char kRootPrefix[] = "root.";

// The size of the buffers that serve `bytes`.
size_t BufferBytes(size_t bytes) {
  const size_t step =
      bytes <= 4 * kBufferAlignment ? kBufferAlignment : std::bit_floor(bytes - 1) / 4;
  return std::max(kBufferAlignment, (bytes + step - 1) / step * step);
}

// How many buffers a new segment gets where there are `count` of that size.
size_t SegmentBuffers(size_t buffer_bytes, size_t count) {
  const size_t least = std::max(kMinBuffers, kMinSegmentBytes / buffer_bytes);
  const size_t most = std::max<size_t>(1, kMaxSegmentBytes / buffer_bytes);
  return std::min(most, std::max(least, count));
}

ArenaPlace MakePlace(uint32_t segment, uint32_t index) { return (uint64_t{segment} << 32) | index; }
uint32_t SegmentOf(ArenaPlace place) { return static_cast<uint32_t>(place >> 32); }
uint32_t IndexOf(ArenaPlace place) { return static_cast<uint32_t>(place); }

std::string SegmentName(uint32_t number, size_t buffer_bytes) {
  return absl::StrCat(kSegmentPrefix, number, ".", buffer_bytes);
}

struct SegmentId {
  uint32_t number = 0;
  size_t buffer_bytes = 0;
};

absl::optional<SegmentId> ParseSegmentName(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  SegmentId id;
  uint64_t bytes = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &id.number) || id.number == 0 ||
      !absl::SimpleAtoi(parts[2], &bytes) || bytes == 0 || bytes % kBufferAlignment != 0) {
    return absl::nullopt;
  }
  id.buffer_bytes = bytes;
  return id;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> Arena::Open(const ArenaOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<ArenaDirectory> directory,
      ArenaDirectory::Open(options.parent,
                           {options.data_dir, options.directory_id, options.boot_id}));
  SweepLostArenas(options.parent);  // Now: this one is locked, wherever its data directory was.
  std::shared_ptr<Arena> arena(new Arena(std::move(directory), options));
  arena->MapSegments();
  return arena;
}

Arena::Arena(std::unique_ptr<ArenaDirectory> directory, const ArenaOptions& options)
    : path_(directory->path()),
      reserve_(options.reserve),
      clock_(options.clock),
      directory_(std::move(directory)) {}

Arena::~Arena() = default;

void Arena::MapSegments() {
  MutexLock lock(&mutex_);
  for (const std::string& name : directory_->List(kSegmentPrefix)) {
    const absl::optional<SegmentId> id = ParseSegmentName(name);
    if (!id.has_value()) continue;
    // Whatever the number, a new segment does not take this one's name.
    last_segment_ = std::max(last_segment_, id->number);
    absl::StatusOr<std::unique_ptr<MappedFile>> file =
        MappedFile::Open(absl::StrCat(path_, "/", name));
    if (file.ok()) {
      AddMapped(id->number, id->buffer_bytes, *std::move(file));
    } else if (!absl::IsDataLoss(file.status())) {
      LOG(ERROR) << file.status();  // Roots that lead there are of no use.
    }
  }
}

Arena::SizeClass* Arena::SizeOf(size_t buffer_bytes) {
  std::unique_ptr<SizeClass>& size = sizes_[buffer_bytes];
  if (size == nullptr) size = std::make_unique<SizeClass>();
  return size.get();
}

Arena::Segment* Arena::AddMapped(uint32_t number, size_t buffer_bytes,
                                 std::unique_ptr<MappedFile> file) {
  auto segment = std::make_shared<Segment>();
  segment->used.resize(file->size() / buffer_bytes);
  segment->buffer_bytes = buffer_bytes;
  segment->size = SizeOf(buffer_bytes);
  segment->size->count += segment->count();
  segment->file = std::move(file);
  return (segments_[number] = std::move(segment)).get();
}

ArenaBuffer Arena::Take(size_t bytes) {
  if (abandoned()) return {};
  const size_t buffer_bytes = BufferBytes(bytes);
  {
    MutexLock lock(&mutex_);
    const ArenaBuffer buffer = TakeFree(buffer_bytes);
    if (buffer.data != nullptr) return buffer;
  }
  MutexLock growing(&growing_);
  {
    MutexLock lock(&mutex_);
    const ArenaBuffer buffer = TakeFree(buffer_bytes);  // Somebody else was faster.
    if (buffer.data != nullptr) return buffer;
  }
  if (clock_->Now() < try_again_) return {};
  const absl::StatusOr<ArenaBuffer> buffer = Grow(buffer_bytes);
  if (!buffer.ok()) {
    if (!full_) SayItIsFull(buffer_bytes, buffer.status());
    full_ = true;
    try_again_ = clock_->Now() + kPause;
    return {};
  }
  LOG_IF(INFO, full_) << "the arena " << path_ << " has room again";
  full_ = false;
  return *buffer;
}

ArenaBuffer Arena::TakeFree(size_t buffer_bytes) {
  SizeClass* const size = SizeOf(buffer_bytes);
  if (size->with_free.empty()) return {};
  const uint32_t number = *size->with_free.begin();
  return TakeFrom(number, segments_[number].get());
}

ArenaBuffer Arena::TakeFrom(uint32_t number, Segment* segment) {
  SizeClass* const size = segment->size;
  if (segment->is_unused()) size->unused.erase(number);
  const uint32_t index = segment->free.back();
  segment->free.pop_back();
  segment->used[index] = true;
  if (segment->free.empty()) size->with_free.erase(number);
  size->living_bytes += segment->buffer_bytes;
  size->peak.Note(size->living_bytes);
  size->idle_bytes -= segment->buffer_bytes;
  living_bytes_ += segment->buffer_bytes;
  idle_bytes_ -= segment->buffer_bytes;
  char* const data = segment->file->data() + size_t{index} * segment->buffer_bytes;
  return {reinterpret_cast<float*>(data), MakePlace(number, index)};
}

absl::StatusOr<ArenaBuffer> Arena::Grow(size_t buffer_bytes) {
  absl::StatusOr<ArenaBuffer> buffer = AddSegment(buffer_bytes);
  if (!buffer.ok() && DeleteUnused()) buffer = AddSegment(buffer_bytes);
  return buffer;
}

bool Arena::DeleteUnused() {
  std::vector<SegmentPtr> deleted;  // Unmapped without the lock.
  MutexLock lock(&mutex_);
  if (recovering_ || abandoned()) return false;
  for (const auto& [bytes, size] : sizes_) {
    while (!size->unused.empty()) {
      const uint32_t number = *size->unused.rbegin();
      // Shards that are in use keep what they need: or they would drive each other out for ever.
      if (size->living_bytes > 0 && IsNeeded(*segments_[number])) break;
      deleted.push_back(Delete(number));
    }
  }
  return !deleted.empty();
}

absl::StatusOr<ArenaBuffer> Arena::AddSegment(size_t buffer_bytes) {
  uint32_t number;
  size_t count;
  {
    MutexLock lock(&mutex_);
    number = ++last_segment_;
    count = SegmentBuffers(buffer_bytes, SizeOf(buffer_bytes)->count);
  }
  const std::string path = absl::StrCat(path_, "/", SegmentName(number, buffer_bytes));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file,
                            MappedFile::Create(path, count * buffer_bytes, reserve_));
  MutexLock lock(&mutex_);
  Segment& segment = *AddMapped(number, buffer_bytes, std::move(file));
  segment.fresh = true;
  for (uint32_t index = segment.count(); index > 0; --index) segment.free.push_back(index - 1);
  segment.size->with_free.insert(number);
  segment.size->idle_bytes += segment.bytes();
  idle_bytes_ += segment.bytes();
  // Before anybody else sees it: others would use up its buffers, or delete it as unused.
  return TakeFrom(number, &segment);
}

void Arena::SayItIsFull(size_t wanted, const absl::Status& status) {
  LOG(WARNING) << "no room in the arena " << path_ << " for blocks of " << wanted
               << " bytes beside " << mapped_bytes() << " bytes that it has: " << status.message()
               << ". Shards that do not fit use ordinary memory: after a kill they come back from "
               << "their cuts. Shards need two to four times their variables and optimizer slots; "
               << "make room (a container's: docker run --shm-size), give another memory file "
               << "system with --arena=DIR, or do without with --arena=off";
}

void Arena::Release(ArenaPlace place) {
  if (abandoned()) return;
  std::vector<SegmentPtr> surplus;  // Unmapped without the lock.
  MutexLock lock(&mutex_);
  const uint32_t number = SegmentOf(place);
  Segment& segment = *segments_.at(number);
  SizeClass* const size = segment.size;
  CHECK(segment.used[IndexOf(place)]) << "a buffer was released twice";
  segment.used[IndexOf(place)] = false;
  size->living_bytes -= segment.buffer_bytes;
  living_bytes_ -= segment.buffer_bytes;
  if (recovering_ && !segment.fresh) return;  // EndRecovery finds it free.
  if (segment.free.empty()) size->with_free.insert(number);
  segment.free.push_back(IndexOf(place));
  size->idle_bytes += segment.buffer_bytes;
  idle_bytes_ += segment.buffer_bytes;
  if (segment.is_unused()) size->unused.insert(number);
  RollWindow() ? ShrinkAll(&surplus) : Shrink(size, &surplus);
}

void Arena::Trim() {
  std::vector<SegmentPtr> surplus;  // Unmapped without the lock.
  MutexLock lock(&mutex_);
  for (const auto& [bytes, size] : sizes_) {
    size->peak.Forget();  // What lives now may be about to go.
  }
  // A window that begins later would begin with what lives now.
  window_.Restart(clock_->Now());
  if (!recovering_ && !abandoned()) ShrinkAll(&surplus);
}

void Arena::GiveBackSurplus() {
  std::vector<SegmentPtr> surplus;  // Unmapped without the lock.
  MutexLock lock(&mutex_);
  if (!recovering_ && !abandoned() && RollWindow()) ShrinkAll(&surplus);
}

bool Arena::RollWindow() {
  if (!window_.Roll(clock_->Now())) return false;
  for (const auto& [bytes, size] : sizes_) {
    size->peak.Roll(size->living_bytes);
  }
  return true;
}

bool Arena::IsNeeded(const Segment& segment) {
  const SizeClass& size = *segment.size;
  return size.living_bytes + size.idle_bytes - segment.bytes() < size.peak.most();
}

void Arena::Shrink(SizeClass* size, std::vector<SegmentPtr>* surplus) {
  while (!size->unused.empty() && size->idle_bytes > size->living_bytes &&
         idle_bytes_ > kSpareBytes) {
    const uint32_t number = *size->unused.rbegin();
    if (IsNeeded(*segments_[number])) return;
    surplus->push_back(Delete(number));
  }
}

void Arena::ShrinkAll(std::vector<SegmentPtr>* surplus) {
  for (const auto& [bytes, size] : sizes_) Shrink(size.get(), surplus);
}

Arena::SegmentPtr Arena::Delete(uint32_t number) {
  const auto found = segments_.find(number);
  SegmentPtr segment = std::move(found->second);
  segments_.erase(found);
  segment->file->Unlink();
  SizeClass* const size = segment->size;
  size->unused.erase(number);
  size->with_free.erase(number);
  size->count -= segment->count();
  size->idle_bytes -= segment->bytes();
  idle_bytes_ -= segment->bytes();
  return segment;
}

ArenaBuffer Arena::Adopt(ArenaPlace place, size_t bytes) {
  MutexLock lock(&mutex_);
  const auto found = segments_.find(SegmentOf(place));
  if (!recovering_ || found == segments_.end()) return {};
  Segment& segment = *found->second;
  const uint32_t index = IndexOf(place);
  if (segment.fresh || index >= segment.count() || segment.used[index] ||
      segment.buffer_bytes != BufferBytes(bytes)) {
    return {};
  }
  segment.used[index] = true;
  segment.size->living_bytes += segment.buffer_bytes;
  living_bytes_ += segment.buffer_bytes;
  char* const data = segment.file->data() + size_t{index} * segment.buffer_bytes;
  return {reinterpret_cast<float*>(data), place};
}

std::string Arena::Claim(const std::string& name) {
  MutexLock lock(&mutex_);
  const std::string file = absl::StrCat(kRootPrefix, name);
  if (recovering_) claimed_roots_.insert(file);
  return absl::StrCat(path_, "/", file);
}

absl::StatusOr<std::unique_ptr<RootFile>> Arena::MakeRoot(const std::string& name,
                                                          size_t capacity) {
  if (abandoned()) return absl::FailedPreconditionError("the arena is no longer in use");
  return RootFile::Create(Claim(name), capacity, reserve_);
}

absl::StatusOr<std::unique_ptr<RootFile>> Arena::OpenRoot(const std::string& name) {
  return RootFile::Open(Claim(name), reserve_);
}

void Arena::EndRecovery() {
  std::vector<SegmentPtr> surplus;
  MutexLock lock(&mutex_);
  recovering_ = false;
  for (auto& [number, segment] : segments_) {
    if (segment->fresh) continue;
    for (uint32_t index = segment->count(); index > 0; --index) {
      if (!segment->used[index - 1]) segment->free.push_back(index - 1);
    }
    const size_t idle_bytes = segment->free.size() * segment->buffer_bytes;
    segment->size->idle_bytes += idle_bytes;
    idle_bytes_ += idle_bytes;
    if (!segment->free.empty()) segment->size->with_free.insert(number);
    if (segment->is_unused()) segment->size->unused.insert(number);
  }
  RollWindow();
  ShrinkAll(&surplus);
  if (directory_ == nullptr) return;
  for (const std::string& name : directory_->List(kRootPrefix)) {
    if (!claimed_roots_.contains(name)) unlink(absl::StrCat(path_, "/", name).c_str());
  }
  claimed_roots_.clear();
}

void Arena::Abandon() {
  abandoned_.store(true);
  MutexLock lock(&mutex_);
  directory_.reset();
}

void Arena::Remove() {
  MutexLock lock(&mutex_);
  if (directory_ == nullptr) return;
  abandoned_.store(true);
  directory_->Remove();
  directory_.reset();
}

size_t Arena::idle_bytes() const {
  MutexLock lock(&mutex_);
  return idle_bytes_;
}

size_t Arena::mapped_bytes() const {
  MutexLock lock(&mutex_);
  return living_bytes_ + idle_bytes_;
}

}  // namespace millrace::ps
