#include "worker/device/cuda/copies_in.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "glog/logging.h"
#include "worker/device/cuda/mirrored_memory.h"

namespace millrace::worker {
namespace {

// Written in some 100 us, and enqueued in some 5.
constexpr size_t kBytesAtOnce = size_t{1} << 20;

}  // namespace

void CopiesIn::AddPlace(void* device, size_t bytes, void* ahead, bool at_once) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  auto* const begin = static_cast<char*>(device);
  places_[begin] = {begin, bytes, static_cast<char*>(ahead), at_once};
}

const CopiesIn::Place* CopiesIn::PlaceOf(char* device) const {
  const auto after = places_.upper_bound(device);
  CHECK(after != places_.begin()) << "a copy goes ahead, and has no place to go to";
  return &std::prev(after)->second;
}

void CopiesIn::CopyAhead(char* device, const void* host, size_t bytes) {
  const Place* const place = PlaceOf(device);
  const auto begin = static_cast<size_t>(device - place->device);
  CHECK_LE(begin + bytes, place->bytes) << "a copy goes ahead, and its place is too small";
  copy_(place->ahead + begin, host, bytes);
  if (!ahead_.empty() && ahead_.back().place == place && ahead_.back().end == begin) {
    ahead_.back().end = begin + bytes;
  } else {
    ahead_.push_back({place, begin, begin + bytes});
  }
}

void CopiesIn::Add(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  auto* const to = static_cast<char*>(device);
  if (goes_ahead_) {
    CopyAhead(to, host, bytes);
  } else {
    copy_(to, host, bytes);
  }
}

void CopiesIn::CopyAndAdd(const void* from, size_t bytes, void* host, void* device) {
  for (size_t begin = 0; begin < bytes; begin += kBytesAtOnce) {
    const size_t count = std::min(kBytesAtOnce, bytes - begin);
    char* const to = static_cast<char*>(host) + begin;
    std::memcpy(to, static_cast<const char*>(from) + begin, count);
    Add(static_cast<char*>(device) + begin, to, count);
  }
}

void CopiesIn::GoAhead() {
  MutexLock lock(&mutex_);
  goes_ahead_ = true;
}

// What went ahead twice stands there as it came last.
void CopiesIn::MoveIn() {
  MutexLock lock(&mutex_);
  std::sort(ahead_.begin(), ahead_.end(), [](const Range& a, const Range& b) {
    return std::make_pair(a.place->device, a.begin) < std::make_pair(b.place->device, b.begin);
  });
  for (auto next = ahead_.begin(); next != ahead_.end();) {
    const auto& [place, begin, first_end] = *next;
    size_t end = first_end;
    while (++next != ahead_.end() && next->place == place &&
           (place->at_once || next->begin <= MemoryLayout::AlignUp(end))) {
      end = std::max(end, next->end);
    }
    move_(place->device + begin, place->ahead + begin, end - begin);
  }
  ahead_.clear();
  goes_ahead_ = false;
}

}  // namespace millrace::worker
