#include "testing/example_data/example_data.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

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

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class ExampleDataTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<worker::Dataset> Open(const millrace::Dataset& spec) {
    return worker::OpenDataset(spec, directory_, "data.train").value();
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ExampleDataTest, EachExampleHasAFolder) {
  ASSERT_EQ(WriteExampleData(directory_, /*seed=*/1), absl::OkStatus());
  for (const char* file :
       {"census_csv/adult.data", "census_wide_deep/adult.test", "image_folder/train/cross/0000.png",
        "movielens_mf/ratings.csv", "regression_csv/friedman.csv", "two_inputs/train.npz"}) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(directory_, "/", file))) << file;
  }
}

TEST_F(ExampleDataTest, IsAFunctionOfItsSeed) {
  ASSERT_EQ(WriteRatings(directory_ + "/a", /*seed=*/1), absl::OkStatus());
  ASSERT_EQ(WriteRatings(directory_ + "/b", /*seed=*/1), absl::OkStatus());
  ASSERT_EQ(WriteRatings(directory_ + "/c", /*seed=*/2), absl::OkStatus());
  EXPECT_EQ(FileBytes(directory_ + "/a/ratings.csv"), FileBytes(directory_ + "/b/ratings.csv"));
  EXPECT_NE(FileBytes(directory_ + "/a/ratings.csv"), FileBytes(directory_ + "/c/ratings.csv"));
}

TEST_F(ExampleDataTest, WorkerReadsTheArraysOfTwoInputs) {
  ASSERT_EQ(WriteTwoInputs(directory_, /*seed=*/1), absl::OkStatus());
  millrace::Dataset spec;
  for (const char* name : {"picture", "sound"}) {
    NumpyArray& array = *spec.mutable_numpy()->add_features();
    array.set_name(name);
    array.add_files("test.npz");
    array.set_array(name);
  }
  for (const char* name : {"digit", "pitch"}) {
    NumpyArray& array = *spec.mutable_numpy()->add_label();
    array.set_name(name);
    array.add_files("test.npz");
    array.set_array(name);
  }
  const auto set = Open(spec);
  EXPECT_EQ(set->size(), 600u);
  EXPECT_THAT(set->example().features[0].shape, ElementsAre(28, 28, 1));
  EXPECT_EQ(set->example().features[0].type, worker::ElementType::kByte);
  EXPECT_THAT(set->example().features[1].shape, ElementsAre(8));
  EXPECT_EQ(set->example().features[1].type, worker::ElementType::kFloat);
  EXPECT_EQ(set->example().labels[0].limit, 10);
  EXPECT_EQ(set->example().labels[1].name, "pitch");
  EXPECT_EQ(set->example().labels[1].type, worker::ElementType::kFloat);
}

TEST_F(ExampleDataTest, WorkerReadsThePicturesOfShapes) {
  ASSERT_EQ(WriteShapes(directory_, /*seed=*/1), absl::OkStatus());
  millrace::Dataset spec;
  spec.mutable_image_folder()->set_folder("train");
  spec.mutable_image_folder()->set_height(8);
  spec.mutable_image_folder()->set_width(8);
  const auto set = Open(spec);
  EXPECT_EQ(set->size(), 1000u);
  EXPECT_EQ(set->example().labels[0].limit, 4);
}

TEST_F(ExampleDataTest, RatingsAreHalvesFromAHalfToFive) {
  ASSERT_EQ(WriteRatings(directory_, /*seed=*/1), absl::OkStatus());
  millrace::Dataset spec;
  CsvFiles& csv = *spec.mutable_csv();
  csv.add_files("ratings.csv");
  CsvColumn& user = *csv.add_columns();
  user.set_name("userId");
  user.mutable_vocabulary()->set_file("users.txt");
  user.set_as_id(true);
  CsvLabel& rating = *csv.add_label();
  rating.set_name("rating");
  rating.set_number(true);
  const auto set = Open(spec);
  EXPECT_EQ(set->size(), 20000u);
  const worker::Batch all = ReadAllExamples(*set);
  EXPECT_THAT(all.labels[0].floats, Each(::testing::AllOf(::testing::Ge(0.5), ::testing::Le(5))));
  for (const float stars : all.labels[0].floats) {
    ASSERT_EQ(2 * stars, static_cast<int>(2 * stars));
  }
}

TEST_F(ExampleDataTest, UnwritableFolderIsNamed) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ + "/file") << "in the way";
  const absl::Status status = WriteExampleData(directory_ + "/file", /*seed=*/1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("file/census_csv"));
}

}  // namespace
}  // namespace millrace::testing
