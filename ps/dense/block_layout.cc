#include "ps/dense/block_layout.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::ps {
namespace {

// 1 TiB of values: more than a server has, and far from where offsets overflow.
constexpr uint64_t kMaxElements = uint64_t{1} << 38;

}  // namespace

absl::StatusOr<BlockLayout> BlockLayout::Create(const ShardSpec& spec) {
  if (spec.slices().empty()) {
    return absl::InvalidArgumentError("spec.slices: empty; a shard has at least one slice");
  }
  BlockLayout layout;
  for (int i = 0; i < spec.slices_size(); ++i) {
    const uint64_t length = spec.slices(i).slice().length();
    if (length == 0 || length > kMaxElements - layout.elements_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "spec.slices[", i, "].slice.length: ", length,
          "; a slice has at least 1 element, and a shard at most ", kMaxElements, " in all"));
    }
    const bool frozen = spec.slices(i).update().has_frozen();
    layout.slices_.push_back({layout.pushed_elements_, length, layout.blocks_.size(), frozen,
                              spec.slices(i).slice().offset()});
    for (uint64_t offset = 0; offset < length; offset += kBlockElements) {
      const uint64_t rest = length - offset;
      layout.blocks_.push_back({static_cast<uint32_t>(i), offset,
                                static_cast<size_t>(std::min<uint64_t>(rest, kBlockElements)),
                                frozen});
    }
    layout.elements_ += length;
    if (!frozen) layout.pushed_elements_ += length;
  }
  return layout;
}

absl::StatusOr<uint64_t> BlockLayout::Locate(uint32_t slice, uint64_t offset,
                                             uint64_t count) const {
  if (slice >= slices_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("piece.slice: ", slice, "; the shard has ",
                                                   slices_.size(), " slices, counted from 0"));
  }
  const Slice& place = slices_[slice];
  if (place.frozen) {
    return absl::InvalidArgumentError(absl::StrCat(
        "piece.slice: ", slice, "; it is frozen: nothing of it is pushed, leave it out"));
  }
  if (offset > place.length || count > place.length - offset) {
    return absl::InvalidArgumentError(absl::StrCat("piece of ", count, " elements at offset ",
                                                   offset, ": slice ", slice, " of the shard has ",
                                                   place.length, " elements"));
  }
  return place.begin + offset;
}

}  // namespace millrace::ps
