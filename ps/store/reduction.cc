// One block at a time: its sums fit in the processor's cache, and become its new version before the
// next block's are begun. Each contribution adds to an element once, in contribution order,
// whatever runs its bytes come in, so the boundaries of pieces and slices cannot show in the
// result.
#include "ps/store/reduction.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "absl/types/span.h"

namespace millrace::ps {
namespace {

// A run of a contribution's bytes within one block.
struct Fragment {
  size_t offset = 0;  // In elements, from the block's first.
  size_t count = 0;
  const char* bytes = nullptr;  // Unaligned.
};

// Where one contribution's bytes for each block are. They stay those of its pieces, except floats
// that straddle two received slices, which are copied. The push must stay as it is.
class FragmentIndex {
 public:
  FragmentIndex(const ShardLayout& layout, const PushAssembly& push)
      : by_block_(layout.blocks().size()) {
    for (const PushPieces& message : push.pieces()) {
      for (const WirePiece& piece : *message) Add(layout, piece);
    }
  }
  // Moving leaves the copied floats where they are; copying would not, and a vector that grows
  // copies what it may (libstdc++'s deque can throw when it moves).
  FragmentIndex(FragmentIndex&&) = default;
  FragmentIndex(const FragmentIndex&) = delete;
  FragmentIndex& operator=(const FragmentIndex&) = delete;

  const std::vector<Fragment>& of_block(size_t block) const { return by_block_[block]; }

 private:
  void Add(const ShardLayout& layout, const WirePiece& piece) {
    piece.data.ForEachRun([&](size_t offset, const char* bytes, size_t count) {
      if (count == 1) {
        std::memcpy(copied_.emplace_back().data(), bytes, sizeof(float));
        bytes = copied_.back().data();
      }
      while (count > 0) {
        const ShardLayout::Run run = layout.FirstRun(piece.slice, piece.offset + offset, count);
        by_block_[run.block].push_back({run.offset, run.count, bytes});
        offset += run.count;
        bytes += run.count * sizeof(float);
        count -= run.count;
      }
    });
  }

  std::vector<std::vector<Fragment>> by_block_;
  std::deque<std::array<char, sizeof(float)>> copied_;
};

void AddScaled(float weight, const Fragment& fragment, float* sums) {
  for (size_t i = 0; i < fragment.count; ++i) {
    float gradient;
    std::memcpy(&gradient, fragment.bytes + i * sizeof(float), sizeof(float));
    sums[fragment.offset + i] += weight * gradient;
  }
}

float Examples(const PushAssembly& push) { return std::max<uint32_t>(push.examples(), 1); }

// What the sums are divided by: all examples, in units of the first contribution's.
float Divisor(const std::vector<PushPtr>& contributions) {
  uint64_t examples = 0;
  for (const PushPtr& push : contributions) examples += std::max<uint32_t>(push->examples(), 1);
  return static_cast<float>(examples) / Examples(*contributions.front());
}

// Fills `sums`, which has the block's size.
void SumBlock(const std::vector<FragmentIndex>& indices, const std::vector<float>& weights,
              size_t block, absl::Span<float> sums) {
  for (const Fragment& fragment : indices.front().of_block(block)) {
    std::memcpy(&sums[fragment.offset], fragment.bytes, fragment.count * sizeof(float));
  }
  for (size_t i = 1; i < indices.size(); ++i) {
    for (const Fragment& fragment : indices[i].of_block(block)) {
      AddScaled(weights[i], fragment, sums.data());
    }
  }
}

}  // namespace

void ReduceInto(const ShardLayout& layout, const std::vector<PushPtr>& contributions,
                StagedUpdate* update) {
  std::vector<FragmentIndex> indices;
  std::vector<float> weights;
  indices.reserve(contributions.size());
  for (const PushPtr& push : contributions) {
    indices.emplace_back(layout, *push);
    weights.push_back(Examples(*push) / Examples(*contributions.front()));
  }
  const float divisor = Divisor(contributions);
  std::vector<float> sums(std::min<uint64_t>(layout.elements(), kBlockElements));
  for (size_t block = 0; block < layout.blocks().size(); ++block) {
    const size_t count = layout.blocks()[block].elements;
    SumBlock(indices, weights, block, absl::MakeSpan(sums.data(), count));
    for (size_t i = 0; i < count; ++i) sums[i] /= divisor;
    update->Apply({block, 0, count}, reinterpret_cast<const char*>(sums.data()));
  }
}

}  // namespace millrace::ps
