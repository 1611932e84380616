#include "worker/input/idx_dataset.h"

#include <memory>
#include <random>
#include <string>
#include <utility>
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

using ::millrace::testing::BigEndian32;
using ::millrace::testing::Gzip;
using ::millrace::testing::IdxImages;
using ::millrace::testing::IdxLabels;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::WriteTestFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSeedThatHoldsOutTheFirst = 1;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

class IdxDatasetTest : public ::testing::Test {
 protected:
  // Three images of 2x1 with labels 1, 9, 9.
  IdxDatasetTest() { Write(IdxImages(2, 1, {0, 51, 102, 153, 204, 255}), IdxLabels({1, 9, 9})); }

  void Write(const std::string& images, const std::string& labels) {
    WriteTestFile(directory_, "images", images);
    WriteTestFile(directory_, "labels", labels);
  }

  DatasetOr Open(uint64_t begin = 0, uint64_t end = 0) {
    millrace::Dataset set;
    set.mutable_idx()->set_images("images");
    set.mutable_idx()->set_labels("labels");
    set.mutable_range()->set_begin(begin);
    set.mutable_range()->set_end(end);
    return Open(set);
  }

  DatasetOr Open(const millrace::Dataset& set) {
    return OpenIdxDataset(set.idx(), ExampleSelection(set), directory_, "data.train");
  }

  std::string ErrorOf(const std::string& images, const std::string& labels) {
    Write(images, labels);
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
};

TEST_F(IdxDatasetTest, FingerprintFollowsFromLabelsPixelsAndRange) {
  const uint64_t fingerprint = Open().value()->fingerprint();
  EXPECT_NE(fingerprint, 0);
  EXPECT_NE(Open(0, 2).value()->fingerprint(), fingerprint);
  const std::string images = IdxImages(2, 1, {0, 51, 102, 153, 204, 255});
  Write(images, IdxLabels({1, 9, 8}));
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
  Write(IdxImages(2, 1, {0, 51, 102, 153, 204, 254}), IdxLabels({1, 9, 9}));
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
  Write(IdxImages(1, 2, {0, 51, 102, 153, 204, 255}), IdxLabels({1, 9, 9}));
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
  Write(Gzip(images), Gzip(IdxLabels({1, 9, 9})));
  EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
}

TEST_F(IdxDatasetTest, ReadsExamplesInTheOrderAskedFor) {
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->size(), 3u);
  EXPECT_THAT(dataset->example().features[0].shape, ElementsAre(2, 1, 1));
  const Batch batch = ReadExamples(*dataset, {2, 0, 2});
  EXPECT_EQ(batch.size, 3u);
  EXPECT_THAT(batch.features[0].floats, ElementsAre(0.8f, 1.0f, 0.0f, 0.2f, 0.8f, 1.0f));
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(9, 1, 9));
}

TEST_F(IdxDatasetTest, ReadReplacesALargerBatch) {
  const std::unique_ptr<Dataset> dataset = Open().value();
  Batch batch = ReadExamples(*dataset, {0, 1, 2});
  ASSERT_EQ(dataset->Read({1}, &batch), absl::OkStatus());
  EXPECT_EQ(batch.size, 1u);
  EXPECT_EQ(batch.features[0].floats.size(), 2u);
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(9));
}

TEST_F(IdxDatasetTest, TellsTheLargestLabelAndWhereItIs) {
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->example().labels[0].limit, 10);
  EXPECT_EQ(dataset->example().labels[0].largest_id, "labels: example 1");
}

TEST_F(IdxDatasetTest, RangeSelectsExamples) {
  const std::unique_ptr<Dataset> dataset = Open(2, 0).value();
  EXPECT_EQ(dataset->size(), 1u);
  EXPECT_THAT(ReadExamples(*dataset, {0}).features[0].floats, ElementsAre(0.8f, 1.0f));
  EXPECT_EQ(dataset->example().labels[0].largest_id, "labels: example 2");

  const std::unique_ptr<Dataset> first = Open(0, 1).value();
  EXPECT_EQ(first->size(), 1u);
  EXPECT_EQ(first->example().labels[0].limit, 2);
}

TEST_F(IdxDatasetTest, RangeOutsideTheFileIsRefused) {
  EXPECT_THAT(std::string(Open(0, 4).status().message()),
              HasSubstr("data.train.range.end: 4; images has 3 examples"));
  EXPECT_THAT(std::string(Open(3, 0).status().message()), HasSubstr("data.train.range.begin: 3"));
  EXPECT_THAT(std::string(Open(2, 1).status().message()), HasSubstr("data.train.range.begin: 2"));
}

TEST_F(IdxDatasetTest, ReadsCompressedFiles) {
  Write(Gzip(IdxImages(1, 1, {255, 0})), Gzip(IdxLabels({3, 4})));
  EXPECT_THAT(ReadExamples(*Open().value(), {0, 1}).labels[0].ids, ElementsAre(3, 4));
}

TEST_F(IdxDatasetTest, ReadsFilesOfManyChunks) {
  std::vector<uint8_t> pixels(3'000'000);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 31 % 251);
  Write(IdxImages(1000, 1000, pixels), IdxLabels({0, 1, 2}));
  const Batch batch = ReadExamples(*Open(1, 3).value(), {1});
  EXPECT_EQ(batch.labels[0].ids[0], 2);
  for (size_t i = 0; i < batch.features[0].floats.size(); ++i) {
    ASSERT_EQ(batch.features[0].floats[i], static_cast<float>(pixels[2'000'000 + i]) / 255.0f) << i;
  }
}

TEST_F(IdxDatasetTest, TruncatedImagesAreReportedWithOffsetAndClaim) {
  const std::string images = IdxImages(2, 1, {0, 51, 102, 153, 204, 255});
  EXPECT_THAT(
      ErrorOf(images.substr(0, 19), IdxLabels({1, 9, 9})),
      HasSubstr("images: truncated at offset 19: the header says 3 images of 2x1, 22 bytes"));
}

TEST_F(IdxDatasetTest, TruncatedLabelsAreReported) {
  EXPECT_THAT(ErrorOf(IdxImages(2, 1, std::vector<uint8_t>(6)), IdxLabels({1, 9, 9}).substr(0, 10)),
              HasSubstr("labels: truncated at offset 10: the header says 3 labels, 11 bytes"));
}

TEST_F(IdxDatasetTest, TruncatedHeadersAreReported) {
  EXPECT_THAT(ErrorOf("", IdxLabels({1})), HasSubstr("truncated at offset 0"));
  EXPECT_THAT(ErrorOf(IdxImages(1, 1, {0}).substr(0, 14), IdxLabels({1})),
              HasSubstr("truncated at offset 14, within its header"));
}

TEST_F(IdxDatasetTest, TrailingBytesAreReported) {
  EXPECT_THAT(ErrorOf(IdxImages(1, 1, {0}) + "x", IdxLabels({1})),
              HasSubstr("images: goes on after offset 17"));
  EXPECT_THAT(ErrorOf(IdxImages(1, 1, {0}), IdxLabels({1}) + "x"),
              HasSubstr("labels: goes on after offset 9"));
}

TEST_F(IdxDatasetTest, SwappedFilesAreReported) {
  EXPECT_THAT(ErrorOf(IdxLabels({1}), IdxImages(1, 1, {0})),
              AllOf(HasSubstr("not a file of IDX images"), HasSubstr("0x00000801")));
}

TEST_F(IdxDatasetTest, CountsMustAgree) {
  EXPECT_THAT(ErrorOf(IdxImages(1, 1, {0, 0}), IdxLabels({1})),
              AllOf(HasSubstr("1 labels at offset 4"), HasSubstr("images has 2 images")));
}

TEST_F(IdxDatasetTest, NoImagesAreNoSet) {
  EXPECT_THAT(ErrorOf(IdxImages(1, 1, {}), IdxLabels({})), HasSubstr("holds no images"));
}

TEST_F(IdxDatasetTest, AbsurdDimensionsAreRefused) {
  const std::string start = BigEndian32(0x803) + BigEndian32(1);
  for (const auto& [rows, columns] : std::vector<std::pair<uint32_t, uint32_t>>{
           {0, 1}, {1, 0}, {0xffffffff, 0xffffffff}, {5000, 5000}}) {
    EXPECT_THAT(ErrorOf(start + BigEndian32(rows) + BigEndian32(columns), IdxLabels({1})),
                HasSubstr(absl::StrCat("images of ", rows, "x", columns)));
  }
}

TEST_F(IdxDatasetTest, HeaderThatClaimsMuchCostsNothing) {
  // Would be 2^56 bytes.
  const std::string header =
      BigEndian32(0x803) + BigEndian32(0xffffffff) + BigEndian32(4096) + BigEndian32(4096);
  EXPECT_THAT(ErrorOf(header, BigEndian32(0x801) + BigEndian32(0xffffffff)),
              HasSubstr("truncated at offset 8"));
}

TEST_F(IdxDatasetTest, FilesFollowEachOther) {
  WriteTestFile(directory_, "images-1", IdxImages(2, 1, {0, 51}));
  WriteTestFile(directory_, "images-2", IdxImages(2, 1, {102, 153, 204, 255}));
  WriteTestFile(directory_, "labels-1", IdxLabels({1}));
  WriteTestFile(directory_, "labels-2", IdxLabels({9, 9}));
  millrace::Dataset set;
  set.mutable_idx()->set_images("images-*");
  set.mutable_idx()->set_labels("labels-?");
  const std::unique_ptr<Dataset> dataset = Open(set).value();
  EXPECT_EQ(dataset->fingerprint(), Open().value()->fingerprint());
  EXPECT_THAT(ReadExamples(*dataset, {2, 0}).features[0].floats, ElementsAre(0.8f, 1, 0, 0.2f));
  EXPECT_EQ(dataset->example().labels[0].largest_id, "labels-2: example 0");

  set.mutable_range()->set_begin(2);
  EXPECT_EQ(Open(set).value()->fingerprint(), Open(2, 0).value()->fingerprint());
  set.mutable_range()->set_begin(3);
  EXPECT_THAT(std::string(Open(set).status().message()),
              HasSubstr("since images-1 to images-2 (2 files) has 3 examples"));
}

TEST_F(IdxDatasetTest, FilesMustPairUp) {
  WriteTestFile(directory_, "images-1", IdxImages(1, 2, {0, 51}));
  millrace::Dataset set;
  set.mutable_idx()->set_images("images*");
  set.mutable_idx()->set_labels("labels");
  EXPECT_THAT(std::string(Open(set).status().message()),
              HasSubstr("data.train.idx.labels: labels; each file of labels belongs to one of "
                        "images to images-1 (2 files)"));
  WriteTestFile(directory_, "labels-1", IdxLabels({1}));
  set.mutable_idx()->set_labels("labels*");
  EXPECT_THAT(std::string(Open(set).status().message()),
              HasSubstr("images-1: images of 1x2 at offset 8, but those of images are 2x1"));
}

TEST_F(IdxDatasetTest, HoldOutDividesTheExamples) {
  millrace::Dataset set;
  set.mutable_idx()->set_images("images");
  set.mutable_idx()->set_labels("labels");
  set.mutable_hold_out()->set_fraction(0.5);
  // Example 0 is held out, 1 and 2 are not.
  set.mutable_hold_out()->set_seed(kSeedThatHoldsOutTheFirst);
  set.mutable_hold_out()->set_part(HoldOut::HELD_OUT);
  EXPECT_EQ(Open(set).value()->fingerprint(), Open(0, 1).value()->fingerprint());
  set.mutable_hold_out()->set_part(HoldOut::REST);
  EXPECT_EQ(Open(set).value()->fingerprint(), Open(1, 3).value()->fingerprint());
}

TEST_F(IdxDatasetTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20240817;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string images = IdxImages(2, 1, {0, 51, 102, 153, 204, 255});
  const std::string labels = IdxLabels({1, 9, 9});
  for (int i = 0; i < 3000; ++i) {
    const bool compressed = i % 2 == 0;
    millrace::testing::ReplaceTestFile(
        directory_, "images",
        millrace::testing::Mutate(compressed ? Gzip(images) : images, &random));
    millrace::testing::ReplaceTestFile(
        directory_, "labels",
        millrace::testing::Mutate(compressed ? Gzip(labels) : labels, &random));
    const DatasetOr dataset = Open();
    if (!dataset.ok()) {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
      continue;
    }
    for (uint64_t example = 0; example < (*dataset)->size(); ++example) {
      EXPECT_LT(ReadExamples(**dataset, {example}).labels[0].ids[0],
                (*dataset)->example().labels[0].limit);
    }
  }
}

}  // namespace
}  // namespace millrace::worker
