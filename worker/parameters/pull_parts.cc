#include "worker/parameters/pull_parts.h"

#include <algorithm>

#include "common/wire/rows.h"
#include "common/wire/tensor_codec.h"
#include "worker/parameters/variable_rows.h"

namespace millrace::worker {
namespace {

uint64_t BlocksIn(uint64_t elements) { return (elements + kBlockElements - 1) / kBlockElements; }

// Some blocks of a slice, which follow one another.
struct SliceBlocks {
  uint32_t slice = 0;
  ElementRange range;  // Of the variable.
};

// The blocks of a part, counted as PullRequest.parts says, by slice.
std::vector<SliceBlocks> BlocksOf(const ShardLayout& shard, uint32_t part, uint32_t parts) {
  uint64_t blocks = 0;
  for (const Slice& slice : shard.slices) blocks += BlocksIn(slice.length());
  const uint64_t begin = blocks * part / parts;
  const uint64_t end = blocks * (part + 1) / parts;
  std::vector<SliceBlocks> result;
  uint64_t first = 0;  // Of the slice's blocks, among those of all.
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    const Slice& slice = shard.slices[i];
    const uint64_t last = first + BlocksIn(slice.length());
    if (std::max(first, begin) < std::min(last, end)) {
      const uint64_t from = (std::max(first, begin) - first) * kBlockElements;
      const uint64_t to = std::min((std::min(last, end) - first) * kBlockElements, slice.length());
      result.push_back({static_cast<uint32_t>(i), {slice.offset() + from, to - from}});
    }
    first = last;
  }
  return result;
}

// Asks for all elements of the slices with the most rows, until the request names few enough.
void DropRows(std::vector<WantedOfSlice>* wanted) {
  size_t rows = 0;
  for (const WantedOfSlice& of_slice : *wanted) rows += of_slice.rows.size();
  while (rows > kMaxRows) {
    const auto most = std::max_element(
        wanted->begin(), wanted->end(),
        [](const auto& a, const auto& b) { return a.rows.size() < b.rows.size(); });
    rows -= most->rows.size();
    wanted->erase(most);
  }
}

PullPart MakePart(const ShardLayout& shard, absl::Span<const VariableRows> rows, uint32_t part,
                  uint32_t parts) {
  PullPart result;
  result.index = part;
  result.count = parts;
  for (const SliceBlocks& blocks : BlocksOf(shard, part, parts)) {
    result.elements += blocks.range.count;
    if (rows.empty()) continue;
    const VariableRows& of_variable = rows[shard.slices[blocks.slice].variable()];
    if (of_variable.width == 0) continue;
    const FoundRows found = FindRows(of_variable, blocks.range);
    result.rows.push_back(
        {blocks.slice, of_variable.width, found.rows, found.elements.count, blocks.range.count});
  }
  DropRows(&result.rows);
  result.wanted = result.elements;
  for (const WantedOfSlice& of_slice : result.rows) {
    result.wanted -= of_slice.all - of_slice.elements;
  }
  return result;
}

}  // namespace

std::vector<PullPart> MakePullParts(const ShardLayout& shard, absl::Span<const VariableRows> rows,
                                    bool knows_rows, int connections) {
  const uint64_t elements = knows_rows ? MakePart(shard, rows, 0, 1).wanted : shard.elements;
  // Where nothing is wanted, there is a version to ask for, and whether the server knows rows.
  const auto parts = static_cast<uint32_t>(
      std::clamp<uint64_t>(BlocksIn(elements), 1, static_cast<uint64_t>(connections)));
  std::vector<PullPart> result;
  for (uint32_t part = 0; part < parts; ++part) {
    result.push_back(MakePart(shard, rows, part, parts));
  }
  return result;
}

}  // namespace millrace::worker
