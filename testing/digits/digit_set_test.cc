#include "testing/digits/digit_set.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/job.pb.h"
#include "worker/input/batch.h"
#include "worker/input/dataset.h"
#include "worker/input/input_test_util.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::unique_ptr<worker::Dataset> OpenSet(const std::string& directory, const std::string& prefix) {
  millrace::Dataset spec;
  spec.mutable_idx()->set_images(prefix + "-images-idx3-ubyte");
  spec.mutable_idx()->set_labels(prefix + "-labels-idx1-ubyte");
  return worker::OpenDataset(spec, directory, "data.train").value();
}

TEST(DigitSetTest, IsAFunctionOfItsSeed) {
  const DigitSet set = MakeDigitSet(50, /*seed=*/1, /*stream=*/0);
  const DigitSet again = MakeDigitSet(50, /*seed=*/1, /*stream=*/0);
  EXPECT_EQ(set.pixels, again.pixels);
  EXPECT_EQ(set.labels, again.labels);
  EXPECT_NE(set.pixels, MakeDigitSet(50, /*seed=*/2, /*stream=*/0).pixels);
  EXPECT_NE(set.pixels, MakeDigitSet(50, /*seed=*/1, /*stream=*/1).pixels);
}

TEST(DigitSetTest, SmallerSetIsTheBeginningOfALargerOne) {
  const DigitSet small = MakeDigitSet(20, /*seed=*/1, /*stream=*/0);
  const DigitSet large = MakeDigitSet(50, /*seed=*/1, /*stream=*/0);
  EXPECT_TRUE(std::equal(small.pixels.begin(), small.pixels.end(), large.pixels.begin()));
  EXPECT_TRUE(std::equal(small.labels.begin(), small.labels.end(), large.labels.begin()));
}

TEST(DigitSetTest, AllDigitsAreAboutEquallyFrequent) {
  const DigitSet set = MakeDigitSet(2000, /*seed=*/1, /*stream=*/0);
  for (int digit = 0; digit < 10; ++digit) {
    EXPECT_NEAR(static_cast<double>(std::count(set.labels.begin(), set.labels.end(), digit)), 200,
                60)
        << digit;
  }
}

class DigitFilesTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(DigitFilesTest, WorkerReadsWhatWasDrawn) {
  DigitFilesOptions options;
  options.train = 30;
  options.evaluate = 20;
  ASSERT_EQ(WriteDigitFiles(directory_ + "/made/as/needed", options), absl::OkStatus());
  const auto train = OpenSet(directory_ + "/made/as/needed", "train");
  const auto evaluate = OpenSet(directory_ + "/made/as/needed", "t10k");
  EXPECT_EQ(train->size(), 30u);
  EXPECT_EQ(evaluate->size(), 20u);
  EXPECT_THAT(train->example().features[0].shape, ElementsAre(28, 28, 1));

  const DigitSet drawn = MakeDigitSet(30, options.seed, /*stream=*/0);
  const worker::Batch batch = testing::ReadAllExamples(*train);
  EXPECT_TRUE(std::equal(drawn.labels.begin(), drawn.labels.end(), batch.labels[0].ids.begin()));
  for (size_t i = 0; i < drawn.pixels.size(); ++i) {
    ASSERT_EQ(batch.features[0].floats[i], static_cast<float>(drawn.pixels[i]) / 255.0f) << i;
  }
}

TEST_F(DigitFilesTest, CompressedFilesHoldTheSame) {
  DigitFilesOptions options;
  options.train = 30;
  options.evaluate = 20;
  options.gzip = true;
  ASSERT_EQ(WriteDigitFiles(directory_, options), absl::OkStatus());
  EXPECT_EQ(ReadBytes(directory_ + "/train-images-idx3-ubyte.gz").substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(OpenSet(directory_, "train")->size(), 30u);
}

TEST_F(DigitFilesTest, FilesAreReproducibleByteForByte) {
  DigitFilesOptions options;
  options.train = 10;
  options.evaluate = 10;
  for (const bool gzip : {false, true}) {
    options.gzip = gzip;
    ASSERT_EQ(WriteDigitFiles(directory_ + "/a", options), absl::OkStatus());
    ASSERT_EQ(WriteDigitFiles(directory_ + "/b", options), absl::OkStatus());
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/a")) {
    EXPECT_EQ(ReadBytes(entry.path()),
              ReadBytes(absl::StrCat(directory_, "/b/", entry.path().filename().string())));
  }
}

TEST_F(DigitFilesTest, CountsAreChecked) {
  DigitFilesOptions options;
  options.evaluate = 0;
  const absl::Status status = WriteDigitFiles(directory_, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("evaluate: 0"));
}

TEST_F(DigitFilesTest, UnwritableFolderIsNamed) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/file") << "in the way";
  const absl::Status status = WriteDigitFiles(directory_ + "/file/sub", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("file/sub"));

  std::filesystem::create_directories(directory_ + "/train-images-idx3-ubyte");
  EXPECT_THAT(std::string(WriteDigitFiles(directory_, {}).message()),
              HasSubstr("train-images-idx3-ubyte: cannot write"));
}

}  // namespace
}  // namespace millrace::testing
