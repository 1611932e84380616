#include "worker/input/augmenter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/split_mix.h"

namespace millrace::worker {
namespace {

// Keys are made as those of dropout are, with a number that no layer has.
constexpr uint64_t kLayer = uint64_t{1} << 32;

// One of 0 .. count - 1 from the high half of 64 random bits.
uint32_t Choose(uint64_t bits, uint32_t count) {
  return static_cast<uint32_t>(((bits >> 32) * count) >> 32);
}

}  // namespace

absl::Status Augmenter::Check(const Augmentation& /*spec*/, const ExampleSpec& example,
                              const std::string& field) {
  const TensorSpec& feature = example.features[0];
  const bool pictures = example.features.size() == 1 && feature.shape.size() == 3 &&
                        feature.type != ElementType::kId && !feature.ragged;
  if (pictures) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ".augmentation: examples have ", example.features.size(),
                   " features, the first of the shape [", absl::StrJoin(feature.shape, ", "),
                   "]; must be pictures, [height, width, channels]"));
}

Augmenter::Augmenter(const Augmentation& spec, const ExampleSpec& example)
    : padding_(spec.crop_padding()),
      flip_(spec.horizontal_flip()),
      height_(example.features[0].shape[0]),
      width_(example.features[0].shape[1]),
      channels_(example.features[0].shape[2]) {}

PictureChange Augmenter::ChangeOf(uint64_t step_seed, uint64_t row) const {
  const uint64_t key = SplitMix64(SplitMix64(SplitMix64(step_seed) + kLayer) + row);
  PictureChange change;
  change.row = Choose(SplitMix64(key), 2 * padding_ + 1);
  change.column = Choose(SplitMix64(key + 1), 2 * padding_ + 1);
  change.mirrored = flip_ && SplitMix64(key + 2) >> 63 != 0;
  return change;
}

void Augmenter::Apply(uint64_t step_seed, Batch* batch) const {
  ApplyTo(step_seed, &batch->features[0].floats);
  ApplyTo(step_seed, &batch->features[0].bytes);
}

template <typename Number>
void Augmenter::ApplyTo(uint64_t step_seed, std::vector<Number>* pictures) const {
  const uint64_t size = height_ * width_ * channels_;
  std::vector<Number> changed(size);
  for (uint64_t begin = 0, row = 0; begin < pictures->size(); begin += size, ++row) {
    Number* picture = pictures->data() + begin;
    Change(ChangeOf(step_seed, row), picture, changed.data());
    std::copy(changed.begin(), changed.end(), picture);
  }
}

template <typename Number>
void Augmenter::Change(const PictureChange& change, const Number* from, Number* to) const {
  for (uint64_t y = 0; y < height_; ++y) {
    const uint64_t row = y + change.row - padding_;  // Beyond the height where it is above, too.
    for (uint64_t x = 0; x < width_; ++x, to += channels_) {
      const uint64_t column = (change.mirrored ? width_ - 1 - x : x) + change.column - padding_;
      if (row < height_ && column < width_) {
        std::copy_n(from + (row * width_ + column) * channels_, channels_, to);
      } else {
        std::fill_n(to, channels_, Number{0});
      }
    }
  }
}

}  // namespace millrace::worker
