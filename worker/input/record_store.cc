#include "worker/input/record_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/crc32c.h"
#include "common/status_macros.h"
#include "worker/input/memory_budget.h"

namespace millrace::worker {
namespace {

constexpr size_t kRecordChunkBytes = size_t{16} << 20;

}  // namespace

void RecordStore::Add(absl::string_view record) {
  if (chunks_.empty() || chunks_.back().size() + record.size() > kRecordChunkBytes) {
    if (!chunks_.empty()) chunks_.back().shrink_to_fit();
    chunks_.emplace_back();
  }
  std::string& chunk = chunks_.back();
  const uint32_t holder = static_cast<uint32_t>(chunks_.size() - 1);
  Append({size_, chunk.size(), static_cast<uint32_t>(record.size()), holder}, 1);
  chunk.append(record.data(), record.size());
  record_bytes_ += record.size();
}

void RecordStore::AddInPlace(uint64_t offset, uint32_t bytes, uint64_t count) {
  const uint32_t holder = static_cast<uint32_t>(files_.size() - 1) | kInFile;
  Append({size_, offset, bytes, holder}, count);
}

uint64_t RecordStore::KeptWhileAdding(uint64_t bytes) const {
  return record_bytes_ + bytes + BytesWhileAdding(runs_, 1);
}

void RecordStore::Append(const Run& run, uint64_t count) {
  const bool goes_on = !runs_.empty() && runs_.back().holder == run.holder &&
                       runs_.back().bytes == run.bytes &&
                       OffsetIn(runs_.back(), size_) == run.offset;
  if (!goes_on && count > 0) runs_.push_back(run);
  size_ += count;
}

uint64_t RecordStore::OffsetIn(const Run& run, uint64_t index) const {
  const uint64_t gap = (run.holder & kInFile) != 0 ? layout_.gap : 0;
  return run.offset + (index - run.first) * (run.bytes + gap);
}

absl::StatusOr<absl::string_view> RecordStore::Get(uint64_t index, std::string* scratch) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](uint64_t i, const Run& run) { return i < run.first; });
  const Run& run = *(after - 1);
  const uint64_t offset = OffsetIn(run, index);
  if ((run.holder & kInFile) == 0) {
    return absl::string_view(chunks_[run.holder]).substr(offset, run.bytes);
  }
  const InPlaceFile& file = files_[run.holder & ~kInFile];
  scratch->resize(run.bytes + (layout_.checksum ? kCrcBytes : 0));
  MILLRACE_RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(*scratch)));
  const absl::string_view record = absl::string_view(*scratch).substr(0, run.bytes);
  if (layout_.checksum &&
      !MatchesMaskedCrc32c(record, absl::string_view(*scratch).substr(run.bytes))) {
    return file.Error(absl::StrCat("has changed: the checksum of the record whose bytes begin at ",
                                   "offset ", offset, " is wrong now"));
  }
  return record;
}

}  // namespace millrace::worker
