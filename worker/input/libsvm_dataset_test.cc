#include "worker/input/libsvm_dataset.h"

#include <memory>
#include <random>
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

using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

class LibsvmDatasetTest : public ::testing::Test {
 protected:
  DatasetOr Open(const std::string& content, uint64_t begin = 0, uint64_t end = 0,
                 uint32_t features = 4) {
    millrace::testing::ReplaceTestFile(directory_, "a9a", content);
    millrace::Dataset set;
    set.mutable_libsvm()->set_file("a9a");
    set.mutable_libsvm()->set_features(features);
    set.mutable_range()->set_begin(begin);
    set.mutable_range()->set_end(end);
    return Open(set);
  }

  DatasetOr Open(const millrace::Dataset& set) {
    return OpenLibsvmDataset(set.libsvm(), ExampleSelection(set), directory_, "data.train");
  }

  std::vector<int64_t> LabelsOf(const std::string& content) {
    return ReadAllExamples(*Open(content).value()).labels[0].ids;
  }

  std::string ErrorOf(const std::string& content, uint64_t begin = 0, uint64_t end = 0,
                      uint32_t features = 4) {
    const absl::Status status = Open(content, begin, end, features).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
};

TEST_F(LibsvmDatasetTest, FingerprintFollowsFromLabelsAndValues) {
  const uint64_t fingerprint = Open("1 1:2 3:4\n0 2:5\n").value()->fingerprint();
  EXPECT_NE(fingerprint, 0);
  EXPECT_EQ(Open("1 1:2.0 3:4 # the same\n\n0 2:5\n").value()->fingerprint(), fingerprint);
  for (const char* other : {"1 1:2 3:4\n1 2:5\n", "1 1:2 3:4\n0 2:6\n", "1 1:2 3:4\n0 3:5\n",
                            "1 1:2 3:4 4:5\n0\n", "1 1:2 3:4\n"}) {
    EXPECT_NE(Open(other).value()->fingerprint(), fingerprint) << other;
  }
  EXPECT_NE(Open("1 1:2 3:4\n0 2:5\n", 0, 0, /*features=*/5).value()->fingerprint(), fingerprint);
}

TEST_F(LibsvmDatasetTest, ReadsExamplesDenseInTheOrderAskedFor) {
  const std::unique_ptr<Dataset> dataset = Open("0 1:0.5 3:2\n2\n1 4:-1\n").value();
  EXPECT_EQ(dataset->size(), 3u);
  EXPECT_THAT(dataset->example().features[0].shape, ElementsAre(4));
  Batch batch;
  batch.features.resize(1);
  batch.features[0].floats.assign(100, 7.0f);  // Left from another batch.
  ASSERT_EQ(dataset->Read({2, 0}, &batch), absl::OkStatus());
  EXPECT_EQ(batch.size, 2u);
  EXPECT_THAT(batch.features[0].floats, ElementsAre(0, 0, 0, -1, 0.5f, 0, 2, 0));
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(1, 0));
}

TEST_F(LibsvmDatasetTest, FilesFollowEachOther) {
  WriteTestFile(directory_, "rows-1", "0 1:0.5 3:2\n");
  WriteTestFile(directory_, "rows-2", "\n2\n1 4:-1\n");
  millrace::Dataset set;
  set.mutable_libsvm()->set_file("rows-*");
  set.mutable_libsvm()->set_features(4);
  const std::unique_ptr<Dataset> dataset = Open(set).value();
  const uint64_t whole = Open("0 1:0.5 3:2\n2\n1 4:-1\n").value()->fingerprint();
  EXPECT_EQ(dataset->fingerprint(), whole);
  EXPECT_EQ(dataset->example().labels[0].largest_id, "rows-2: line 2");
  WriteTestFile(directory_, "rows-3", "1 1:1\n-1 1:1\n");
  EXPECT_THAT(std::string(Open(set).status().message()),
              HasSubstr("rows-3:2:1: label -1, but the label of rows-1 line 1 is neither"));
}

TEST_F(LibsvmDatasetTest, HoldOutDividesTheExamples) {
  const std::string content = "0 1:1\n1 1:2\n2 1:3\n3 1:4\n4 1:5\n5 1:6\n";
  WriteTestFile(directory_, "rows", content);
  millrace::Dataset set;
  set.mutable_libsvm()->set_file("rows");
  set.mutable_libsvm()->set_features(1);
  set.mutable_range()->set_begin(1);
  set.mutable_hold_out()->set_fraction(0.5);
  set.mutable_hold_out()->set_part(HoldOut::REST);
  std::vector<int64_t> labels = ReadAllExamples(*Open(set).value()).labels[0].ids;
  set.mutable_hold_out()->set_part(HoldOut::HELD_OUT);
  const Batch held_out = ReadAllExamples(*Open(set).value());
  for (const int64_t label : held_out.labels[0].ids) labels.push_back(label);
  EXPECT_THAT(labels, ::testing::UnorderedElementsAre(1, 2, 3, 4, 5));
}

TEST_F(LibsvmDatasetTest, SkipsCommentsAndBlankLines) {
  EXPECT_THAT(LabelsOf("# one\n\n1 1:1 # two\r\n  \n0 1:1"), ElementsAre(1, 0));
}

// The first label was said to be a word that is no number.
TEST_F(LibsvmDatasetTest, ByteOrderMarkAtTheBeginningIsSkipped) {
  EXPECT_THAT(LabelsOf("\xef\xbb\xbf+1 1:1\n-1 1:1\n"), ElementsAre(1, 0));
}

TEST_F(LibsvmDatasetTest, MinusAndPlusOneMeanZeroAndOne) {
  EXPECT_THAT(LabelsOf("-1 1:1\n+1 1:1\n1 1:1\n-1 1:1\n"), ElementsAre(0, 1, 1, 0));
}

TEST_F(LibsvmDatasetTest, TheWholeFileDecidesWhatLabelsMean) {
  // The range has no -1 of its own.
  EXPECT_EQ(Open("-1 1:1\n+1 1:1\n", 1, 2).value()->example().labels[0].limit, 2);
  EXPECT_THAT(LabelsOf("0\n1\n2\n"), ElementsAre(0, 1, 2));
  EXPECT_THAT(LabelsOf("1\n1\n"), ElementsAre(1, 1));
  EXPECT_THAT(LabelsOf("-1\n"), ElementsAre(0));
}

TEST_F(LibsvmDatasetTest, MixedLabelsAreRefusedWithBothLines) {
  EXPECT_THAT(ErrorOf("-1 1:1\n+1 1:1\n2 1:1\n"),
              HasSubstr("a9a:3:1: label 2, but the label of line 1 is -1"));
  EXPECT_THAT(ErrorOf("1\n0\n-1\n"),
              HasSubstr("a9a:3:1: label -1, but the label of line 2 is neither -1 nor +1"));
}

TEST_F(LibsvmDatasetTest, TellsTheLargestLabelAndItsLine) {
  const std::unique_ptr<Dataset> dataset = Open("# labels\n0\n7\n7\n1\n").value();
  EXPECT_EQ(dataset->example().labels[0].limit, 8);
  EXPECT_EQ(dataset->example().labels[0].largest_id, "a9a: line 3");
  EXPECT_EQ(Open("# labels\n0\n7\n7\n1\n", 3).value()->example().labels[0].largest_id,
            "a9a: line 5");
}

TEST_F(LibsvmDatasetTest, RangeCountsExamplesNotLines) {
  const std::unique_ptr<Dataset> dataset = Open("0 1:1\n# none\n1 2:1\n2 3:1\n", 1, 3).value();
  EXPECT_EQ(dataset->size(), 2u);
  const Batch batch = ReadAllExamples(*dataset);
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(1, 2));
  EXPECT_THAT(batch.features[0].floats, ElementsAre(0, 1, 0, 0, 0, 0, 1, 0));
}

TEST_F(LibsvmDatasetTest, RangeOutsideTheFileIsRefused) {
  EXPECT_THAT(ErrorOf("0\n1\n", 0, 3), HasSubstr("data.train.range.end: 3; a9a has 2 examples"));
  EXPECT_THAT(ErrorOf("0\n1\n", 2, 0), HasSubstr("data.train.range.begin: 2"));
}

TEST_F(LibsvmDatasetTest, ErrorsOutsideTheRangeAreFoundToo) {
  EXPECT_THAT(ErrorOf("0\n1\nx\n", 0, 1), HasSubstr("a9a:3:1: the label is a word of 1 byte"));
}

TEST_F(LibsvmDatasetTest, ErrorsNameFileLineAndColumn) {
  EXPECT_THAT(ErrorOf("0 1:1\n\n1 2:1 5:1\n"),
              HasSubstr("a9a:3:7: index '5'; must be 1 to 4, the number of features"));
}

TEST_F(LibsvmDatasetTest, FileWithoutExamplesIsRefused) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("a9a: holds no examples"));
  EXPECT_THAT(ErrorOf("# nothing\n\n"), HasSubstr("a9a: holds no examples"));
}

TEST_F(LibsvmDatasetTest, FeatureCountHasLimits) {
  EXPECT_THAT(ErrorOf("0\n", 0, 0, 0), HasSubstr("data.train.libsvm.features: 0"));
  EXPECT_THAT(ErrorOf("0\n", 0, 0, 0xffffffff),
              HasSubstr("data.train.libsvm.features: 4294967295"));
}

TEST_F(LibsvmDatasetTest, ReadsCompressedFile) {
  EXPECT_EQ(Open(millrace::testing::Gzip("0 1:1\n1 2:1\n")).value()->size(), 2u);
}

TEST_F(LibsvmDatasetTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20240818;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string content = "# classes\n0 1:1 2:0.5 4:1e-3\n+1 3:-7\n2 1:1\t4:+2 # last\r\n\n3";
  const std::string compressed = millrace::testing::Gzip(content);
  for (int i = 0; i < 5000; ++i) {
    const DatasetOr dataset =
        Open(millrace::testing::Mutate(i % 8 == 0 ? compressed : content, &random));
    if (!dataset.ok()) {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
      continue;
    }
    Batch batch;
    for (uint64_t example = 0; example < (*dataset)->size(); ++example) {
      EXPECT_LT(ReadExamples(**dataset, {example}).labels[0].ids[0],
                (*dataset)->example().labels[0].limit);
    }
  }
}

}  // namespace
}  // namespace millrace::worker
