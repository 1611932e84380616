// Small compressed files with much in them: what is too much is refused before it is kept.
#include "worker/input/memory_budget.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/cifar_dataset.h"
#include "worker/input/csv/csv_dataset.h"
#include "worker/input/idx_dataset.h"
#include "worker/input/input_test_util.h"
#include "worker/input/libsvm_dataset.h"
#include "worker/input/numpy_dataset.h"
#include "worker/input/tfrecord_dataset.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::BigEndian32;
using ::millrace::testing::Gzip;
using ::millrace::testing::IdxLabels;
using ::millrace::testing::ReferenceFile;
using ::millrace::testing::WriteTestFile;
using ::testing::ContainsRegex;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

std::string Repeat(const std::string& part, int count) {
  std::string whole;
  for (int i = 0; i < count; ++i) whole += part;
  return whole;
}

class MemoryBudgetTest : public ::testing::Test {
 protected:
  // `open` opens a set, of some 500,000 bytes in memory, with the most that may be kept of it.
  void ExpectLimit(const std::function<DatasetOr(uint64_t most_kept)>& open) {
    const DatasetOr whole = open(MostKeptBytes());
    EXPECT_EQ(whole.status(), absl::OkStatus());
    const absl::Status status = open(100'000).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                ContainsRegex("data.train.*/bomb: its examples, with those of files before, take "
                              "1[0-9]{5} bytes of memory up to offset [0-9]+; must be at most "
                              "100000 on this machine"));
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
  const ExampleSelection all_ = ExampleSelection();
};

TEST_F(MemoryBudgetTest, HoldsForCompressedIdx) {
  WriteTestFile(directory_, "bomb",
                Gzip(BigEndian32(0x803) + BigEndian32(500) + BigEndian32(10) + BigEndian32(100) +
                     std::string(500'000, '\1')));
  WriteTestFile(directory_, "labels", IdxLabels(std::vector<uint8_t>(500)));
  IdxFiles files;
  files.set_images("bomb");
  files.set_labels("labels");
  ExpectLimit(
      [&](uint64_t most) { return OpenIdxDataset(files, all_, directory_, "data.train", most); });
}

// A label is five bytes until the set is whole.
TEST_F(MemoryBudgetTest, LabelsOfIdxCountWithTheImages) {
  constexpr uint32_t kCount = 20'000;
  WriteTestFile(directory_, "images",
                millrace::testing::IdxImages(1, 1, std::vector<uint8_t>(kCount)));
  WriteTestFile(directory_, "labels", IdxLabels(std::vector<uint8_t>(kCount)));
  IdxFiles files;
  files.set_images("images");
  files.set_labels("labels");
  const auto open = [&](uint64_t most) {
    return OpenIdxDataset(files, all_, directory_, "data.train", most).status();
  };
  EXPECT_EQ(open(140'000), absl::OkStatus());
  EXPECT_EQ(open(110'000).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(MemoryBudgetTest, HoldsForCompressedLibsvm) {
  WriteTestFile(directory_, "bomb", Gzip(Repeat("1 1:1 2:1 3:1\n", 14'000)));
  LibsvmFile spec;
  spec.set_file("bomb");
  spec.set_features(3);
  ExpectLimit(
      [&](uint64_t most) { return OpenLibsvmDataset(spec, all_, directory_, "data.train", most); });
}

TEST_F(MemoryBudgetTest, HoldsForCompressedCsv) {
  WriteTestFile(directory_, "bomb", Gzip("a,y\n" + Repeat("1,0\n", 60'000)));
  CsvFiles spec;
  spec.add_files("bomb");
  spec.add_columns()->set_name("a");
  spec.mutable_columns(0)->mutable_number();
  spec.add_label()->set_name("y");
  ExpectLimit(
      [&](uint64_t most) { return OpenCsvDataset(spec, all_, directory_, "data.train", most); });
}

TEST_F(MemoryBudgetTest, HoldsForCompressedCifar) {
  WriteTestFile(directory_, "bomb", Gzip(std::string(160 * 3073, '\1')));
  CifarFiles spec;
  spec.add_files("bomb");
  ExpectLimit([&](uint64_t most) {
    return OpenCifarDataset(spec, all_, directory_, "data.train", /*data_memory=*/0, most);
  });
}

TEST_F(MemoryBudgetTest, HoldsForCompressedTfRecord) {
  WriteTestFile(directory_, "bomb", Gzip(Repeat(ReferenceFile("plain.tfrecord"), 1000)));
  TfRecordFiles spec;
  spec.add_files("bomb");
  spec.add_features()->set_key("floats");
  spec.mutable_features(0)->set_type(RecordFeature::FLOAT);
  spec.mutable_features(0)->add_shape(3);
  ExpectLimit([&](uint64_t most) {
    return OpenTfRecordDataset(spec, all_, directory_, "data.train", /*data_memory=*/0, most);
  });
}

// 1000 rows of 500 zeros in less than 1000 bytes, in either order.
TEST_F(MemoryBudgetTest, HoldsForNumpysArchives) {
  for (const char* name : {"bomb.npz", "bomb_fortran.npz"}) {
    const std::string archive = ReferenceFile(name);
    EXPECT_LT(archive.size(), 1000u);
    WriteTestFile(directory_, "bomb", archive);
    NumpyArrays spec;
    spec.add_features()->add_files("bomb");
    const auto open = [&](uint64_t most) {
      return OpenNumpyDataset(spec, all_, directory_, "data.train", /*data_memory=*/0, most);
    };
    EXPECT_EQ(open(MostKeptBytes()).status(), absl::OkStatus());
    EXPECT_EQ(open(100'000).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace millrace::worker
