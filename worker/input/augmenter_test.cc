#include "worker/input/augmenter.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/batch.h"
#include "worker/input/example_spec.h"

namespace millrace::worker {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Augmentation Changes(uint32_t crop_padding, bool horizontal_flip) {
  Augmentation spec;
  spec.set_crop_padding(crop_padding);
  spec.set_horizontal_flip(horizontal_flip);
  return spec;
}

// `count` pictures of 2x3 pixels with 2 channels, all of the numbers 1 to 12.
Batch Pictures(size_t count) {
  Batch batch;
  batch.size = count;
  batch.features.resize(1);
  batch.features[0].floats.resize(12 * count);
  for (size_t i = 0; i < 12 * count; ++i) {
    batch.features[0].floats[i] = static_cast<float>(1 + i % 12);
  }
  return batch;
}

const ExampleSpec kPictures = FloatsAndClass({2, 3, 2}, 10);

// Pixel (y, x) of the picture that a change makes of one with the numbers 1 to 12.
std::vector<float> Pixel(const PictureChange& change, uint32_t padding, int y, int x) {
  const int row = y + static_cast<int>(change.row) - static_cast<int>(padding);
  const int column =
      (change.mirrored ? 2 - x : x) + static_cast<int>(change.column) - static_cast<int>(padding);
  if (row < 0 || row > 1 || column < 0 || column > 2) return {0, 0};
  const auto first = static_cast<float>(6 * row + 2 * column + 1);
  return {first, first + 1};
}

TEST(AugmenterTest, NothingToChangeChangesNothing) {
  Batch batch = Pictures(3);
  Augmenter(Changes(0, false), kPictures).Apply(/*step_seed=*/7, &batch);
  EXPECT_EQ(batch.features[0].floats, Pictures(3).features[0].floats);
}

TEST(AugmenterTest, MirrorsWholePixels) {
  const Augmenter augmenter(Changes(0, true), kPictures);
  Batch batch = Pictures(64);
  augmenter.Apply(/*step_seed=*/7, &batch);
  int mirrored = 0;
  for (size_t i = 0; i < 64; ++i) {
    const float* picture = &batch.features[0].floats[12 * i];
    const std::vector<float> row(picture, picture + 6);
    if (augmenter.ChangeOf(7, i).mirrored) {
      EXPECT_THAT(row, ElementsAre(5, 6, 3, 4, 1, 2));
      ++mirrored;
    } else {
      EXPECT_THAT(row, ElementsAre(1, 2, 3, 4, 5, 6));
    }
  }
  EXPECT_GT(mirrored, 16);
  EXPECT_LT(mirrored, 48);
}

TEST(AugmenterTest, CropsFromThePaddedPictureAndThenMirrors) {
  constexpr uint32_t kPadding = 2;
  const Augmenter augmenter(Changes(kPadding, true), kPictures);
  Batch batch = Pictures(200);
  augmenter.Apply(/*step_seed=*/7, &batch);
  std::vector<int> rows(2 * kPadding + 1);
  std::vector<int> columns(2 * kPadding + 1);
  for (size_t i = 0; i < 200; ++i) {
    const PictureChange change = augmenter.ChangeOf(7, i);
    ++rows[change.row];
    ++columns[change.column];
    for (int place = 0; place < 6; ++place) {
      const float* pixel = &batch.features[0].floats[12 * i + 2 * place];
      EXPECT_EQ(std::vector<float>(pixel, pixel + 2), Pixel(change, kPadding, place / 3, place % 3))
          << i << ", " << place;
    }
  }
  EXPECT_THAT(rows, Each(::testing::Gt(15)));
  EXPECT_THAT(columns, Each(::testing::Gt(15)));
}

TEST(AugmenterTest, PaddingBeyondThePictureIsAllowed) {
  Batch batch = Pictures(50);
  Augmenter(Changes(1000, true), kPictures).Apply(/*step_seed=*/1, &batch);
  EXPECT_EQ(batch.features[0].floats.size(), 600u);
}

TEST(AugmenterTest, ChangesFollowFromTheSeedAndThePlaceInTheBatchAlone) {
  const Augmenter augmenter(Changes(2, true), kPictures);
  Batch batch = Pictures(20);
  Batch again = Pictures(20);
  Batch beginning = Pictures(5);
  Batch other = Pictures(20);
  augmenter.Apply(/*step_seed=*/3, &batch);
  augmenter.Apply(/*step_seed=*/3, &again);
  augmenter.Apply(/*step_seed=*/3, &beginning);
  augmenter.Apply(/*step_seed=*/4, &other);
  const std::vector<float>& floats = batch.features[0].floats;
  EXPECT_EQ(floats, again.features[0].floats);
  EXPECT_TRUE(std::equal(beginning.features[0].floats.begin(), beginning.features[0].floats.end(),
                         floats.begin()));
  EXPECT_NE(floats, other.features[0].floats);
}

TEST(AugmenterTest, BytesAreChangedAsFloatsAre) {
  const Augmenter augmenter(Changes(1, true), kPictures);
  Batch floats = Pictures(20);
  Batch bytes;
  bytes.features.resize(1);
  bytes.features[0].bytes.assign(floats.features[0].floats.begin(),
                                 floats.features[0].floats.end());
  augmenter.Apply(/*step_seed=*/3, &floats);
  augmenter.Apply(/*step_seed=*/3, &bytes);
  EXPECT_TRUE(std::equal(bytes.features[0].bytes.begin(), bytes.features[0].bytes.end(),
                         floats.features[0].floats.begin()));
}

TEST(AugmenterTest, OnlyPicturesAreChanged) {
  EXPECT_TRUE(Augmenter::Check(Changes(1, true), kPictures, "data.train").ok());
  EXPECT_THAT(
      std::string(
          Augmenter::Check(Changes(1, true), FloatsAndClass({123}, 2), "data.train").message()),
      HasSubstr("data.train.augmentation: examples have 1 features, the first of the shape "
                "[123]; must be pictures"));
  ExampleSpec ids = kPictures;
  ids.features[0].type = ElementType::kId;
  EXPECT_THAT(std::string(Augmenter::Check(Changes(1, true), ids, "data.train").message()),
              HasSubstr("data.train.augmentation: the feature 'features' is of ids; must be of "
                        "bytes or floats (numpy's divide_by: 1"));
}

}  // namespace
}  // namespace millrace::worker
