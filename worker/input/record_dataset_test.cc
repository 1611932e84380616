#include "worker/input/record_dataset.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/input/example_summary.h"
#include "worker/input/in_place_file.h"
#include "worker/input/input_file.h"
#include "worker/input/input_test_util.h"
#include "worker/input/record_store.h"

namespace millrace::worker {
namespace {

using ::millrace::testing::WriteTestFile;
using ::testing::HasSubstr;

std::string Get(const RecordStore& records, uint64_t index) {
  std::string scratch;
  return std::string(records.Get(index, &scratch).value());
}

TEST(RecordStoreTest, KeepsRecordsOfAnyLength) {
  RecordStore records;
  std::vector<std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    expected.push_back(
        std::string(i % 7 == 0 ? 100'000 : i / 100, static_cast<char>('a' + i % 26)));
    records.Add(expected.back());
  }
  ASSERT_EQ(records.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(Get(records, i), expected[i]) << i;
}

TEST(RecordStoreTest, RecordsOfFilesMayHaveGaps) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  WriteTestFile(directory, "a", "..aa..bb..ccc..dd");
  WriteTestFile(directory, "b", "ee..ff");
  RecordStore records(RecordLayout{.gap = 2});
  records.BeginFile(InPlaceFile::Open(directory + "/a", "f").value());
  records.AddInPlace(2, 2);
  records.AddInPlace(6, 2);
  records.AddInPlace(10, 3);
  records.Add("memory");
  records.AddInPlace(15, 2);
  records.BeginFile(InPlaceFile::Open(directory + "/b", "f").value());
  records.AddInPlace(0, 2, 2);
  const std::vector<std::string> expected = {"aa", "bb", "ccc", "memory", "dd", "ee", "ff"};
  ASSERT_EQ(records.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(Get(records, i), expected[i]);
}

TEST(RecordStoreTest, IndexCountsAsKept) {
  constexpr uint64_t kRunBytes = 24;
  RecordStore alike;
  for (int i = 0; i < 1000; ++i) alike.Add("ab");
  EXPECT_EQ(alike.kept_bytes(), 2 * 1000 + kRunBytes);
  RecordStore mixed;
  for (int i = 0; i < 1024; ++i) {
    const uint64_t most = mixed.KeptWhileAdding(i % 2);
    mixed.Add(std::string(i % 2, 'a'));
    ASSERT_LE(mixed.kept_bytes(), most);
  }
  EXPECT_EQ(mixed.kept_bytes(), 512 + 1024 * kRunBytes);
  EXPECT_EQ(mixed.KeptWhileAdding(3), 512 + 3 + (2 * 1024 + 1) * kRunBytes);  // It doubles.
}

// The header was read of one file and the rows of another.
TEST(InPlaceFileTest, IsTheFileThatIsReadWhateverHasItsNameByNow) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  WriteTestFile(directory, "a", "old");
  const InputFile file = InputFile::Open(directory, "a", "f").value();
  WriteTestFile(directory, "b", "new, and longer");
  std::filesystem::rename(directory + "/b", directory + "/a");
  const InPlaceFile in_place = InPlaceFile::Open(file).value();
  std::string bytes(3, '\0');
  EXPECT_EQ(in_place.ReadAt(0, absl::MakeSpan(bytes)), absl::OkStatus());
  EXPECT_EQ(bytes, "old");
}

TEST(InPlaceFileTest, ChangesCountFromWhenTheFileWasFirstOpened) {
  const std::string directory = millrace::testing::MakeTestDirectory();
  WriteTestFile(directory, "a", "old");
  const InputFile file = InputFile::Open(directory, "a", "f").value();
  WriteTestFile(directory, "a", "longer");
  const InPlaceFile in_place = InPlaceFile::Open(file).value();
  std::string bytes(3, '\0');
  EXPECT_THAT(std::string(in_place.ReadAt(0, absl::MakeSpan(bytes)).message()),
              HasSubstr("a: has changed since it was opened (3 bytes then, 6 now)"));
}

ExampleSpec RaggedSpec() {
  ExampleSpec spec;
  spec.features.resize(2);
  spec.features[0].name = "x";
  spec.features[0].shape = {2};
  spec.features[1].name = "words";
  spec.features[1].type = ElementType::kId;
  spec.features[1].ragged = true;
  return spec;
}

Batch RaggedExample(std::vector<float> x, std::vector<int64_t> words) {
  Batch batch;
  batch.size = 1;
  batch.features = {FloatTensor(std::move(x)), IdTensor(std::move(words))};
  return batch;
}

TEST(ExampleSummaryTest, FindsTheLargestIds) {
  ExampleSummary summary(RaggedSpec());
  EXPECT_EQ(summary.spec().features[1].limit, 0);
  ASSERT_EQ(summary.Add(RaggedExample({1, 2}, {}), "f", 0), absl::OkStatus());
  ASSERT_EQ(summary.Add(RaggedExample({1, 2}, {4, 9, 3}), "f", 1), absl::OkStatus());
  ASSERT_EQ(summary.Add(RaggedExample({1, 2}, {9}), "g", 0), absl::OkStatus());
  EXPECT_EQ(summary.examples(), 3u);
  EXPECT_EQ(summary.spec().features[1].limit, 10);
  EXPECT_EQ(summary.spec().features[1].largest_id, "f: example 1");
}

TEST(ExampleSummaryTest, FingerprintDiffersWhereExamplesDo) {
  const auto fingerprint = [](const std::vector<Batch>& examples) {
    ExampleSummary summary(RaggedSpec());
    for (const Batch& example : examples) EXPECT_TRUE(summary.Add(example, "f", 0).ok());
    return summary.fingerprint();
  };
  const uint64_t one = fingerprint({RaggedExample({1, 2}, {3}), RaggedExample({4, 5}, {})});
  EXPECT_EQ(fingerprint({RaggedExample({1, 2}, {3}), RaggedExample({4, 5}, {})}), one);
  EXPECT_NE(fingerprint({RaggedExample({1, 2}, {}), RaggedExample({4, 5}, {3})}), one);
  EXPECT_NE(fingerprint({RaggedExample({4, 5}, {}), RaggedExample({1, 2}, {3})}), one);
  EXPECT_NE(fingerprint({RaggedExample({1, 2}, {4}), RaggedExample({4, 5}, {})}), one);
  EXPECT_NE(fingerprint({RaggedExample({1, 2}, {3})}), one);
}

TEST(ExampleSummaryTest, RefusesWhatIsNoNumber) {
  ExampleSummary summary(RaggedSpec());
  EXPECT_THAT(std::string(summary.Add(RaggedExample({1, NAN}, {}), "f", 0).message()),
              HasSubstr("x: element 1 is nan; must be finite"));
  EXPECT_THAT(std::string(summary.Add(RaggedExample({1, 2}, {-1}), "f", 0).message()),
              HasSubstr("words: -1; ids are whole numbers from 0"));
}

}  // namespace
}  // namespace millrace::worker
