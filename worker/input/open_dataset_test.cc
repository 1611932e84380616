#include <cstdlib>
#include <memory>
#include <numeric>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/batch.h"
#include "worker/input/dataset.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::IdxImages;
using ::millrace::testing::IdxLabels;
using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::RealDataDirectory;
using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNoRealData[] =
    "set MILLRACE_TEST_DATA to a folder that holds mnist/ and a9a/ to run this test";

millrace::Dataset IdxSpec(uint64_t begin = 0, uint64_t end = 0) {
  millrace::Dataset spec;
  spec.mutable_idx()->set_images("t10k-images-idx3-ubyte");
  spec.mutable_idx()->set_labels("t10k-labels-idx1-ubyte");
  spec.mutable_range()->set_begin(begin);
  spec.mutable_range()->set_end(end);
  return spec;
}

millrace::Dataset LibsvmSpec(const std::string& file) {
  millrace::Dataset spec;
  spec.mutable_libsvm()->set_file(file);
  spec.mutable_libsvm()->set_features(123);
  return spec;
}

TEST(OpenDatasetTest, OpensEachFormat) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  WriteTestFile(directory, "t10k-images-idx3-ubyte", IdxImages(1, 2, {0, 255}));
  WriteTestFile(directory, "t10k-labels-idx1-ubyte", IdxLabels({5}));
  WriteTestFile(directory, "a9a", "+1 3:1\n-1 4:1\n");
  EXPECT_EQ(OpenDataset(IdxSpec(), directory, "data.train").value()->size(), 1u);
  EXPECT_EQ(OpenDataset(LibsvmSpec("a9a"), directory, "data.train").value()->size(), 2u);

  millrace::Dataset cifar;
  cifar.mutable_cifar()->add_files("batch.bin");
  WriteTestFile(directory, "batch.bin", std::string(2 * 3073, '\1'));
  EXPECT_EQ(OpenDataset(cifar, directory, "data.train").value()->size(), 2u);
  cifar.mutable_range()->set_begin(1);
  EXPECT_EQ(OpenDataset(cifar, directory, "data.train").value()->size(), 1u);

  const std::string reference = absl::StrCat(
      std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"), "/testing/reference/data");
  millrace::Dataset numpy;
  numpy.mutable_numpy()->add_features()->add_files("f4.npy");
  EXPECT_EQ(OpenDataset(numpy, reference, "data.train").value()->size(), 4u);
  millrace::Dataset records;
  records.mutable_tfrecord()->add_files("*.tfrecord");
  RecordFeature& feature = *records.mutable_tfrecord()->add_features();
  feature.set_key("label");
  feature.set_type(RecordFeature::INT64);
  EXPECT_EQ(OpenDataset(records, reference, "data.train").value()->size(), 10u);
}

TEST(OpenDatasetTest, NoFormatIsReadWhenNobodyWantsItAnyMore) {
  std::vector<millrace::Dataset> specs = {IdxSpec(), LibsvmSpec("a9a")};
  specs.emplace_back().mutable_cifar()->add_files("batch.bin");
  specs.emplace_back().mutable_numpy()->add_features()->add_files("f4.npy");
  specs.emplace_back().mutable_numpy()->add_features()->add_files("stored.npz");
  CsvFiles& csv = *specs.emplace_back().mutable_csv();
  csv.add_files("table.csv");
  csv.add_columns()->set_name("a");
  csv.mutable_columns(0)->mutable_number();
  CsvLabel& label = *csv.add_label();
  label.set_name("b");
  label.set_number(true);
  TfRecordFiles& records = *specs.emplace_back().mutable_tfrecord();
  records.add_files("a.tfrecord");
  records.add_features()->set_key("label");
  records.mutable_features(0)->set_type(RecordFeature::INT64);
  const std::string folder = millrace::testing::MakeTestDirectory();
  WriteTestFile(folder, "class", "no folder");
  ImageFolder& pictures = *specs.emplace_back().mutable_image_folder();
  pictures.set_folder(folder);
  pictures.set_height(1);
  pictures.set_width(1);
  std::stop_source stop;
  stop.request_stop();
  for (const millrace::Dataset& spec : specs) {
    SCOPED_TRACE(spec.DebugString());
    EXPECT_EQ(OpenDataset(spec, {"/nowhere", stop.get_token()}, "data.train").status().code(),
              absl::StatusCode::kCancelled);
  }
}

TEST(OpenDatasetTest, SetLargerThanTheMemoryForDataStaysInItsFiles) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  WriteTestFile(directory, "batch.bin", std::string(2 * 3073, '\1'));
  millrace::Dataset cifar;
  cifar.mutable_cifar()->add_files("batch.bin");
  const auto in_memory = OpenDataset(cifar, directory, "data.train", 2 * 3073).value();
  const auto in_place = OpenDataset(cifar, directory, "data.train", 2 * 3073 - 1).value();
  EXPECT_EQ(in_place->fingerprint(), in_memory->fingerprint());
  // Only who needs the file again sees that it is another one.
  WriteTestFile(directory, "batch.bin", std::string(3073, '\1'));
  Batch batch;
  EXPECT_EQ(in_memory->Read({1}, &batch), absl::OkStatus());
  EXPECT_EQ(in_place->Read({1}, &batch).code(), absl::StatusCode::kInvalidArgument);
}

TEST(OpenDatasetTest, FormatMustBeSet) {
  const absl::Status status = OpenDataset({}, std::string("/nowhere"), "data.evaluate").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("data.evaluate: no format"));
}

TEST(OpenDatasetTest, DirectoryIsNeededForRelativeNames) {
  EXPECT_THAT(std::string(OpenDataset(IdxSpec(), std::string(), "data.train").status().message()),
              HasSubstr("data.directory: empty, but data.train.idx.images"));
}

TEST(OpenDatasetTest, ErrorsStartWithTheField) {
  EXPECT_THAT(std::string(OpenDataset(LibsvmSpec("a9a"), std::string("/nowhere"), "data.evaluate")
                              .status()
                              .message()),
              HasSubstr("data.evaluate.libsvm.file: /nowhere/a9a: no such file"));
}

TEST(OpenDatasetTest, RealDigitsDividedByRanges) {
  if (RealDataDirectory().empty()) GTEST_SKIP() << kNoRealData;
  const std::string directory = absl::StrCat(RealDataDirectory(), "/mnist");
  const auto train = OpenDataset(IdxSpec(0, 8000), directory, "data.train").value();
  const auto evaluate = OpenDataset(IdxSpec(8000), directory, "data.evaluate").value();
  EXPECT_EQ(train->size(), 8000u);
  EXPECT_EQ(evaluate->size(), 2000u);
  EXPECT_THAT(train->example().features[0].shape, ElementsAre(28, 28, 1));
  EXPECT_EQ(train->example().labels[0].limit, 10);
  EXPECT_EQ(train->example().labels[0].largest_id, "t10k-labels-idx1-ubyte.gz: example 7");
  const Batch digits = ReadAllExamples(*train);
  EXPECT_THAT(absl::MakeConstSpan(digits.labels[0].ids).first(10),
              ElementsAre(7, 2, 1, 0, 4, 1, 4, 9, 5, 9));
  // The first pixel of the first digit that is not 0 (row 7, column 6).
  EXPECT_EQ(digits.features[0].floats[7 * 28 + 6], 84.0f / 255.0f);
}

TEST(OpenDatasetTest, RealDigitsOutsideTheFile) {
  if (RealDataDirectory().empty()) GTEST_SKIP() << kNoRealData;
  const std::string directory = absl::StrCat(RealDataDirectory(), "/mnist");
  EXPECT_THAT(
      std::string(OpenDataset(IdxSpec(0, 12000), directory, "data.train").status().message()),
      HasSubstr("data.train.range.end: 12000; t10k-images-idx3-ubyte.gz has 10000 examples"));
}

TEST(OpenDatasetTest, RealCensusRows) {
  if (RealDataDirectory().empty()) GTEST_SKIP() << kNoRealData;
  const std::string directory = absl::StrCat(RealDataDirectory(), "/a9a");
  const auto train = OpenDataset(LibsvmSpec("a9a"), directory, "data.train").value();
  const auto evaluate = OpenDataset(LibsvmSpec("a9a.t"), directory, "data.evaluate").value();
  EXPECT_EQ(train->size(), 32561u);
  EXPECT_EQ(evaluate->size(), 16281u);
  EXPECT_EQ(train->example().labels[0].limit, 2);
  const Batch rows = ReadAllExamples(*evaluate);
  EXPECT_EQ(std::accumulate(rows.labels[0].ids.begin(), rows.labels[0].ids.end(), 0), 3846);
}

}  // namespace
}  // namespace millrace::worker
