#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/evaluation_set.h"
#include "common/spec_checks.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kColumn[] = "columns { name: 'a' number {} } ";
constexpr char kLabel[] = "label { name: 'y' } ";

CsvFiles ParseCsv(const std::string& text) {
  CsvFiles files;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &files)) << text;
  return files;
}

std::string CsvErrorOf(const std::string& text) {
  return std::string(CheckCsvFiles(ParseCsv(text), "csv").message());
}

std::string ColumnError(const std::string& column) {
  return CsvErrorOf(absl::StrCat("columns { ", column, " } ", kLabel));
}

TEST(CsvSpecCheckTest, GoodTablesPass) {
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel)), "");
  EXPECT_EQ(CsvErrorOf(absl::StrCat(
                kColumn,
                "names: ['a', 'b', 'y'] delimiter: ';' weight: 'b' columns { feature: 'x' "
                "cross { parts { name: 'a' } parts { name: 'b' boundaries: [1, 2] } "
                "buckets: 9 } as_id: true } label { name: 'y' classes { values: ['n', "
                "'N'] } classes { values: 'p' } }")),
            "");
}

TEST(CsvSpecCheckTest, FieldsOfTheFilesAreChecked) {
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel, "delimiter: '::'")),
            "csv.delimiter: '::'; must be one character of ASCII, and none of a quote, CR and LF");
  EXPECT_THAT(CsvErrorOf(absl::StrCat(kColumn, kLabel, "delimiter: '\"'")),
              HasSubstr("csv.delimiter"));
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel, "names: ['a', 'y', 'a']")),
            "csv.names[2]: 'a'; must be another name than those before");
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel, "names: ['b', 'y']")),
            "csv.columns[0].name: 'a'; must be one of the names in csv.names");
  EXPECT_EQ(CsvErrorOf(kLabel), "csv.columns: not set; must be at least one column");
  EXPECT_EQ(CsvErrorOf(kColumn), "csv.label.name: not set; must be the name of a column");
}

TEST(CsvSpecCheckTest, ColumnsAreChecked) {
  EXPECT_EQ(ColumnError("name: 'a'"),
            "csv.columns[0]: not set; must be number, buckets, vocabulary, hash or cross");
  EXPECT_EQ(ColumnError("hash { buckets: 1 }"),
            "csv.columns[0].name: not set; must be the name of a column");
  EXPECT_EQ(ColumnError("name: 'a' number { divide: 0 }"),
            "csv.columns[0].number.divide: 0; must be a finite number, not 0");
  EXPECT_EQ(ColumnError("name: 'a' number {} as_id: true"),
            "csv.columns[0].as_id: true; must be false where the column is a number");
  EXPECT_EQ(ColumnError("name: 'a' buckets {}"),
            "csv.columns[0].buckets.boundaries: not set; must be at least one number");
  EXPECT_EQ(ColumnError("name: 'a' buckets { boundaries: [1, 1] }"),
            "csv.columns[0].buckets.boundaries[1]: 1; must be above the one before, 1");
  EXPECT_THAT(ColumnError("name: 'a' vocabulary {}"),
              HasSubstr("csv.columns[0].vocabulary.words: not set"));
  EXPECT_THAT(ColumnError("name: 'a' vocabulary { words: 'x' file: 'f' }"),
              HasSubstr("vocabulary.file: 'f'; must be empty"));
  EXPECT_THAT(ColumnError("name: 'a' vocabulary { words: ['x', 'x'] }"),
              HasSubstr("vocabulary.words[1]: 'x'; must be another word"));
  EXPECT_THAT(ColumnError("name: 'a' hash {}"),
              HasSubstr("columns[0].hash.buckets: 0; must be at least 1"));
  EXPECT_THAT(ColumnError("cross { parts { name: 'a' } buckets: 1 }"),
              HasSubstr("columns[0].cross.parts: 1 columns; must be at least 2"));
  EXPECT_THAT(ColumnError("name: 'a' cross { parts { name: 'a' } parts { name: 'b' } buckets: 1 }"),
              HasSubstr("columns[0].name: 'a'; must be empty"));
}

TEST(CsvSpecCheckTest, ColumnsOfAFeatureAreAllIdsOrAllNumbers) {
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel,
                                    "columns { name: 'b' hash { buckets: 3 } as_id: true }")),
            "csv.columns[1].as_id: true; must be the same for all columns of the feature "
            "'features'");
}

TEST(CsvSpecCheckTest, LabelsAreChecked) {
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, "label { name: 'y' classes {} }")),
            "csv.label.classes[0].values: not set; must be at least one value");
  EXPECT_EQ(CsvErrorOf(absl::StrCat(
                kColumn, "label { name: 'y' classes { values: 'n' } classes { values: 'n' } }")),
            "csv.label.classes[1].values[0]: 'n'; must be another value than those before");
  EXPECT_EQ(
      CsvErrorOf(absl::StrCat(kColumn, "label { name: 'y' classes { values: 'n' } number: true }")),
      "csv.label.number: true; must be false where there are classes");
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, "label { name: 'y' label: 'a b' }")),
            "csv.label.label: 'a b'; must be at most 100 letters, digits, '_', '-' and '.'");
}

TEST(CsvSpecCheckTest, SeveralLabelsHaveNamesThatDiffer) {
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel, "label { name: 'y' label: 'z' }")), "");
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel, "label { label: 'z' }")),
            "csv.label[1].name: not set; must be the name of a column");
  EXPECT_EQ(CsvErrorOf(absl::StrCat(kColumn, kLabel, "label { name: 'z' }")),
            "csv.label[1].label: 'label'; must be different from the names of the labels before "
            "it");
}

TEST(CsvSpecCheckTest, EvaluationTakesOverAllButTheFiles) {
  DataSpec data;
  data.set_directory("/data");
  CsvFiles* train = data.mutable_train()->mutable_csv();
  *train = ParseCsv(absl::StrCat("files: 'train.csv' ", kColumn, kLabel));
  CsvFiles* evaluate = data.mutable_evaluate()->mutable_csv();
  evaluate->add_files("test.csv");
  EXPECT_EQ(CheckDataSpec(data), absl::OkStatus());
  EXPECT_THAT(EvaluationSet(data).csv().files(), ElementsAre("test.csv"));
  EXPECT_EQ(EvaluationSet(data).csv().columns_size(), 1);
  evaluate->set_weight("w");
  EXPECT_THAT(std::string(CheckDataSpec(data).message()),
              HasSubstr("data.evaluate.csv.columns: not set; must be at least one column, or "
                        "nothing but `files`"));
  *evaluate =
      ParseCsv(absl::StrCat("files: 'test.csv' ", kLabel, "columns { name: 'b' number {} }"));
  EXPECT_EQ(EvaluationSet(data).csv().columns(0).name(), "b");
  train->clear_files();
  EXPECT_EQ(std::string(CheckDataSpec(data).message()),
            "data.train.csv.files: not set; must be the names of files");
}

}  // namespace
}  // namespace millrace
