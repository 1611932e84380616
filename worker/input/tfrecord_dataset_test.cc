#include "worker/input/tfrecord_dataset.h"

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/crc32c.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "protos/example.pb.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::Gzip;
using ::millrace::testing::Mutate;
using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::ReferenceFile;
using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

constexpr uint64_t kLarge = uint64_t{1} << 40;

std::string LittleEndianBytes(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

std::string Record(const std::string& bytes) {
  const std::string length = LittleEndianBytes(bytes.size(), 8);
  return absl::StrCat(length, LittleEndianBytes(MaskedCrc32c(length), 4), bytes,
                      LittleEndianBytes(MaskedCrc32c(bytes), 4));
}

// Of an Example whose features are given as text.
std::string ExampleRecord(const std::string& text) {
  tfrecord::Example example;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &example)) << text;
  return Record(example.SerializeAsString());
}

class TfRecordDatasetTest : public ::testing::Test {
 protected:
  TfRecordDatasetTest() {
    WriteTestFile(directory_, "plain.tfrecord", ReferenceFile("plain.tfrecord"));
    WriteTestFile(directory_, "compressed.tfrecord", ReferenceFile("compressed.tfrecord"));
    Use(R"(
      files: "plain.tfrecord"
      features { key: "floats" name: "x" type: FLOAT shape: 3 }
      features { key: "image" type: BYTES shape: [2, 2] }
      features { key: "words" type: INT64 ragged: true }
      features { key: "sometimes" type: INT64 missing: 4 }
      label { key: "label" type: INT64 }
    )");
  }

  void Use(const std::string& text) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, set_.mutable_tfrecord()));
  }

  DatasetOr Open(uint64_t memory = kLarge) {
    return OpenTfRecordDataset(set_.tfrecord(), ExampleSelection(set_), directory_, "data.train",
                               memory);
  }

  std::string ErrorOf(const std::string& content) {
    WriteTestFile(directory_, "plain.tfrecord", content);
    const absl::Status status = Open().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
  millrace::Dataset set_;
};

TEST_F(TfRecordDatasetTest, ReadsWhatTensorFlowWrote) {
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->size(), 5u);
  const ExampleSpec& example = dataset->example();
  ASSERT_EQ(example.features.size(), 4u);
  EXPECT_EQ(example.features[0].name, "x");
  EXPECT_EQ(example.features[1].name, "image");
  EXPECT_EQ(example.features[1].type, ElementType::kByte);
  EXPECT_THAT(example.features[1].shape, ElementsAre(2, 2));
  EXPECT_TRUE(example.features[2].ragged);
  EXPECT_EQ(example.features[3].limit, 15);
  EXPECT_EQ(example.labels[0].name, "label");
  EXPECT_EQ(example.labels[0].limit, 5);
  EXPECT_EQ(example.labels[0].largest_id, "plain.tfrecord: example 2");

  const Batch batch = ReadAllExamples(*dataset);
  std::vector<float> floats;
  std::vector<uint8_t> images;
  for (int i = 0; i < 5; ++i) {
    floats.insert(floats.end(), {i + 0.25f, static_cast<float>(-i) / 8, 3});
    for (int j = 0; j < 4; ++j) images.push_back(static_cast<uint8_t>(i * 50 + j));
  }
  EXPECT_THAT(batch.features[0].floats, ElementsAreArray(floats));
  EXPECT_THAT(batch.features[1].bytes, ElementsAreArray(images));
  EXPECT_THAT(batch.features[2].ids, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(batch.features[2].ends, ElementsAre(0, 1, 3, 3, 4));
  EXPECT_THAT(batch.features[3].ids, ElementsAre(10, 11, 4, 13, 14));
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(0, 1, 4, 2, 2));
}

TEST_F(TfRecordDatasetTest, CompressedFilesAreTheSame) {
  const uint64_t fingerprint = Open().value()->fingerprint();
  set_.mutable_tfrecord()->set_files(0, "compressed.tfrecord");
  EXPECT_EQ(Open().value()->fingerprint(), fingerprint);
  EXPECT_EQ(Open(/*memory=*/0).value()->fingerprint(), fingerprint);
}

TEST_F(TfRecordDatasetTest, WhatDoesNotFitIntoMemoryIsReadFromItsFiles) {
  set_.mutable_tfrecord()->add_files("compressed.tfrecord");
  set_.mutable_tfrecord()->add_files("plain.tfrecord");
  const std::unique_ptr<Dataset> in_memory = Open().value();
  const std::unique_ptr<Dataset> in_place = Open(/*memory=*/0).value();
  EXPECT_EQ(in_place->size(), 15u);
  EXPECT_EQ(in_place->fingerprint(), in_memory->fingerprint());
  const std::vector<uint64_t> indices = {14, 3, 7, 3, 10};
  const Batch a = ReadExamples(*in_memory, indices);
  const Batch b = ReadExamples(*in_place, indices);
  for (size_t i = 0; i < a.features.size(); ++i) {
    EXPECT_EQ(a.features[i].floats, b.features[i].floats);
    EXPECT_EQ(a.features[i].ids, b.features[i].ids);
    EXPECT_EQ(a.features[i].bytes, b.features[i].bytes);
    EXPECT_EQ(a.features[i].ends, b.features[i].ends);
  }
  EXPECT_EQ(a.labels[0].ids, b.labels[0].ids);
}

TEST_F(TfRecordDatasetTest, FileThatChangesLaterIsNoticed) {
  const std::unique_ptr<Dataset> dataset = Open(/*memory=*/0).value();
  WriteTestFile(directory_, "plain.tfrecord", ReferenceFile("plain.tfrecord").substr(0, 100));
  Batch batch;
  const absl::Status status = dataset->Read({4}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("plain.tfrecord: has changed"));
}

// Size and time do not tell where somebody sets the time back, or writes twice within its tick.
TEST_F(TfRecordDatasetTest, RecordThatIsAnotherAtTheSameTimeIsNoticed) {
  const std::unique_ptr<Dataset> dataset = Open(/*memory=*/0).value();
  const std::filesystem::path path = directory_ + "/plain.tfrecord";
  const auto time = std::filesystem::last_write_time(path);
  std::string content = ReferenceFile("plain.tfrecord");
  content[20] = static_cast<char>(content[20] ^ 1);
  WriteTestFile(directory_, "plain.tfrecord", content);
  std::filesystem::last_write_time(path, time);
  Batch batch;
  const absl::Status status = dataset->Read({0}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("plain.tfrecord: has changed: the checksum of the record whose bytes begin "
                        "at offset 12 is wrong now"));
  EXPECT_EQ(dataset->Read({4}, &batch), absl::OkStatus());
}

TEST_F(TfRecordDatasetTest, RangeSelectsExamples) {
  set_.mutable_range()->set_begin(1);
  set_.mutable_range()->set_end(3);
  EXPECT_THAT(ReadAllExamples(*Open().value()).labels[0].ids, ElementsAre(1, 4));
  EXPECT_EQ(Open().value()->fingerprint(), Open(/*memory=*/0).value()->fingerprint());
}

TEST_F(TfRecordDatasetTest, DivideByMakesFloats) {
  set_.mutable_tfrecord()->mutable_features(1)->set_divide_by(255);
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_EQ(dataset->example().features[1].type, ElementType::kFloat);
  EXPECT_THAT(ReadExamples(*dataset, {1}).features[1].floats,
              ElementsAre(50.0f / 255, 51.0f / 255, 52.0f / 255, 53.0f / 255));
}

TEST_F(TfRecordDatasetTest, WholeNumbersCanBeFloatsAndLabelsCanBeMissing) {
  set_.mutable_tfrecord()->clear_label();
  RecordFeature& feature = *set_.mutable_tfrecord()->mutable_features(3);
  feature.set_type(RecordFeature::FLOAT);
  feature.set_missing(0.5);
  const std::unique_ptr<Dataset> dataset = Open().value();
  EXPECT_THAT(ReadAllExamples(*dataset).features[3].floats, ElementsAre(10, 11, 0.5f, 13, 14));
  EXPECT_THAT(dataset->example().labels, IsEmpty());
}

TEST_F(TfRecordDatasetTest, SeveralLabelsAreEachOfItsOwnKind) {
  RecordFeature& label = *set_.mutable_tfrecord()->add_label();
  label.set_key("floats");
  label.set_type(RecordFeature::FLOAT);
  label.add_shape(3);
  RecordFeature& other = *set_.mutable_tfrecord()->add_label();
  other.set_key("sometimes");
  other.set_name("seldom");
  other.set_type(RecordFeature::INT64);
  other.set_missing(1);
  for (const uint64_t memory : {uint64_t{0}, kLarge}) {
    const std::unique_ptr<Dataset> dataset = Open(memory).value();
    ASSERT_EQ(dataset->example().labels.size(), 3u);
    EXPECT_EQ(dataset->example().labels[1].name, "floats");
    EXPECT_EQ(dataset->example().labels[2].name, "seldom");
    EXPECT_EQ(dataset->example().labels[2].largest_id, "plain.tfrecord: example 4");
    const Batch batch = ReadExamples(*dataset, {2, 4});
    EXPECT_THAT(batch.labels[0].ids, ElementsAre(4, 2));
    EXPECT_THAT(batch.labels[1].floats, ElementsAre(2.25f, -0.25f, 3, 4.25f, -0.5f, 3));
    EXPECT_THAT(batch.labels[2].ids, ElementsAre(1, 14));
  }
  other.clear_missing();
  EXPECT_THAT(ErrorOf(ReferenceFile("plain.tfrecord")),
              HasSubstr("feature 'sometimes' is missing"));
}

TEST_F(TfRecordDatasetTest, FeaturesThatAreNotAsDeclaredAreReported) {
  const std::string good = ReferenceFile("plain.tfrecord");
  RecordFeature& feature = *set_.mutable_tfrecord()->mutable_features(3);
  feature.clear_missing();
  EXPECT_THAT(ErrorOf(good), HasSubstr("plain.tfrecord: example 2 at offset "));
  EXPECT_THAT(ErrorOf(good), HasSubstr("feature 'sometimes' is missing; the example has floats, "
                                       "image, label, words"));
  feature.set_missing(0);
  feature.set_type(RecordFeature::BYTES);
  EXPECT_THAT(ErrorOf(good), HasSubstr("'sometimes' is an int64_list; must be a bytes_list"));
  feature.set_type(RecordFeature::INT64);
  feature.add_shape(2);
  EXPECT_THAT(ErrorOf(good), HasSubstr("'sometimes' has 1 values; must have 2 (shape [2])"));
  EXPECT_THAT(ErrorOf(ExampleRecord(
                  "features { feature { key: 'floats' value { int64_list { value: 1 } } } }")),
              HasSubstr("example 0 at offset 12: feature 'floats' has 1 values; must have 3"));
}

TEST_F(TfRecordDatasetTest, ValuesThatCannotBeUsedAreReported) {
  Use("files: 'plain.tfrecord' features { key: 'x' type: FLOAT } label { key: 'y' type: INT64 }");
  const auto error = [this](const std::string& x, const std::string& y) {
    return ErrorOf(ExampleRecord(
        absl::StrCat("features { feature { key: 'x' value { float_list { value: ", x,
                     " } } } feature { key: 'y' value { int64_list { value: ", y, " } } } }")));
  };
  EXPECT_THAT(error("inf", "1"), HasSubstr("example 0 at offset 12: x: element 0 is inf"));
  EXPECT_THAT(error("1", "-7"), HasSubstr("example 0 at offset 12: y: -7; ids are"));
}

// Records of no bytes and of two in turn: next to nothing but the index, which is of all records,
// wherever they are.
TEST_F(TfRecordDatasetTest, IndexCountsAsMemory) {
  TfRecordFiles spec;
  spec.add_files("small.tfrecord");
  spec.add_features()->set_key("x");
  spec.mutable_features(0)->set_type(RecordFeature::FLOAT);
  spec.mutable_features(0)->set_missing(0);
  std::string records;
  for (int i = 0; i < 2000; ++i) records += Record("") + Record(std::string("\x0a\0", 2));
  for (const std::string& content : {records, Gzip(records)}) {
    WriteTestFile(directory_, "small.tfrecord", content);
    const auto open = [&](uint64_t most) {
      return OpenTfRecordDataset(spec, ExampleSelection(), directory_, "data.train",
                                 /*data_memory=*/0, most);
    };
    EXPECT_EQ(open(200'000).status(), absl::OkStatus());
    EXPECT_EQ(open(50'000).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST_F(TfRecordDatasetTest, DamageIsReportedWithItsPlace) {
  const std::string record = ExampleRecord("");
  EXPECT_THAT(ErrorOf("no records at all, but text"),
              HasSubstr("plain.tfrecord: damaged: the checksum of the length at offset 0 is wrong; "
                        "is it a TFRecord file?"));
  const std::string good = ReferenceFile("plain.tfrecord");
  std::string flipped = good;
  flipped[40] ^= 1;
  EXPECT_THAT(ErrorOf(flipped), HasSubstr("the checksum of the record at offset 0 is wrong"));
  EXPECT_THAT(ErrorOf(good.substr(0, 50)),
              HasSubstr("truncated at offset 50: a record begins at offset 0"));
  EXPECT_THAT(ErrorOf(good + "abc"), HasSubstr(": a record begins at offset 560"));
  EXPECT_THAT(ErrorOf(Record("\xff\xff")), HasSubstr("not a tf.train.Example"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("data.train: plain.tfrecord: holds no examples; must"));
}

TEST_F(TfRecordDatasetTest, LengthThatClaimsMuchCostsNothing) {
  for (const uint64_t length : {uint64_t{1} << 30, ~uint64_t{0}}) {
    const std::string bytes = LittleEndianBytes(length, 8);
    const std::string crc = LittleEndianBytes(MaskedCrc32c(bytes), 4);
    EXPECT_THAT(ErrorOf(absl::StrCat(bytes, crc, "abc")),
                ::testing::AnyOf(HasSubstr("truncated at offset 15"),
                                 HasSubstr("at most 1073741824 are allowed")));
  }
}

TEST_F(TfRecordDatasetTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20260303;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string file = ReferenceFile("plain.tfrecord");
  for (int i = 0; i < 3000; ++i) {
    millrace::testing::ReplaceTestFile(directory_, "plain.tfrecord",
                                       Mutate(i % 3 == 0 ? Gzip(file) : file, &random));
    const DatasetOr dataset = Open(i % 4 < 2 ? 0 : kLarge);
    if (dataset.ok()) {
      EXPECT_EQ(ReadAllExamples(**dataset).size, (*dataset)->size());
    } else {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
    }
  }
}

// With right checksums, so that what is in the records is damaged.
TEST_F(TfRecordDatasetTest, DamagedExamplesNeverCrash) {
  constexpr uint64_t kSeed = 20260304;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string file = ReferenceFile("plain.tfrecord");
  const std::string example = file.substr(12, static_cast<uint8_t>(file[0]));
  for (int i = 0; i < 3000; ++i) {
    millrace::testing::ReplaceTestFile(directory_, "plain.tfrecord",
                                       Record(Mutate(example, &random)));
    const DatasetOr dataset = Open();
    if (dataset.ok()) {
      EXPECT_EQ(ReadAllExamples(**dataset).features[0].floats.size(), 3u);
    } else {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
    }
  }
}

}  // namespace
}  // namespace millrace::worker
