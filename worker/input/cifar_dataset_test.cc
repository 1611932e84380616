#include "worker/input/cifar_dataset.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::Gzip;
using ::millrace::testing::Mutate;
using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

constexpr uint64_t kMuch = uint64_t{1} << 40;

// With pixels that follow from `first`.
std::string CifarRecord(const std::string& labels, int first) {
  std::string record = labels;
  for (int i = 0; i < 3072; ++i) record.push_back(static_cast<char>(first + i * 7));
  return record;
}

class CifarDatasetTest : public ::testing::Test {
 protected:
  CifarDatasetTest() {
    WriteTestFile(directory_, "data_1.bin", CifarRecord("\3", 0) + CifarRecord("\1", 1));
    WriteTestFile(directory_, "data_2.bin", CifarRecord("\3", 2));
    set_.mutable_cifar()->add_files("data_*.bin");
  }

  DatasetOr Open(uint64_t memory = kMuch) {
    return OpenCifarDataset(set_.cifar(), ExampleSelection(set_), directory_, "data.train", memory);
  }

  std::string ErrorOf(const std::string& content) {
    WriteTestFile(directory_, "data_2.bin", content);
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
  millrace::Dataset set_;
};

TEST_F(CifarDatasetTest, PlanesBecomePixels) {
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->size(), 3u);
  EXPECT_THAT(dataset->example().features[0].shape, ElementsAre(32, 32, 3));
  const Batch batch = ReadExamples(*dataset, {1, 2});
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(1, 3));
  const std::string record = CifarRecord("", 1);
  for (int pixel = 0; pixel < 1024; ++pixel) {
    for (int colour = 0; colour < 3; ++colour) {
      const auto byte = static_cast<uint8_t>(record[colour * 1024 + pixel]);
      ASSERT_EQ(batch.features[0].floats[pixel * 3 + colour], static_cast<float>(byte) / 255.0f);
    }
  }
}

TEST_F(CifarDatasetTest, TellsTheLargestLabelAndWhereItIs) {
  EXPECT_EQ(Open().value()->example().labels[0].limit, 4);
  EXPECT_EQ(Open().value()->example().labels[0].largest_id, "data_1.bin: example 0");
  set_.mutable_range()->set_begin(1);
  EXPECT_EQ(Open().value()->example().labels[0].largest_id, "data_2.bin: example 0");
}

TEST_F(CifarDatasetTest, Cifar100HasTwoLabels) {
  WriteTestFile(directory_, "train.bin", CifarRecord("\x13\x63", 0));
  set_.mutable_cifar()->set_files(0, "train.bin");
  set_.mutable_cifar()->set_label(CifarFiles::CIFAR_100_FINE);
  const Batch fine = ReadAllExamples(*Open().value());
  EXPECT_THAT(fine.labels[0].ids, ElementsAre(99));
  const uint64_t fingerprint = Open().value()->fingerprint();
  set_.mutable_cifar()->set_label(CifarFiles::CIFAR_100_COARSE);
  const Batch coarse = ReadAllExamples(*Open().value());
  EXPECT_THAT(coarse.labels[0].ids, ElementsAre(19));
  EXPECT_EQ(coarse.features[0].floats, fine.features[0].floats);
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
}

TEST_F(CifarDatasetTest, Cifar100CanGiveBothOfItsLabels) {
  WriteTestFile(directory_, "train.bin", CifarRecord("\x13\x63", 0) + CifarRecord("\2\x11", 1));
  set_.mutable_cifar()->set_files(0, "train.bin");
  set_.mutable_cifar()->set_label(CifarFiles::CIFAR_100_BOTH);
  const std::unique_ptr<Dataset> dataset = Open().value();
  ASSERT_EQ(dataset->example().labels.size(), 2u);
  EXPECT_EQ(dataset->example().labels[0].name, "fine");
  EXPECT_EQ(dataset->example().labels[0].limit, 100);
  EXPECT_EQ(dataset->example().labels[1].name, "coarse");
  EXPECT_EQ(dataset->example().labels[1].limit, 20);
  const Batch batch = ReadExamples(*dataset, {1, 0});
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(17, 99));
  EXPECT_THAT(batch.labels[1].ids, ElementsAre(2, 19));
  EXPECT_EQ(batch.features[0].floats.size(), 2 * 3072u);
  WriteTestFile(directory_, "train.bin", CifarRecord("\x14\x63", 0));
  EXPECT_THAT(std::string(Open().status().message()),
              HasSubstr("train.bin: example 0 at offset 0: label 'coarse' 20; must be below 20"));
}

TEST_F(CifarDatasetTest, FingerprintDoesNotDependOnTheCutIntoFiles) {
  const uint64_t fingerprint = Open().value()->fingerprint();
  WriteTestFile(directory_, "all.bin.gz",
                Gzip(CifarRecord("\3", 0) + CifarRecord("\1", 1) + CifarRecord("\3", 2)));
  set_.mutable_cifar()->set_files(0, "all.bin");
  EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
  set_.mutable_cifar()->set_files(0, "data_2.bin");
  set_.mutable_cifar()->add_files("data_1.bin");
  EXPECT_NE(Open().value()->fingerprint(), fingerprint);
}

TEST_F(CifarDatasetTest, HoldOutDividesTheExamples) {
  set_.mutable_hold_out()->set_fraction(0.5);
  set_.mutable_hold_out()->set_seed(1);  // Holds out the first one.
  set_.mutable_hold_out()->set_part(HoldOut::HELD_OUT);
  EXPECT_THAT(ReadAllExamples(*Open().value()).labels[0].ids, ElementsAre(3));
  set_.mutable_hold_out()->set_part(HoldOut::REST);
  EXPECT_THAT(ReadAllExamples(*Open().value()).labels[0].ids, ElementsAre(1, 3));
}

TEST_F(CifarDatasetTest, WhatIsWrongIsReportedWithItsPlace) {
  EXPECT_THAT(ErrorOf(CifarRecord("\3", 0) + CifarRecord("\x0a", 0)),
              HasSubstr("data_2.bin: example 1 at offset 3073: label 10; must be below 10"));
  EXPECT_THAT(ErrorOf(CifarRecord("\3", 0) + "abc"),
              HasSubstr("data_2.bin: truncated at offset 3076: a record of 3073 bytes begins at "
                        "offset 3073; is it CIFAR-10?"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("data_2.bin: holds no images"));
  set_.mutable_range()->set_end(9);
  EXPECT_THAT(ErrorOf(CifarRecord("\3", 0)),
              HasSubstr("data.train.range.end: 9; data_1.bin to data_2.bin (2 files) has 3"));
}

TEST_F(CifarDatasetTest, WhatDoesNotFitIntoMemoryIsReadFromItsFiles) {
  const std::unique_ptr<Dataset> in_memory = Open().value();
  WriteTestFile(directory_, "data_3.bin.gz", Gzip(CifarRecord("\4", 5)));
  set_.mutable_cifar()->add_files("data_3.bin");
  const std::unique_ptr<Dataset> three = Open().value();
  const std::unique_ptr<Dataset> in_place = Open(/*memory=*/0).value();
  EXPECT_NE(in_place->fingerprint(), in_memory->fingerprint());
  EXPECT_EQ(in_place->fingerprint(), three->fingerprint());
  const Batch read = ReadExamples(*in_place, {3, 0, 2});
  EXPECT_EQ(read.features[0].floats, ReadExamples(*three, {3, 0, 2}).features[0].floats);
  EXPECT_THAT(read.labels[0].ids, ElementsAre(4, 3, 3));
}

TEST_F(CifarDatasetTest, FileThatChangesLaterIsNoticed) {
  const std::unique_ptr<Dataset> dataset = Open(/*memory=*/0).value();
  WriteTestFile(directory_, "data_2.bin", CifarRecord("\3", 2) + "x");
  Batch batch;
  EXPECT_EQ(dataset->Read({0, 1}, &batch), absl::OkStatus());
  const absl::Status status = dataset->Read({2}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data_2.bin: has changed since it was opened (3073 bytes then, 3074 now)"));
}

TEST_F(CifarDatasetTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20260101;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string content = CifarRecord("\3", 0) + CifarRecord("\1", 1);
  for (int i = 0; i < 2000; ++i) {
    millrace::testing::ReplaceTestFile(directory_, "data_2.bin",
                                       Mutate(i % 2 == 0 ? Gzip(content) : content, &random));
    const DatasetOr dataset = Open(i % 4 < 2 ? 0 : kMuch);
    if (!dataset.ok()) {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
      continue;
    }
    EXPECT_EQ(ReadAllExamples(**dataset).labels[0].ids.size(), (*dataset)->size());
  }
}

TEST_F(CifarDatasetTest, RealImages) {
  const std::string root = millrace::testing::RealDataDirectory();
  if (root.empty()) {
    GTEST_SKIP() << "set MILLRACE_TEST_DATA to a folder that holds cifar-10-batches-bin/";
  }
  set_.mutable_cifar()->set_files(0, root + "/cifar-10-batches-bin/data_batch_1.bin");
  const std::unique_ptr<Dataset> train = Open().value();
  EXPECT_EQ(train->size(), 10'000u);
  EXPECT_EQ(train->example().labels[0].limit, 10);
  set_.mutable_cifar()->set_files(0, root + "/cifar-10-batches-bin/*.bin");
  const std::unique_ptr<Dataset> all = Open().value();
  EXPECT_EQ(all->size(), 12'000u);
  EXPECT_EQ(ReadExamples(*all, {0}).features[0].floats,
            ReadExamples(*train, {0}).features[0].floats);
  EXPECT_EQ(Open(/*memory=*/0).value()->fingerprint(), all->fingerprint());
}

}  // namespace
}  // namespace millrace::worker
