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
  const bool pictures =
      example.features.size() == 1 && feature.shape.size() == 3 && !feature.ragged;
  if (pictures && feature.type != ElementType::kId) return absl::OkStatus();
  if (pictures) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".augmentation: the feature '", feature.name,
                     "' is of ids; must be of bytes or floats (", kWholeNumbersAsFloats, ")"));
  }
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
  // What is seen of a row, from its first pixel or later, stands from pixel `begin` on, or ends
  // before it where it is mirrored.
  const uint64_t first = change.column > padding_ ? change.column - padding_ : 0;
  const uint64_t begin = padding_ > change.column ? padding_ - change.column : 0;
  const uint64_t seen = width_ - std::min(width_, std::max(first, begin));
  for (uint64_t y = 0; y < height_; ++y, to += width_ * channels_) {
    const uint64_t row = y + change.row - padding_;  // Beyond the height where it is above, too.
    if (row >= height_ || seen < width_) std::fill_n(to, width_ * channels_, Number{0});
    if (row >= height_ || seen == 0) continue;
    const Number* const source = from + (row * width_ + first) * channels_;
    if (!change.mirrored) {
      std::copy_n(source, seen * channels_, to + begin * channels_);
      continue;
    }
    Number* end = to + (width_ - begin) * channels_;
    for (uint64_t x = 0; x < seen; ++x) {
      end -= channels_;
      std::copy_n(source + x * channels_, channels_, end);
    }
  }
}

}  // namespace millrace::worker
