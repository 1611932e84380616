#include "worker/input/csv/csv_dataset.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/evaluation_set.h"
#include "common/job_spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "worker/input/input_test_util.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::ReadAllExamples;
using ::millrace::testing::ReadExamples;
using ::millrace::testing::RealDataDirectory;
using ::millrace::testing::WriteTestFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DatasetOr = absl::StatusOr<std::unique_ptr<Dataset>>;

constexpr char kPeople[] =
    "name,age,job,score,y\n"
    "Ada,36,maths,0.5,1\n"
    "Bob,,cook,-2,0\n"
    "Cid,50,\"spy, retired\",1e1,2\n";

class CsvDatasetTest : public ::testing::Test {
 protected:
  CsvDatasetTest() { Write(kPeople); }

  void Write(const std::string& content) { WriteTestFile(directory_, "people.csv", content); }

  // `text` is what CsvFiles has beside the file and the label "y".
  DatasetOr Open(const std::string& text, uint64_t begin = 0, uint64_t end = 0) {
    CsvFiles spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
    if (spec.files().empty()) spec.add_files("people.csv");
    if (spec.label().empty()) spec.add_label()->set_name("y");
    millrace::Dataset set;
    set.mutable_range()->set_begin(begin);
    set.mutable_range()->set_end(end);
    return OpenCsvDataset(spec, ExampleSelection(set), directory_, "data.train");
  }

  std::string ErrorOf(const std::string& text, uint64_t begin = 0, uint64_t end = 0) {
    const absl::Status status = Open(text, begin, end).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::vector<float> FloatsOf(const std::string& text) {
    return ReadAllExamples(*Open(text).value()).features[0].floats;
  }

  std::vector<int64_t> IdsOf(const std::string& text) {
    return ReadAllExamples(*Open(text).value()).features[0].ids;
  }

  const std::string directory_ = millrace::testing::MakeTestDirectory();
};

TEST_F(CsvDatasetTest, NumbersAreShiftedAndScaled) {
  EXPECT_THAT(FloatsOf("columns { name: 'score' number {} }"), ElementsAre(0.5f, -2, 10));
  EXPECT_THAT(FloatsOf("columns { name: 'score' number { subtract: 2 divide: 4 } }"),
              ElementsAre(-0.375f, -1, 2));
  EXPECT_THAT(FloatsOf("columns { name: 'age' number { missing: 40 divide: 2 } }"),
              ElementsAre(18, 20, 25));
}

TEST_F(CsvDatasetTest, BucketsCountTheBoundariesThatAreReached) {
  EXPECT_THAT(
      IdsOf("columns { name: 'score' buckets { boundaries: [-2, 0, 0.5, 10] } as_id: true }"),
      ElementsAre(3, 1, 4));
  EXPECT_THAT(FloatsOf("columns { name: 'age' buckets { boundaries: 40 missing: 0 } }"),
              ElementsAre(1, 0, 1, 0, 0, 1));
}

TEST_F(CsvDatasetTest, WordsBecomeIdsInTheOrderOfTheVocabulary) {
  EXPECT_THAT(IdsOf("columns { name: 'job' vocabulary { words: ['cook', 'spy, retired', 'maths'] } "
                    "as_id: true }"),
              ElementsAre(2, 0, 1));
  EXPECT_THAT(FloatsOf("columns { name: 'job' vocabulary { words: 'cook' others: true } }"),
              ElementsAre(0, 1, 1, 0, 0, 1));
}

TEST_F(CsvDatasetTest, VocabularyCanBeAFile) {
  WriteTestFile(directory_, "jobs", millrace::testing::Gzip("maths\r\ncook\nspy, retired"));
  const auto dataset =
      Open("columns { name: 'job' vocabulary { file: 'jobs' } as_id: true }").value();
  EXPECT_THAT(ReadAllExamples(*dataset).features[0].ids, ElementsAre(0, 1, 2));
  EXPECT_EQ(dataset->example().features[0].limit, 3);
  WriteTestFile(directory_, "jobs", "maths\ncook\nmaths\n");
  EXPECT_THAT(ErrorOf("columns { name: 'job' vocabulary { file: 'jobs' } }"),
              HasSubstr("data.train.csv.columns[0].vocabulary.file: " + directory_ +
                        "/jobs:3:1: a word that a line before has"));
  WriteTestFile(directory_, "jobs", "");
  EXPECT_THAT(ErrorOf("columns { name: 'job' vocabulary { file: 'jobs' } }"),
              HasSubstr("holds no words"));
}

// Computed with Python's xxhash: xxh64("maths", seed=0) % 1000 and so on.
TEST_F(CsvDatasetTest, HashesAreThoseOfXxh64) {
  EXPECT_THAT(IdsOf("columns { name: 'job' hash { buckets: 1000 } as_id: true }"),
              ElementsAre(506, 614, 59));
  EXPECT_THAT(IdsOf("columns { name: 'age' hash { buckets: 1000 } as_id: true }"),
              ElementsAre(826, 921, 925));
}

// The same, each hash the seed of the next: xxh64("1", seed=xxh64("maths", seed=0)) % 1000.
TEST_F(CsvDatasetTest, CrossesHashOneTextAfterTheOther) {
  EXPECT_THAT(IdsOf("columns { cross { parts { name: 'job' } parts { name: 'age' boundaries: [30, "
                    "40] } buckets: 1000 } as_id: true }"),
              ElementsAre(251, 505, 913));
}

TEST_F(CsvDatasetTest, ColumnsOfAFeatureStandSideBySide) {
  const auto dataset =
      Open(
          "columns { name: 'score' feature: 'wide' number {} } "
          "columns { name: 'job' feature: 'deep' hash { buckets: 7 } as_id: true } "
          "columns { name: 'job' feature: 'wide' vocabulary { words: 'cook' others: true } } "
          "columns { name: 'y' feature: 'deep' buckets { boundaries: 1 } as_id: true } ")
          .value();
  const ExampleSpec& example = dataset->example();
  ASSERT_EQ(example.features.size(), 2u);
  EXPECT_EQ(example.features[0].name, "wide");
  EXPECT_THAT(example.features[0].shape, ElementsAre(3));
  EXPECT_EQ(example.features[1].name, "deep");
  EXPECT_EQ(example.features[1].type, ElementType::kId);
  EXPECT_THAT(example.features[1].shape, ElementsAre(2));
  EXPECT_EQ(example.features[1].limit, 9);
  const Batch batch = ReadExamples(*dataset, {2, 1});
  EXPECT_EQ(batch.size, 2u);
  EXPECT_THAT(batch.features[0].floats, ElementsAre(10, 0, 1, -2, 1, 0));
  // The ids of the second column begin where the seven of the first one end.
  EXPECT_EQ(batch.features[1].ids[1], 8);
  EXPECT_EQ(batch.features[1].ids[3], 7);
  EXPECT_LT(batch.features[1].ids[0], 7);
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(2, 0));
}

TEST_F(CsvDatasetTest, LabelsAreClassesByNumberOrByValue) {
  const std::string column = "columns { name: 'score' number {} } ";
  const auto dataset = Open(column).value();
  EXPECT_EQ(dataset->example().labels[0].limit, 3);
  EXPECT_EQ(dataset->example().labels[0].largest_id, "people.csv: line 4");
  EXPECT_THAT(ReadAllExamples(*dataset).labels[0].ids, ElementsAre(1, 0, 2));
  const auto named = Open(column +
                          "label { name: 'job' classes { values: 'cook' } classes { "
                          "values: ['maths', 'spy, retired'] } }")
                         .value();
  EXPECT_EQ(named->example().labels[0].limit, 2);
  EXPECT_THAT(ReadAllExamples(*named).labels[0].ids, ElementsAre(1, 0, 1));
}

TEST_F(CsvDatasetTest, LabelsCanBeNumbers) {
  const auto dataset =
      Open("columns { name: 'y' number {} } label { name: 'score' number: true }").value();
  EXPECT_EQ(dataset->example().labels[0].type, ElementType::kFloat);
  const Batch batch = ReadAllExamples(*dataset);
  EXPECT_THAT(batch.labels[0].floats, ElementsAre(0.5f, -2, 10));
  EXPECT_TRUE(batch.labels[0].ids.empty());
}

TEST_F(CsvDatasetTest, SeveralLabelsAreEachOfItsOwnKind) {
  const std::string labels =
      "columns { name: 'y' number {} } label { name: 'y' } "
      "label { name: 'score' label: 'size' number: true } "
      "label { name: 'job' label: 'job' classes { values: 'cook' } classes { values: ['maths', "
      "'spy, retired'] } } ";
  const auto dataset = Open(labels + "weight: 'y'").value();
  const ExampleSpec& example = dataset->example();
  ASSERT_EQ(example.labels.size(), 3u);
  EXPECT_EQ(example.labels[0].name, "label");
  EXPECT_EQ(example.labels[0].limit, 3);
  EXPECT_EQ(example.labels[0].largest_id, "people.csv: line 4");
  EXPECT_EQ(example.labels[1].name, "size");
  EXPECT_EQ(example.labels[1].type, ElementType::kFloat);
  EXPECT_EQ(example.labels[2].name, "job");
  EXPECT_EQ(example.labels[2].limit, 2);
  const Batch batch = ReadExamples(*dataset, {2, 0});
  EXPECT_THAT(batch.labels[0].ids, ElementsAre(2, 1));
  EXPECT_THAT(batch.labels[1].floats, ElementsAre(10, 0.5f));
  EXPECT_THAT(batch.labels[2].ids, ElementsAre(1, 1));
  EXPECT_THAT(batch.weights, ElementsAre(2, 1));
  EXPECT_NE(Open(labels).value()->fingerprint(), dataset->fingerprint());
}

TEST_F(CsvDatasetTest, WhatIsWrongWithOneOfSeveralLabelsNamesIt) {
  const std::string labels = "columns { name: 'y' number {} } label { name: 'y' } ";
  EXPECT_THAT(ErrorOf(labels + "label { name: 'Score' label: 'size' number: true }"),
              HasSubstr("data.train.csv.label[1].name: 'Score'; must be a column's name"));
  EXPECT_THAT(ErrorOf(labels + "label { name: 'age' label: 'age' }"),
              HasSubstr("people.csv:3:5: column 'age': is missing; each example needs a label"));
}

TEST_F(CsvDatasetTest, WeightsComeFromAColumn) {
  const std::string columns = "columns { name: 'score' number {} } ";
  EXPECT_TRUE(ReadAllExamples(*Open(columns).value()).weights.empty());
  EXPECT_THAT(ReadExamples(*Open(columns + "weight: 'y'").value(), {2, 0}).weights,
              ElementsAre(2, 1));
  EXPECT_THAT(
      ErrorOf(columns + "weight: 'score'"),
      HasSubstr("people.csv:3:11: column 'score': '-2'; a weight must be a number from 0 on"));
}

TEST_F(CsvDatasetTest, FilesAreOneSetAndMayOrderTheirColumnsDifferently) {
  WriteTestFile(directory_, "more.csv", "y,score\n5,0.25\n");
  const std::string spec = "files: ['people.csv', 'more.csv'] columns { name: 'score' number {} }";
  EXPECT_THAT(FloatsOf(spec), ElementsAre(0.5f, -2, 10, 0.25f));
  const auto dataset = Open(spec, 2).value();
  EXPECT_THAT(ReadAllExamples(*dataset).labels[0].ids, ElementsAre(2, 5));
  EXPECT_EQ(dataset->example().labels[0].largest_id, "more.csv: line 2");
  EXPECT_THAT(
      ErrorOf(spec, 0, 9),
      HasSubstr("data.train.range.end: 9; people.csv to more.csv (2 files) has 4 examples"));
}

TEST_F(CsvDatasetTest, NamesTakeThePlaceOfAHeader) {
  Write("1;2\n3;4\n");
  EXPECT_THAT(FloatsOf("names: ['a', 'y'] delimiter: ';' columns { name: 'a' number {} }"),
              ElementsAre(1, 3));
}

TEST_F(CsvDatasetTest, FingerprintFollowsFromWhatIsUsed) {
  const std::string spec =
      "columns { name: 'score' number {} } columns { name: 'job' hash { buckets: 9 } }";
  const uint64_t fingerprint = Open(spec).value()->fingerprint();
  EXPECT_NE(fingerprint, 0u);
  EXPECT_NE(Open(spec, 1).value()->fingerprint(), fingerprint);
  EXPECT_NE(Open(spec + " weight: 'y'").value()->fingerprint(), fingerprint);
  Write(absl::StrCat("\n", kPeople, "\n"));
  EXPECT_EQ(Open(spec).value()->fingerprint(), fingerprint);
  std::string other = kPeople;
  other.replace(other.find("0.5"), 3, "0.6");
  Write(other);
  EXPECT_NE(Open(spec).value()->fingerprint(), fingerprint);
}

TEST_F(CsvDatasetTest, ErrorsNameFileLineColumnAndWhatIsAllowed) {
  EXPECT_THAT(ErrorOf("columns { name: 'age' number {} }"),
              HasSubstr("data.train.csv.files: " + directory_ +
                        "/people.csv:3:5: column 'age': is missing"));
  EXPECT_THAT(
      ErrorOf("columns { name: 'job' number {} }"),
      HasSubstr("people.csv:2:8: column 'job': a word of 5 bytes that is no number; must be "
                "a finite number"));
  EXPECT_THAT(ErrorOf("columns { name: 'job' vocabulary { words: ['maths', 'spy'] } }"),
              HasSubstr("people.csv:3:6: column 'job': a word of 4 bytes that is none of the 2 "
                        "words; vocabulary.others"));
  EXPECT_THAT(ErrorOf("columns { name: 'score' number { divide: 1e-40 } }"),
              HasSubstr("people.csv:2:14: column 'score': (0.5 - 0) / 1e-40 does not fit float32"));
  EXPECT_THAT(
      ErrorOf("columns { cross { parts { name: 'y' } parts { name: 'name' boundaries: 1 } buckets: "
              "9 } }"),
      HasSubstr("people.csv:2:1: column 'name': a word of 3 bytes"));
  const std::string column = "columns { name: 'y' number {} } ";
  EXPECT_THAT(ErrorOf(column + "label { name: 'score' }"),
              HasSubstr("people.csv:2:14: column 'score': '0.5'; must be a whole number from 0"));
  EXPECT_THAT(
      ErrorOf(column + "label { name: 'job' classes { values: 'maths' } }"),
      HasSubstr("people.csv:3:6: column 'job': a word of 4 bytes that is none of the values "
                "of the 1 classes"));
}

TEST_F(CsvDatasetTest, RowsThatAreTooShortOrTooLongAreRefused) {
  const std::string spec = "columns { name: 'score' number {} }";
  Write(absl::StrCat(kPeople, "Dan,1,2,3\n"));
  EXPECT_THAT(ErrorOf(spec), HasSubstr("people.csv:5:1: a row of 4 fields; must have 5"));
  EXPECT_THAT(ErrorOf(spec, 0, 1), HasSubstr("people.csv:5:1"));  // Outside the range, too.
}

TEST_F(CsvDatasetTest, ColumnsMustBeInTheHeaderOnce) {
  EXPECT_THAT(ErrorOf("columns { name: 'Score' number {} }"),
              HasSubstr("data.train.csv.columns[0]: 'Score'; must be a column's name, and "
                        "people.csv: line 1, the header, has 5 names, none of which is this"));
  Write("y,y\n1,2\n");
  EXPECT_THAT(ErrorOf("columns { name: 'y' number {} }"), HasSubstr("2 of which is this"));
}

TEST_F(CsvDatasetTest, FilesWithoutExamplesAreRefused) {
  const std::string spec = "columns { name: 'y' number {} }";
  Write("");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("has no header"));
  Write("y\n\n");
  EXPECT_THAT(ErrorOf(spec), HasSubstr("no examples"));
}

TEST_F(CsvDatasetTest, FeatureOfTooManyNumbersIsRefused) {
  EXPECT_THAT(ErrorOf("columns { name: 'y' hash { buckets: 16777217 } }"),
              HasSubstr("data.train.csv.columns[0]: the feature 'features' has 16777217 numbers"));
}

TEST_F(CsvDatasetTest, DamagedFilesNeverCrash) {
  constexpr uint64_t kSeed = 20240821;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::string compressed = millrace::testing::Gzip(kPeople);
  int opened = 0;
  for (int i = 0; i < 4000; ++i) {
    Write(millrace::testing::Mutate(i % 8 == 0 ? compressed : kPeople, &random));
    const DatasetOr dataset = Open(
        "columns { name: 'score' number {} } columns { name: 'job' hash { buckets: 3 } } "
        "columns { cross { parts { name: 'job' } parts { name: 'age' boundaries: 40 } "
        "buckets: 5 } }");
    if (!dataset.ok()) {
      EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
      continue;
    }
    ++opened;
    EXPECT_EQ(ReadAllExamples(**dataset).features[0].floats.size(), 9 * (*dataset)->size());
  }
  EXPECT_GT(opened, 500);
}

DataSpec CensusSpec() {
  std::ifstream file("examples/census_csv.textproto");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return ParseJobSpec(text, "census_csv.textproto").value().data();
}

// Counted with Python's csv module.
TEST(CensusTest, RealCensusRowsAndShares) {
  if (RealDataDirectory().empty()) {
    GTEST_SKIP() << "set MILLRACE_TEST_DATA to a folder that holds census/ to run this test";
  }
  const std::string directory = absl::StrCat(RealDataDirectory(), "/census");
  const DataSpec data = CensusSpec();
  const auto train = OpenDataset(data.train(), directory, "data.train").value();
  const auto evaluate = OpenDataset(EvaluationSet(data), directory, "data.evaluate").value();
  EXPECT_EQ(train->size(), 32561u);
  EXPECT_EQ(evaluate->size(), 16281u);
  const Batch rows = ReadAllExamples(*train);
  const auto sum = [](const std::vector<int64_t>& ids) {
    return std::accumulate(ids.begin(), ids.end(), int64_t{0});
  };
  EXPECT_EQ(sum(rows.labels[0].ids), 7841);
  EXPECT_EQ(sum(ReadAllExamples(*evaluate).labels[0].ids), 3846);
  const uint64_t width = train->example().features[0].shape[0];
  EXPECT_EQ(width, 5 + 9 + 16 + 7 + 15 + 6 + 5 + 2 + 100u);
  double ages = 0;
  double unknown = 0;  // Of "workclass", the ninth of its places.
  for (size_t i = 0; i < rows.size; ++i) {
    ages += rows.features[0].floats[i * width];
    unknown += rows.features[0].floats[i * width + 1 + 8];
  }
  EXPECT_NEAR(ages / 32561, (38.58164675532078 - 38.6) / 13.6, 1e-6);
  EXPECT_EQ(unknown, 1836);
}

}  // namespace
}  // namespace millrace::worker
