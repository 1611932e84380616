#include "ps/dense/running_sum.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "glog/logging.h"
#include "grpcpp/support/slice.h"
#include "ps/optimizer/kernel.h"

namespace millrace::ps {
namespace {

// sums += weight * gradient, whose floats need not be aligned.
MILLRACE_KERNEL void AddScaled(float weight, const char* gradient, size_t count, float* sums) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) sums[i] += weight * LoadFloat(gradient, i);
}

// Elements of a mean that are computed at a time: few enough to stay in the processor's first
// cache.
constexpr size_t kAtATime = 4096;

// As AddLast divides.
MILLRACE_KERNEL void Divide(const float* sums, size_t count, float divisor, float* mean) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) mean[i] = sums[i] / divisor;
}

MILLRACE_KERNEL void Scale(float factor, size_t count, float* values) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace

RunningSum::RunningSum(const BlockLayout* layout, BlockPool* pool) : layout_(layout) {
  blocks_.reserve(layout->blocks().size());
  for (const BlockLayout::BlockPlace& place : layout->blocks()) {
    blocks_.push_back(place.frozen ? nullptr : pool->Allocate(place.elements, /*slots=*/0));
    CHECK(place.frozen || blocks_.back() != nullptr)
        << "out of memory for a sum of " << layout->pushed_elements() << " elements";
  }
}

template <typename Visit>
void RunningSum::ForEachRun(const WirePiece& piece, const Visit& visit) {
  piece.data.ForEachRun([&](size_t offset, const char* bytes, size_t count) {
    while (count > 0) {
      const BlockLayout::Run run = layout_->FirstRun(piece.slice, piece.offset + offset, count);
      visit(run, blocks_[run.block]->array(0) + run.offset, bytes);
      offset += run.count;
      bytes += run.count * sizeof(float);
      count -= run.count;
    }
  });
}

void RunningSum::Begin(const WirePiece& piece) {
  ForEachRun(piece, [](const BlockLayout::Run& run, float* sums, const char* bytes) {
    std::memcpy(sums, bytes, run.count * sizeof(float));
  });
}

void RunningSum::Add(const WirePiece& piece, float weight) {
  const FlushDenormals flush_denormals;
  ForEachRun(piece, [weight](const BlockLayout::Run& run, float* sums, const char* bytes) {
    AddScaled(weight, bytes, run.count, sums);
  });
}

void RunningSum::AddLast(const WirePiece& piece, float weight, float divisor,
                         StagedUpdate* update) {
  const FlushDenormals flush_denormals;
  ForEachRun(piece, [&](const BlockLayout::Run& run, float* sums, const char* bytes) {
    AddScaled(weight, bytes, run.count, sums);
    for (size_t i = 0; i < run.count; ++i) sums[i] /= divisor;
    update->Apply(run, blocks_[run.block]);
  });
}

ExactSquareSum RunningSum::MeanSquares(size_t block, float divisor) const {
  const FlushDenormals flush_denormals;
  ExactSquareSum squares;
  const size_t elements = layout_->blocks()[block].elements;
  alignas(64) std::array<float, kAtATime> mean;
  for (size_t begin = 0; begin < elements; begin += kAtATime) {
    const size_t count = std::min(kAtATime, elements - begin);
    Divide(blocks_[block]->array(0) + begin, count, divisor, mean.data());
    squares.Add(absl::MakeConstSpan(mean.data(), count));
  }
  return squares;
}

void RunningSum::ApplyMean(size_t block, float divisor, float factor, StagedUpdate* update) const {
  const FlushDenormals flush_denormals;
  const size_t elements = layout_->blocks()[block].elements;
  alignas(64) std::array<float, kAtATime> mean;
  for (size_t begin = 0; begin < elements; begin += kAtATime) {
    const size_t count = std::min(kAtATime, elements - begin);
    Divide(blocks_[block]->array(0) + begin, count, divisor, mean.data());
    if (factor != 1) Scale(factor, count, mean.data());
    update->Apply({block, begin, count}, reinterpret_cast<const char*>(mean.data()));
  }
}

PushPieces RunningSum::AsPieces(const std::shared_ptr<const RunningSum>& sum) {
  using Owner = std::shared_ptr<const RunningSum>;
  auto pieces = std::make_shared<std::vector<WirePiece>>();
  for (size_t i = 0; i < sum->blocks_.size(); ++i) {
    const BlockLayout::BlockPlace& place = sum->layout_->blocks()[i];
    if (place.frozen) continue;
    std::vector<grpc::Slice> slices;
    slices.emplace_back(
        sum->blocks_[i]->array(0), place.elements * sizeof(float),
        [](void* owner) { delete static_cast<Owner*>(owner); }, new Owner(sum));
    pieces->push_back({place.slice, place.offset, FloatSlices(std::move(slices))});
  }
  return pieces;
}

}  // namespace millrace::ps
