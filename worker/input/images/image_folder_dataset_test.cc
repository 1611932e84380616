#include "worker/input/images/image_folder_dataset.h"

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/warning_count.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/images/image_test_util.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::Jpeg;
using ::millrace::testing::Png;
using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::RealDataDirectory;
using ::millrace::testing::TestImage;
using ::millrace::testing::WriteTestFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

Image OneColour(uint8_t value) { return {2, 2, 1, std::vector<uint8_t>(4, value)}; }

class ImageFolderTest : public ::testing::Test {
 protected:
  // Two classes and three pictures, of which 'B' sorts before 'a'.
  ImageFolderTest() {
    std::filesystem::create_directories(directory_ + "/set/ant");
    std::filesystem::create_directories(directory_ + "/set/Bee");
    WriteTestFile(directory_, "set/README", "no class");
    WriteTestFile(directory_, "set/ant/.hidden", "no picture");
    WriteTestFile(directory_, "set/ant/2", Png(OneColour(51)));
    WriteTestFile(directory_, "set/ant/10", Jpeg(OneColour(102)));
    WriteTestFile(directory_, "set/Bee/1", Png(OneColour(255)));
  }

  DatasetOr Open(uint32_t max_unreadable = 0, uint64_t begin = 0, uint64_t end = 0,
                 uint64_t most_kept = MostKeptBytes()) {
    ImageFolder spec;
    spec.set_folder("set");
    spec.set_height(height_);
    spec.set_width(width_);
    spec.set_grey(grey_);
    spec.set_max_unreadable(max_unreadable);
    millrace::Dataset set;
    set.mutable_range()->set_begin(begin);
    set.mutable_range()->set_end(end);
    return OpenImageFolder(spec, ExampleSelection(set), directory_, "data.train", most_kept);
  }

  std::string ErrorOf(uint32_t max_unreadable = 0) {
    const absl::Status status = Open(max_unreadable).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
  uint32_t height_ = 1;
  uint32_t width_ = 2;
  bool grey_ = true;
};

TEST_F(ImageFolderTest, ClassesAreSubFoldersInTheOrderOfTheirNames) {
  const auto dataset = Open().value();
  EXPECT_EQ(dataset->size(), 3u);
  EXPECT_THAT(dataset->example().features[0].shape, ElementsAre(1, 2, 1));
  EXPECT_EQ(dataset->example().labels[0].limit, 2);
  const Batch batch = ReadAllExamples(*dataset);
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(0, 1, 1));
  EXPECT_THAT(batch.features[0].floats, ElementsAre(1, 1, 0.4f, 0.4f, 0.2f, 0.2f));
}

TEST_F(ImageFolderTest, ReadsExamplesInTheOrderAskedFor) {
  grey_ = false;
  const Batch batch = ReadExamples(*Open().value(), {2, 0});
  EXPECT_EQ(batch.size, 2u);
  EXPECT_THAT(batch.features[0].floats,
              ElementsAre(0.2f, 0.2f, 0.2f, 0.2f, 0.2f, 0.2f, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(1, 0));
}

TEST_F(ImageFolderTest, RangeSelectsExamples) {
  const Batch batch = ReadAllExamples(*Open(0, 1, 2).value());
  EXPECT_THAT(batch.features[0].floats, ElementsAre(0.4f, 0.4f));
  EXPECT_THAT(std::string(Open(0, 0, 4).status().message()),
              HasSubstr("data.train.range.end: 4; " + directory_ + "/set has 3 examples"));
}

// Of three pictures of two bytes, each with a label and a status: before any file is decoded.
TEST_F(ImageFolderTest, PicturesThatDoNotFitIntoMemoryAreRefused) {
  EXPECT_EQ(ReadAllExamples(*Open(0, 0, 0, 54).value()).size, 3u);
  WriteTestFile(directory_, "set/ant/1", "no picture");
  const absl::Status status = Open(0, 0, 0, 54).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data.train.image_folder.folder: " + directory_ +
                        "/set: its 4 files take 72 bytes of memory as pictures of 1 x 2 x 1; must "
                        "be at most 54 on this machine: make height or width smaller, or leave "
                        "files out of the folder"));
  grey_ = false;
  EXPECT_THAT(std::string(Open(0, 0, 0, 54).status().message()),
              HasSubstr("smaller, set grey, or"));
}

// Of three pictures of 64 bytes one is selected: where there is no room for a second copy of it,
// the others stay in memory.
TEST_F(ImageFolderTest, RangeIsTheSameWithLittleMemory) {
  height_ = width_ = 8;
  for (const uint64_t most : {uint64_t{3 * (64 + 16)}, MostKeptBytes()}) {
    const Batch batch = ReadAllExamples(*Open(0, 1, 2, most).value());
    EXPECT_EQ(batch.features[0].floats, std::vector<float>(64, 0.4f));
  }
}

TEST_F(ImageFolderTest, UnreadableFilesAreErrorsUpToTheLimitSkipped) {
  WriteTestFile(directory_, "set/ant/1", "no picture");
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr("data.train.image_folder.folder: " + directory_ +
                                         "/set/ant/1: is neither a JPEG nor a PNG file"),
                               HasSubstr("1 of 4 files are unreadable; max_unreadable is 0")));
  WarningCount warnings("1 of 4 files are unreadable");
  EXPECT_THAT(ReadAllExamples(*Open(1).value()).labels[0].ids, ElementsAre(0, 1, 1));
  EXPECT_EQ(warnings.count(), 1);
  WriteTestFile(directory_, "set/Bee/0", "");
  EXPECT_THAT(ErrorOf(1), HasSubstr("set/Bee/0: is neither"));
  for (const char* name : {"ant/2", "ant/10", "Bee/1"}) {
    WriteTestFile(directory_, absl::StrCat("set/", name), "");
  }
  EXPECT_THAT(ErrorOf(5), HasSubstr("no pictures"));
}

TEST_F(ImageFolderTest, FoldersWithoutPicturesAreRefused) {
  std::filesystem::remove_all(directory_ + "/set/ant");
  std::filesystem::remove_all(directory_ + "/set/Bee");
  EXPECT_THAT(ErrorOf(), HasSubstr("must have a sub-folder for each class"));
  std::filesystem::remove_all(directory_ + "/set");
  EXPECT_THAT(ErrorOf(), HasSubstr("data.train.image_folder.folder: " + directory_ +
                                   "/set: cannot be listed: No such file"));
}

TEST_F(ImageFolderTest, FolderWithinAClassIsRefused) {
  std::filesystem::create_directories(directory_ + "/set/ant/more");
  EXPECT_THAT(ErrorOf(), HasSubstr("/set/ant/more: is no file"));
}

TEST_F(ImageFolderTest, SizeMustBeSet) {
  ImageFolder spec;
  spec.set_folder("set");
  EXPECT_THAT(
      std::string(
          OpenImageFolder(spec, ExampleSelection(), directory_, "data.train").status().message()),
      HasSubstr("data.train.image_folder.height: 0; must be at least 1"));
}

TEST_F(ImageFolderTest, FingerprintFollowsFromPixelsAndLabels) {
  const uint64_t fingerprint = Open().value()->fingerprint();
  EXPECT_NE(Open(0, 1).value()->fingerprint(), fingerprint);
  std::filesystem::rename(directory_ + "/set/ant/2", directory_ + "/set/ant/3");
  EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
  WriteTestFile(directory_, "set/ant/3", Png(OneColour(52)));
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
  WriteTestFile(directory_, "set/ant/3", Png(OneColour(51)));
  std::filesystem::rename(directory_ + "/set/ant/10", directory_ + "/set/Bee/10");
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
}

TEST_F(ImageFolderTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20240822;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string files[] = {Png(TestImage(8, 9, 3)), Jpeg(TestImage(8, 9, 3))};
  for (int i = 0; i < 300; ++i) {
    WriteTestFile(directory_, "set/ant/2", millrace::testing::Mutate(files[i % 2], &random));
    WriteTestFile(directory_, "set/Bee/1", millrace::testing::Mutate(files[i % 2], &random));
    const auto dataset = Open(2);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ(ReadAllExamples(**dataset).features[0].floats.size(), 2 * (*dataset)->size());
  }
}

// The mean was computed with TensorFlow's decode_jpeg (INTEGER_ACCURATE).
TEST(RealImagesTest, CifarAsJpegFiles) {
  if (RealDataDirectory().empty()) {
    GTEST_SKIP() << "set MILLRACE_TEST_DATA to a folder that holds cifar-10-images/ to run this";
  }
  ImageFolder spec;
  spec.set_folder("cifar-10-images/test");
  spec.set_height(32);
  spec.set_width(32);
  const auto dataset =
      OpenImageFolder(spec, ExampleSelection(), RealDataDirectory(), "data.train").value();
  EXPECT_EQ(dataset->size(), 200u);
  EXPECT_EQ(dataset->example().labels[0].limit, 10);
  const Batch batch = ReadAllExamples(*dataset);
  EXPECT_EQ(batch.labels[0].ids[19], 0);
  EXPECT_EQ(batch.labels[0].ids[20], 1);
  double sum = 0;
  for (const float value : batch.features[0].floats) sum += value;
  EXPECT_NEAR(sum / static_cast<double>(batch.features[0].floats.size()) * 255, 122.12634, 1e-3);
}

}  // namespace
}  // namespace millrace::worker
