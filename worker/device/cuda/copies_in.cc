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

size_t AlignUp(size_t place) {
  constexpr size_t kTo = MemoryLayout::kAlignment;
  return (place + kTo - 1) / kTo * kTo;
}

}  // namespace

void CopiesIn::AddPlace(void* device, size_t bytes, void* ahead) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  places_[static_cast<char*>(device)] = {bytes, static_cast<char*>(ahead)};
}

CopiesIn::Places::const_iterator CopiesIn::PlaceOf(char* device) const {
  const auto after = places_.upper_bound(device);
  CHECK(after != places_.begin()) << "a copy goes ahead, and has no place to go to";
  return std::prev(after);
}

void CopiesIn::CopyAhead(Range to, const void* host) {
  const auto place = PlaceOf(to.begin);
  const auto& [begin, of_place] = *place;
  CHECK_LE(to.end, begin + of_place.bytes) << "a copy goes ahead, and its place is too small";
  copy_(of_place.ahead + (to.begin - begin), host, static_cast<size_t>(to.end - to.begin));
  if (!ahead_.empty() && ahead_.back().end == to.begin) {
    ahead_.back().end = to.end;
  } else {
    ahead_.push_back(to);
  }
}

void CopiesIn::Add(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(&mutex_);
  auto* const to = static_cast<char*>(device);
  if (goes_ahead_) {
    CopyAhead({to, to + bytes}, host);
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

// Neighbours are moved at once, and what went ahead twice as it came last.
void CopiesIn::MoveIn() {
  MutexLock lock(&mutex_);
  std::sort(ahead_.begin(), ahead_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (auto next = ahead_.begin(); next != ahead_.end();) {
    const auto place = PlaceOf(next->begin);
    const auto offset = [&](const char* device) {
      return static_cast<size_t>(device - place->first);
    };
    const size_t begin = offset(next->begin);
    size_t end = offset(next->end);
    while (++next != ahead_.end() && offset(next->begin) < place->second.bytes &&
           offset(next->begin) <= AlignUp(end)) {
      end = std::max(end, offset(next->end));
    }
    move_(place->first + begin, place->second.ahead + begin, end - begin);
  }
  ahead_.clear();
  goes_ahead_ = false;
}

}  // namespace millrace::worker
