#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/evaluation_set.h"
#include "common/spec_checks.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// A job on image folders, with more about its training set and about the set that evaluates.
DataSpec Pictures(const std::string& train, const std::string& evaluate = "") {
  const std::string folder = "image_folder { folder: 'cats' height: 32 width: 4096 } ";
  DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("directory: '/data' train { ", folder, train, " } evaluate { ", folder, evaluate,
                   " }"),
      &data));
  return data;
}

std::string PicturesError(const DataSpec& data) {
  return std::string(CheckDataSpec(data).message());
}

TEST(ImageSpecCheckTest, GoodFoldersPass) {
  EXPECT_EQ(PicturesError(Pictures("")), "");
  EXPECT_EQ(PicturesError(Pictures("normalization { mean: [0.5, 0] stddev: 2 } augmentation { "
                                   "crop_padding: 1024 horizontal_flip: true }")),
            "");
}

TEST(ImageSpecCheckTest, FoldersAndSizesAreChecked) {
  DataSpec data = Pictures("");
  data.mutable_train()->mutable_image_folder()->set_height(0);
  EXPECT_EQ(PicturesError(data), "data.train.image_folder.height: 0; must be at least 1");
  data = Pictures("");
  data.mutable_evaluate()->mutable_image_folder()->set_width(4097);
  EXPECT_EQ(PicturesError(data), "data.evaluate.image_folder.width: 4097; must be from 1 to 4096");
  data.mutable_train()->mutable_image_folder()->clear_folder();
  EXPECT_THAT(PicturesError(data), HasSubstr("data.train.image_folder.folder: not set"));
}

TEST(ImageSpecCheckTest, ChangesOfPicturesAreChecked) {
  EXPECT_EQ(PicturesError(Pictures("normalization { stddev: [1, 0] }")),
            "data.train.normalization.stddev[1]: 0; must be a finite number above 0");
  EXPECT_EQ(PicturesError(Pictures("normalization { mean: 1e39 }")),
            "data.train.normalization.mean[0]: 1e+39; must be a finite number that fits float32");
  EXPECT_EQ(PicturesError(Pictures("augmentation { crop_padding: 1025 }")),
            "data.train.augmentation.crop_padding: 1025; must be from 0 to 1024");
  EXPECT_EQ(PicturesError(Pictures("", "augmentation {}")),
            "data.evaluate.augmentation: set; must be unset: only the examples of training steps "
            "are changed");
}

TEST(ImageSpecCheckTest, EvaluationTakesOverTheNormalization) {
  EXPECT_EQ(EvaluationSet(Pictures("normalization { mean: 3 }")).normalization().mean(0), 3);
  EXPECT_EQ(EvaluationSet(Pictures("normalization { mean: 3 }", "normalization {}"))
                .normalization()
                .mean_size(),
            0);
  EXPECT_FALSE(EvaluationSet(Pictures("augmentation {}")).has_augmentation());
  EXPECT_FALSE(EvaluationSet(Pictures("")).has_normalization());
}

}  // namespace
}  // namespace millrace
