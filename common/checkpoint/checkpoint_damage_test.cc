// Checkpoints with bits that have changed, and files that somebody has made to do harm.
// MILLRACE_FLIPS=10000 flips so many bits of a larger one; MILLRACE_SEED repeats a run.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/checkpoint_test_util.h"
#include "common/checkpoint/checksum.h"
#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "testing/seed/test_seed.h"

namespace millrace {
namespace {

using ::millrace::testing::Compare;
using ::millrace::testing::EmptyDirectory;
using ::millrace::testing::Files;
using ::millrace::testing::FilesIn;
using ::millrace::testing::MakeTestJob;
using ::millrace::testing::TestJob;
using ::millrace::testing::WriteTestCheckpoint;
using ::testing::HasSubstr;

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<CheckpointProblem> ProblemsOf(const std::string& directory, uint64_t number) {
  std::vector<CheckpointProblem> problems;
  const auto verified =
      VerifyCheckpoint(Files(), directory, number,
                       [&](const CheckpointProblem& problem) { problems.push_back(problem); });
  EXPECT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->problems, problems.size());
  return problems;
}

// Somebody says that byte `at` of `name` is damaged, and where.
void ExpectFound(const std::string& directory, uint64_t number, const TestJob& job,
                 const std::string& name, uint64_t at) {
  const std::vector<CheckpointProblem> problems = ProblemsOf(directory, number);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].path, name);
  EXPECT_LE(problems[0].begin, at);
  EXPECT_GT(problems[0].end, at);
  EXPECT_THAT(problems[0].what, HasSubstr(JoinPath(directory, name)));
  const absl::Status status = Compare(Files(), directory, number, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(JoinPath(directory, name)));
}

// Two checkpoints. The second one refers to values of the first.
TestJob WriteTwo(const std::string& directory) {
  TestJob job = MakeTestJob();
  EXPECT_TRUE(WriteTestCheckpoint(Files(), directory, job).ok());
  job.step = 1;
  EXPECT_TRUE(WriteTestCheckpoint(Files(), directory, job, 1).ok());
  return job;
}

// What checkpoint 2 consists of.
bool IsOfTheSecond(const std::string& name) {
  return absl::StartsWith(name, "000002/") || absl::EndsWith(name, ".safetensors");
}

TEST(DamageTest, EveryByteThatHasChangedIsFound) {
  const std::string directory = EmptyDirectory("flips");
  const TestJob job = WriteTwo(directory);
  ASSERT_TRUE(ProblemsOf(directory, 2).empty());
  uint64_t flipped = 0;
  for (const auto& [name, bytes] : FilesIn(directory)) {
    if (!IsOfTheSecond(name)) continue;
    const std::string path = JoinPath(directory, name);
    for (size_t at = 0; at < bytes.size(); ++at, ++flipped) {
      SCOPED_TRACE(absl::StrCat("byte ", at, " of ", name));
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << flipped % 8);
      WriteText(path, damaged);
      ASSERT_NO_FATAL_FAILURE(ExpectFound(directory, 2, job, name, at));
      if (HasFailure()) return;
    }
    WriteText(path, bytes);
  }
  EXPECT_GT(flipped, 2000u);
  EXPECT_EQ(Compare(Files(), directory, 2, job), absl::OkStatus());
}

TEST(DamageTest, FilesThatAreShorterLongerOrGoneAreFound) {
  const std::string directory = EmptyDirectory("lengths");
  const TestJob job = WriteTwo(directory);
  for (const auto& [name, bytes] : FilesIn(directory)) {
    if (!IsOfTheSecond(name)) continue;
    const std::string path = JoinPath(directory, name);
    for (const size_t length : {size_t{0}, size_t{7}, bytes.size() / 2, bytes.size() - 1,
                                bytes.size() + 1, 2 * bytes.size()}) {
      SCOPED_TRACE(absl::StrCat(name, " of ", length, " bytes"));
      std::string other = bytes;
      other.resize(length, ' ');
      WriteText(path, other);
      EXPECT_FALSE(ProblemsOf(directory, 2).empty());
      EXPECT_EQ(Compare(Files(), directory, 2, job).code(), absl::StatusCode::kDataLoss);
    }
    std::filesystem::remove(path);
    EXPECT_FALSE(Compare(Files(), directory, 2, job).ok());
    if (name != ManifestPath(2)) {
      EXPECT_FALSE(ProblemsOf(directory, 2).empty());
    }
    WriteText(path, bytes);
  }
}

absl::optional<uint64_t> NumberOfOneBefore(const std::string& directory, uint64_t number,
                                           absl::string_view damage) {
  const auto manifest = FindOneBefore(Files(), directory, number, damage);
  if (!manifest.has_value()) return absl::nullopt;
  return manifest->number();
}

// Of five checkpoints the first two have files of their own, and the others those of the second.
TEST(DamageTest, WhatIsOfferedInsteadIsNotDamagedByTheSame) {
  const std::string directory = EmptyDirectory("offered");
  TestJob job = MakeTestJob();
  EXPECT_TRUE(WriteTestCheckpoint(Files(), directory, job).ok());
  for (const uint64_t base : {0, 2, 2, 2}) {
    ++job.step;
    EXPECT_TRUE(WriteTestCheckpoint(Files(), directory, job, base).ok());
  }
  EXPECT_EQ(NumberOfOneBefore(directory, 5, "000005/shard-00001.json: damaged"), 4);
  const std::string values = JoinPath(directory, ShardValuesPath(2, 1));
  EXPECT_EQ(NumberOfOneBefore(directory, 5, values + ": damaged: bytes 500 to 516"), 1);
  WriteText(JoinPath(directory, ShardRecordPath(4, 1)), "");
  EXPECT_EQ(NumberOfOneBefore(directory, 5, "000005/shard-00001.json: damaged"), 3);
  WriteText(values, "");
  const absl::Status status = Compare(Files(), directory, 0, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(NumberOfOneBefore(directory, 5, std::string(status.message())), 1);
  EXPECT_EQ(NumberOfOneBefore(directory, 1, std::string(status.message())), absl::nullopt);
  EXPECT_EQ(NumberOfOneBefore(directory + "/not", 5, "all"), absl::nullopt);
}

TEST(DamageTest, EveryDamagedBlockIsTold) {
  const std::string directory = EmptyDirectory("several");
  TestJob job = MakeTestJob();
  job.shards = 1;
  ASSERT_TRUE(WriteTestCheckpoint(Files(), directory, job).ok());
  const std::string name = ShardValuesPath(1, 0);
  std::string bytes = FilesIn(directory)[name];
  bytes[bytes.size() - 1] = '\x7f';   // The slot of "scale".
  bytes[bytes.size() - 8] = '\x7f';   // "scale".
  bytes[bytes.size() - 12] = '\x7f';  // The last element of the slot of "dense/bias".
  WriteText(JoinPath(directory, name), bytes);
  const std::vector<CheckpointProblem> problems = ProblemsOf(directory, 1);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].begin, bytes.size() - 24);
  EXPECT_EQ(problems[0].end, bytes.size() - 8);
  EXPECT_THAT(problems[0].what, HasSubstr("'dense/bias', elements 0 to 4"));
  EXPECT_EQ(problems[1].begin, bytes.size() - 8);
  EXPECT_EQ(problems[2].end, bytes.size());
}

TEST(DamageTest, RandomBitsOfALargerCheckpointAreFound) {
  const uint64_t flips = NumberFromEnvironment("MILLRACE_FLIPS", 300);
  const uint64_t seed = TestSeedOr(20261122);
  std::mt19937_64 random(seed);
  const std::string directory = EmptyDirectory("larger");
  TestJob job = MakeTestJob();
  job.variables[0].shape = {300, 301};
  for (std::vector<float>& array : job.variables[0].arrays) {
    array.resize(300 * 301);
    for (float& element : array) element = static_cast<float>(random() % 1000);
  }
  job.block_elements = 1 << 13;
  ASSERT_TRUE(WriteTestCheckpoint(Files(), directory, job).ok());
  auto files = FilesIn(directory);
  files.erase("latest");
  uint64_t all = 0;
  for (const auto& [name, bytes] : files) all += bytes.size();
  for (uint64_t flip = 0; flip < flips; ++flip) {
    uint64_t at = random() % all;
    auto file = files.begin();
    for (; at >= file->second.size(); ++file) at -= file->second.size();
    SCOPED_TRACE(absl::StrCat("byte ", at, " of ", file->first));
    std::fstream stream(JoinPath(directory, file->first),
                        std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](char byte) {
      stream.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    };
    put(static_cast<char>(file->second[at] ^ 1 << random() % 8));
    ASSERT_NO_FATAL_FAILURE(ExpectFound(directory, 1, job, file->first, at));
    put(file->second[at]);
    if (HasFailure()) return;
  }
}

// With the checksum that the text should have: of somebody who means it.
std::string Sealed(std::string text) {
  constexpr size_t kBegin = sizeof("{\"checksum\":\"") - 1;
  text.replace(kBegin, kChecksumDigits, kChecksumDigits, '0');
  return text.replace(kBegin, kChecksumDigits, Checksum(text));
}

TEST(HostileFilesTest, PathsInAManifestStayInItsDirectory) {
  const std::string directory = EmptyDirectory("hostile_manifest");
  const TestJob job = WriteTwo(directory);
  const std::string path = JoinPath(directory, ManifestPath(2));
  const std::string text = FilesIn(directory)["000002/manifest.json"];
  ASSERT_EQ(Sealed(text), text);
  for (const std::string from : {"000002/shard-00000.json", "000001/shard-00001.safetensors"}) {
    for (const std::string to :
         {"/etc/passwd", "../000002/shard-00000.json", "000002/../../secret", "",
          "000002/shard-00000.json\\u0000", "./000002/shard-00000.json", "000002/manifest.json",
          "000003/shard-00001.safetensors", "000002/shard-00000.txt"}) {
      SCOPED_TRACE(to);
      WriteText(path, Sealed(absl::StrReplaceAll(text, {{from, to}})));
      const absl::Status status = Compare(Files(), directory, 2, job);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("shards["));
      EXPECT_EQ(ProblemsOf(directory, 2).size(), 1u);
    }
  }
}

TEST(HostileFilesTest, RecordsLeadNowhereElse) {
  const std::string directory = EmptyDirectory("hostile_record");
  const TestJob job = WriteTwo(directory);
  auto files = FilesIn(directory);
  const std::string& record = files["000002/shard-00000.json"];
  const auto expect_refused = [&](const std::string& from, const std::string& to) {
    SCOPED_TRACE(from + " -> " + to);
    const std::string other = absl::StrReplaceAll(record, {{from, to}});
    ASSERT_NE(other, record);
    WriteText(JoinPath(directory, "000002/shard-00000.json"), other);
    WriteText(
        JoinPath(directory, ManifestPath(2)),
        Sealed(absl::StrReplaceAll(files["000002/manifest.json"],
                                   {{Checksum(record), Checksum(other)},
                                    {absl::StrCat("\"recordBytes\":\"", record.size(), "\""),
                                     absl::StrCat("\"recordBytes\":\"", other.size(), "\"")}})));
    const absl::Status status = Compare(Files(), directory, 2, job);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_FALSE(ProblemsOf(directory, 2).empty());
  };
  const std::string values = "000001/shard-00000.safetensors";
  for (const std::string to : {"/etc/passwd", "../000001/shard-00000.safetensors", "",
                               "000001/shard-00000.json", "000003/shard-00000.safetensors"}) {
    expect_refused(values, to);
  }
  expect_refused("\"length\":4", "\"length\":400000000");
  expect_refused("\"length\":4", "\"length\":0");
  expect_refused("\"length\":4", "\"length\":5");
  expect_refused("\"offset\":\"4\"", "\"offset\":\"0\"");
  expect_refused("\"offset\":\"4\"", "\"offset\":\"18446744073709551615\"");
  expect_refused("\"begin\":\"4\"", "\"begin\":\"18446744073709551615\"");
  expect_refused("\"begin\":\"4\"", "\"begin\":\"40\"");
  expect_refused("\"variable\":\"dense/kernel\"", "\"variable\":\"other\"");
  expect_refused("\"tensor\":\"dense/kernel[0:10]\"", "\"tensor\":\"other\"");
  expect_refused("\"headerBytes\":\"", "\"headerBytes\":\"9");
  expect_refused("\"checksum\":\"", "\"checksum\":\"0");
  expect_refused("{", "[");
  expect_refused("\"formatVersion\":1", "\"formatVersion\":1,\"shard\":1");
  expect_refused("\"jobId\":\"j1\"", "\"jobId\":\"j2\"");
}

// Whoever opened the one waited for ever; the other one was followed.
TEST(HostileFilesTest, PipesAndLinksAreNoFiles) {
  const std::string directory = EmptyDirectory("links");
  const TestJob job = WriteTwo(directory);
  const std::string elsewhere = EmptyDirectory("elsewhere");
  for (const std::string name :
       {"000002/manifest.json", "000002/shard-00000.json", "000001/shard-00000.safetensors"}) {
    const std::string path = JoinPath(directory, name);
    const std::string moved = elsewhere + "/moved";
    std::filesystem::rename(path, moved);
    for (const bool link : {false, true}) {
      SCOPED_TRACE(absl::StrCat(name, link ? " is a link" : " is a pipe"));
      if (link) {
        std::filesystem::create_symlink(moved, path);
      } else {
        ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
      }
      const absl::Status status = Compare(Files(), directory, 2, job);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("no regular file"));
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
      EXPECT_EQ(ProblemsOf(directory, 2).size(), 1u);
      std::filesystem::remove(path);
    }
    std::filesystem::rename(moved, path);
  }
  const std::string folder = JoinPath(directory, "000001");
  std::filesystem::rename(folder, elsewhere + "/folder");
  std::filesystem::create_directory_symlink(elsewhere + "/folder", folder);
  EXPECT_THAT(std::string(Compare(Files(), directory, 2, job).message()),
              HasSubstr("000001: damaged: it is a symbolic link"));
}

// Whoever writes such files makes the checksums right as well.
class AgreementTest : public ::testing::Test {
 protected:
  AgreementTest() : directory_(EmptyDirectory("agreement")), job_(WriteTwo(directory_)) {
    const auto files = FilesIn(directory_);
    manifest_ = ParseManifest("manifest", files.at("000002/manifest.json")).value();
    record_ = ParseShardRecord("record", files.at("000002/shard-00000.json"), 2).value();
  }

  void ExpectRefused(const std::string& file, const std::string& field) {
    const absl::Status status = Compare(Files(), directory_, 2, job_);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(directory_, "/", file, ": ", field)));
    EXPECT_EQ(ProblemsOf(directory_, 2).size(), 1u);
  }

  // The message names the field of the manifest.
  void ExpectManifestRefused(const std::string& field,
                             const std::function<void(CheckpointManifest*)>& change) {
    SCOPED_TRACE(field);
    CheckpointManifest manifest = manifest_;
    change(&manifest);
    Write(manifest);
    ExpectRefused("000002/manifest.json", field);
  }

  // The message names the field of the record of shard 0.
  void ExpectDisagreement(
      const std::string& field,
      const std::function<void(CheckpointShard* in_manifest, ShardRecord* record)>& change) {
    SCOPED_TRACE(field);
    CheckpointManifest manifest = manifest_;
    ShardRecord record = record_;
    CheckpointShard* const shard = manifest.mutable_shards(0);
    change(shard, &record);
    const std::string text = JsonOf(record);
    WriteText(JoinPath(directory_, "000002/shard-00000.json"), text);
    shard->set_record_bytes(text.size());
    shard->set_record_checksum(Checksum(text));
    Write(manifest);
    ExpectRefused("000002/shard-00000.json", field);
  }

  const std::string directory_;
  const TestJob job_;
  CheckpointManifest manifest_;
  ShardRecord record_;

 private:
  static std::string JsonOf(const google::protobuf::Message& message) {
    std::string json;
    EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &json).ok());
    return json;
  }

  void Write(const CheckpointManifest& manifest) {
    WriteText(JoinPath(directory_, ManifestPath(2)), Sealed(JsonOf(manifest)));
  }
};

// A version or an epoch that has no next one, and a step after which there is none.
TEST_F(AgreementTest, NumbersThatNothingCanFollowAreRefused) {
  constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
  ExpectManifestRefused("shards[0].epoch", [](CheckpointManifest* manifest) {
    manifest->mutable_shards(0)->set_epoch(uint64_t{1} << 32);
  });
  ExpectManifestRefused("shards[0].version", [](CheckpointManifest* manifest) {
    manifest->mutable_shards(0)->set_version(kLast);
  });
  ExpectManifestRefused("shards[0].applied", [](CheckpointManifest* manifest) {
    manifest->mutable_shards(0)->mutable_applied()->add_above(kLast);
  });
  ExpectManifestRefused("shards[0].applied.watermark", [](CheckpointManifest* manifest) {
    manifest->mutable_shards(0)->mutable_applied()->set_watermark(kLast);
  });
  ExpectManifestRefused("step", [](CheckpointManifest* manifest) { manifest->set_step(kLast); });
}

TEST_F(AgreementTest, StepsOfAManifestThatCannotBeAreRefused) {
  ExpectManifestRefused("step: 2; shards[0].applied.watermark is 1",
                        [](CheckpointManifest* manifest) { manifest->set_step(2); });
  ExpectManifestRefused("step: 3; must be at most 2", [](CheckpointManifest* manifest) {
    manifest->set_total_steps(2);
    manifest->set_step(3);
  });
  ExpectManifestRefused("exact: true; but shards[1].applied has", [](CheckpointManifest* manifest) {
    manifest->mutable_shards(1)->mutable_applied()->add_above(7);
  });
  ExpectManifestRefused("exact: true; but shards[0].applied has",
                        [](CheckpointManifest* manifest) { manifest->set_step(0); });
  ExpectManifestRefused("slots: 'momentum' is there twice",
                        [](CheckpointManifest* manifest) { manifest->add_slots("momentum"); });
}

// Who removes checkpoints looks at the manifests only.
TEST_F(AgreementTest, ARecordThatSaysOtherThingsThanTheManifestIsRefused) {
  ExpectDisagreement("files.path: '000001/shard-00000.safetensors'; the manifest's shards[0].files",
                     [](CheckpointShard* shard, ShardRecord*) { shard->clear_files(); });
  ExpectDisagreement("files: no '000001/shard-00007.safetensors'",
                     [](CheckpointShard* shard, ShardRecord*) {
                       shard->add_files("000001/shard-00007.safetensors");
                     });
  ExpectDisagreement("blocks: they have 80 bytes; the manifest says 81 in shards[0].bytes",
                     [](CheckpointShard* shard, ShardRecord*) { shard->set_bytes(81); });
  ExpectDisagreement("version: 2; the manifest says 1",
                     [](CheckpointShard*, ShardRecord* record) { record->set_version(2); });
  ExpectDisagreement("epoch: 2; the manifest says 1",
                     [](CheckpointShard*, ShardRecord* record) { record->set_epoch(2); });
  ExpectDisagreement("applied: other steps", [](CheckpointShard*, ShardRecord* record) {
    record->mutable_applied()->add_above(5);
  });
  ExpectDisagreement("shard: 1; the manifest says 0",
                     [](CheckpointShard*, ShardRecord* record) { record->set_shard(1); });
  ExpectDisagreement("job_id: 'j2'; the manifest says 'j1'",
                     [](CheckpointShard*, ShardRecord* record) { record->set_job_id("j2"); });
}

// The paths of its records were once named, which are of the folder's number.
TEST(HostileFilesTest, AManifestOfAnotherNumberIsRefusedForThat) {
  const std::string directory = EmptyDirectory("renumbered");
  const TestJob job = WriteTwo(directory);
  const std::string text = FilesIn(directory)["000002/manifest.json"];
  WriteText(JoinPath(directory, ManifestPath(2)),
            Sealed(absl::StrReplaceAll(text, {{"\"number\":\"2\"", "\"number\":\"3\""}})));
  EXPECT_THAT(std::string(Compare(Files(), directory, 2, job).message()),
              HasSubstr("000002/manifest.json: number: 3; the folder says 2"));
}

TEST(HostileFilesTest, ANewerFormatIsRefusedAndSaidToBe) {
  const std::string directory = EmptyDirectory("newer");
  const TestJob job = WriteTwo(directory);
  const std::string text = FilesIn(directory)["000002/manifest.json"];
  WriteText(JoinPath(directory, ManifestPath(2)),
            Sealed(absl::StrReplaceAll(text, {{"\"formatVersion\":1", "\"formatVersion\":2"}})));
  const absl::Status status = Compare(Files(), directory, 2, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format_version 2"));
}

// The labels of data were one message once, and are a list.
TEST_F(AgreementTest, ALabelThatIsNoListIsOneOfOne) {
  CheckpointManifest manifest = manifest_;
  manifest.mutable_spec()->mutable_data()->mutable_train()->mutable_numpy()->add_label()->set_name(
      "digit");
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(manifest, &json).ok());
  const std::string older =
      absl::StrReplaceAll(json, {{R"([{"name":"digit"}])", R"({"name":"digit"})"}});
  ASSERT_LT(older.size(), json.size());
  const auto parsed = ParseManifest("manifest", Sealed(older));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto& arrays = parsed->spec().data().train().numpy();
  ASSERT_EQ(arrays.label_size(), 1);
  EXPECT_EQ(arrays.label(0).name(), "digit");
}

TEST(HostileFilesTest, WhatNewerProgramsAddIsLeftOut) {
  const std::string directory = EmptyDirectory("added");
  const TestJob job = WriteTwo(directory);
  const std::string text = FilesIn(directory)["000002/manifest.json"];
  WriteText(JoinPath(directory, ManifestPath(2)),
            Sealed(text.substr(0, text.size() - 1) + ",\"fromTheFuture\":{\"a\":[1,2]}}"));
  EXPECT_EQ(Compare(Files(), directory, 2, job), absl::OkStatus());
}

#ifdef MILLRACE_SANITIZER
constexpr int kFuzzRounds = 1'000;
#else
constexpr int kFuzzRounds = 10'000;
#endif

// Text with a few changes of the kinds that break parsers.
class TextFuzzer {
 public:
  explicit TextFuzzer(uint64_t seed) : random_(seed) {}

  size_t Below(size_t bound) { return random_() % bound; }

  std::string Damaged(std::string text) {
    static constexpr const char* kTelling[] = {
        "\"",   "{",    "}",          "[",     "]",
        ",",    ":",    "-1",         "1e999", "18446744073709551616",
        "null", "true", "\\u0000",    "\xff",  "NaN",
        "../",  "0",    "9999999999", "\\"};
    for (size_t i = 1 + Below(3); i > 0; --i) {
      const size_t at = Below(text.size() + 1);
      switch (Below(5)) {
        case 0:
          text.resize(at);
          break;
        case 1:
          text.insert(at, kTelling[Below(std::size(kTelling))]);
          break;
        case 2:
          text.erase(at, 1 + Below(20));
          break;
        case 3:
          text.insert(at, text.substr(Below(text.size() + 1), Below(60)));
          break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << Below(8));
      }
    }
    return text;
  }

 private:
  std::mt19937_64 random_;
};

// Whatever the text, it is refused, or all that it says can be relied on.
TEST(HostileFilesTest, DamagedTextIsRefusedOrMakesSense) {
  const uint64_t seed = TestSeedOr(20261122);
  const google::protobuf::LogSilencer silencer;
  const std::string directory = EmptyDirectory("fuzz");
  WriteTwo(directory);
  auto files = FilesIn(directory);
  TextFuzzer fuzzer(seed);
  int good = 0;
  for (int round = 0; round < kFuzzRounds; ++round) {
    SCOPED_TRACE(round);
    std::string text = fuzzer.Damaged(files["000002/manifest.json"]);
    if (text.size() > 50) text = Sealed(text);
    auto manifest = ParseManifest("manifest", text);
    if (manifest.ok()) {
      ++good;
      const absl::Status encoded = EncodeManifest(&*manifest).status();
      ASSERT_TRUE(encoded.ok()) << encoded;
    } else {
      ASSERT_THAT(
          manifest.status().code(),
          ::testing::AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition));
    }
    const auto record =
        ParseShardRecord("record", fuzzer.Damaged(files["000002/shard-00000.json"]), 2);
    if (!record.ok()) continue;
    ++good;
    for (const ValueFile& file : record->files()) {
      ASSERT_TRUE(ParseShardFile(file.path()).has_value());
    }
    for (const StoredBlock& block : record->blocks()) {
      ASSERT_EQ(block.arrays_size(), 2);
      ASSERT_LT(block.arrays(1).file(), static_cast<uint32_t>(record->files_size()));
    }
  }
  EXPECT_GT(good, kFuzzRounds / 50);
  EXPECT_LT(good, 2 * kFuzzRounds - kFuzzRounds / 50);
}

TEST(HostileFilesTest, TextThatNestsDeeplyIsRefused) {
  const std::string deep =
      "{\"checksum\":\"" + std::string(32, '0') + "\",\"spec\":" + std::string(1'000'000, '[');
  EXPECT_EQ(ParseManifest("m", Sealed(deep)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ParseShardRecord("r", std::string(1'000'000, '['), 1).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace
