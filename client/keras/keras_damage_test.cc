// Files that are not what their names say, or are damaged: whatever is in one, it is converted or
// refused.
#include <cstddef>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/keras/keras_file.h"
#include "client/keras/keras_model.h"
#include "client/keras/keras_test_util.h"
#include "client/keras/keras_weights.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<KerasFile> ReadWhole(const std::string& path) {
  return KerasFormatOf(path) == KerasFormat::kArchive
             ? ReadKerasArchive(path, /*with_weights=*/true)
             : ReadKerasHdf5(path);
}

std::string ReadError(const std::string& path) {
  const absl::Status status = ReadWhole(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// All that the command does with a file.
absl::Status ConvertWhole(const std::string& path) {
  const auto file = ReadWhole(path);
  if (!file.ok()) return file.status();
  KerasModelOptions options;
  options.training = file->training;
  options.in_keras2_hdf5 = file->in_keras2_hdf5;
  const auto model = ConvertKerasModel(file->json, file->json_name, options);
  if (!model.ok()) return model.status();
  const auto weights = FindKerasWeights(*file->weights, model->variables);
  if (!weights.ok()) return weights.status();
  return WriteKerasWeights(*file->weights, *weights,
                           absl::StrCat(::testing::TempDir(), "/damaged.safetensors"));
}

TEST(KerasDamageTest, FormatsAreKnownByWhatIsInAFile) {
  EXPECT_EQ(KerasFormatOf(KerasSamplePath("trained.keras3.keras")), KerasFormat::kArchive);
  EXPECT_EQ(KerasFormatOf(KerasSamplePath("trained.keras3.h5")), KerasFormat::kHdf5);
  EXPECT_EQ(KerasFormatOf(KerasSamplePath("trained.keras3.json")), KerasFormat::kJson);
  EXPECT_EQ(KerasFormatOf(WriteKerasTestFile("named.keras", "text")), KerasFormat::kArchive);
  EXPECT_EQ(KerasFormatOf(WriteKerasTestFile("named.h5", "")), KerasFormat::kHdf5);
  EXPECT_EQ(KerasFormatOf("/no/such/file.h5"), KerasFormat::kJson);
}

TEST(KerasDamageTest, WhatIsNoArchiveIsNamed) {
  EXPECT_THAT(ReadError(WriteKerasTestFile("text.keras", "{}")),
              HasSubstr("text.keras: truncated: a zip archive's directory is missing"));
  const std::string whole = ReadKerasSample("trained.keras3.keras");
  EXPECT_THAT(ReadError(WriteKerasTestFile("half.keras", whole.substr(0, whole.size() / 2))),
              HasSubstr("half.keras: truncated"));
}

TEST(KerasDamageTest, WhatIsNoHdf5IsNamed) {
  EXPECT_THAT(ReadError(WriteKerasTestFile("text.h5", "{}")), HasSubstr("text.h5: no whole HDF5"));
  const std::string whole = ReadKerasSample("trained.keras3.h5");
  EXPECT_THAT(ReadError(WriteKerasTestFile("half.h5", whole.substr(0, whole.size() / 2))),
              AllOf(HasSubstr("half.h5: no whole HDF5 file: "), HasSubstr("truncated")));
}

// They may be many, and are held in memory.
TEST(KerasDamageTest, AnArchiveWhoseWeightsAreNoHdf5IsRefusedBeforeTheyAreRead) {
  std::string archive = ReadKerasSample("trained.keras3.keras");
  const size_t at = archive.find("\x89HDF\r\n");
  ASSERT_NE(at, std::string::npos);
  archive[at] = 'x';
  EXPECT_THAT(ReadError(WriteKerasTestFile("no_hdf5.keras", archive)),
              HasSubstr("no_hdf5.keras: model.weights.h5: no whole HDF5 file: it does not begin"));
}

TEST(KerasDamageTest, WeightsAloneAreNoModel) {
  EXPECT_THAT(ReadError(KerasSamplePath("sequences.keras3.weights.h5")),
              HasSubstr("attribute model_config: not there; where the file has weights alone"));
}

TEST(KerasDamageTest, AnArchiveWithoutAPartNamesIt) {
  std::string archive = ReadKerasSample("trained.keras3.keras");
  const size_t at = archive.rfind("config.json");
  archive[at] = 'x';
  EXPECT_THAT(ReadError(WriteKerasTestFile("no_config.keras", archive)),
              HasSubstr("no_config.keras: config.json: not there"));
  archive[at] = 'c';
  archive[archive.rfind("model.weights.h5")] = 'x';
  EXPECT_THAT(ReadError(WriteKerasTestFile("no_weights.keras", archive)),
              HasSubstr("no_weights.keras: model.weights.h5: not there"));
}

TEST(KerasDamageTest, WeightsThatMemoryHasNoRoomForAreRefused) {
  EXPECT_GT(MostKerasWeightBytes(), 0u);
  const std::string path = KerasSamplePath("trained.keras3.keras");
  const auto read = [&](bool with_weights) {
    return ReadKerasArchive(path, with_weights, /*most_weight_bytes=*/1000).status();
  };
  EXPECT_TRUE(read(/*with_weights=*/false).ok());
  EXPECT_THAT(std::string(read(/*with_weights=*/true).message()),
              HasSubstr("bytes; must be at most 1000, a quarter of the memory that this process "
                        "may use"));
}

TEST(KerasDamageTest, EveryPrefixIsRefused) {
  for (const char* name : {"trained.keras3.keras", "trained.keras2.h5"}) {
    const std::string whole = ReadKerasSample(name);
    for (size_t size = 0; size < whole.size(); size += 2999) {
      const std::string path =
          WriteKerasTestFile(absl::StrCat("prefix.", name), whole.substr(0, size));
      EXPECT_FALSE(ConvertWhole(path).ok()) << name << " " << size;
    }
  }
}

TEST(KerasDamageTest, DamagedFilesAreRefusedOrConverted) {
  constexpr uint32_t kSeed = 20261123;
  constexpr int kRounds = 40;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  for (const char* name : {"trained.keras3.keras", "trained.keras3.h5", "trained.keras2.h5"}) {
    const std::string whole = ReadKerasSample(name);
    for (int round = 0; round < kRounds; ++round) {
      std::string damaged = whole;
      for (uint32_t changes = random() % 4; changes-- > 0;) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      const absl::Status status =
          ConvertWhole(WriteKerasTestFile(absl::StrCat("damaged.", name), damaged));
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    }
  }
}

}  // namespace
}  // namespace millrace::client
