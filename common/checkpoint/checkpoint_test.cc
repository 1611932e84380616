#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/checkpoint_records.h"
#include "common/checkpoint/checkpoint_test_util.h"
#include "common/checkpoint/checksum.h"
#include "common/checkpoint/shard_writer.h"
#include "common/safetensors/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::millrace::testing::Compare;
using ::millrace::testing::EmptyDirectory;
using ::millrace::testing::Files;
using ::millrace::testing::FilesIn;
using ::millrace::testing::ImageOf;
using ::millrace::testing::MakeTestJob;
using ::millrace::testing::TestJob;
using ::millrace::testing::TestSource;
using ::millrace::testing::TrainTestJob;
using ::millrace::testing::WriteShards;
using ::millrace::testing::WriteTestCheckpoint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

std::vector<std::string> NamesOfFilesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : FilesIn(directory)) names.push_back(name);
  return names;
}

std::vector<uint64_t> Numbers(const std::string& directory) {
  const auto listed = CheckpointDirectory(Files(), directory).List();
  std::vector<uint64_t> numbers;
  for (const auto& one : *listed) numbers.push_back(one.number);
  return numbers;
}

// Writes one, and expects that it is the job.
uint64_t Write(const std::string& directory, const TestJob& job, uint64_t base = 0) {
  const auto number = WriteTestCheckpoint(Files(), directory, job, base);
  EXPECT_TRUE(number.ok()) << number.status();
  if (!number.ok()) return 0;
  EXPECT_EQ(Compare(Files(), directory, *number, job), absl::OkStatus());
  return *number;
}

ShardRecord RecordOf(const std::string& directory, uint64_t number, uint32_t shard) {
  const auto manifest = ReadManifest(Files(), directory, number);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  const auto record = ReadShardRecord(Files(), directory, *manifest, shard);
  EXPECT_TRUE(record.ok()) << record.status();
  return *record;
}

// Checked with Python: xxhash.xxh3_128_hexdigest(b"millrace").
TEST(ChecksumTest, IsThatOfOtherPrograms) {
  EXPECT_EQ(Checksum("millrace"), "164a3e261dc69aaa8150a1435f1760b2");
  EXPECT_EQ(Checksum(""), "99aa06d3014798d86001c324468d497f");
}

TEST(CheckpointPathsTest, NamesAreParsedStrictly) {
  EXPECT_EQ(CheckpointFolder(17), "000017");
  EXPECT_EQ(CheckpointFolder(1234567), "1234567");
  EXPECT_EQ(ParseCheckpointFolder("000017"), uint64_t{17});
  EXPECT_EQ(ParseCheckpointFolder("1234567"), uint64_t{1234567});
  for (const char* name : {"", "17", "0000017", "000000", "00001a", "-00017", "+00017", " 00017",
                           "000017.tmp-1", "99999999999999999999"}) {
    EXPECT_EQ(ParseCheckpointFolder(name), absl::nullopt) << name;
  }
  const auto file = ParseShardFile("000017/shard-00003.safetensors");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->checkpoint, 17u);
  EXPECT_EQ(file->shard, 3u);
  EXPECT_FALSE(file->is_record);
  EXPECT_TRUE(ParseShardFile(ShardRecordPath(1234567, 123456))->is_record);
  for (const char* path :
       {"", "/", "000017/", "000017/manifest.json", "/000017/shard-00003.json",
        "../000017/shard-00003.json", "000017/../000016/shard-00003.json",
        "000017//shard-00003.json", "000017/shard-00003", "000017/shard-3.json",
        "000017/shard-000003.json", "000017/shard-00003.json/", "000017/shard-99999999999.json",
        "000017/shard-00003.json.safetensors", "x/shard-00003.json"}) {
    EXPECT_FALSE(ParseShardFile(path).has_value()) << path;
  }
  EXPECT_FALSE(ParseShardFile(absl::string_view("000017/shard-00003.json\0", 24)).has_value());
}

TEST(CheckpointPathsTest, UsersNameADirectoryOrOneOfItsCheckpoints) {
  const auto parse = [](absl::string_view path) {
    const auto name = ParseCheckpointName(path);
    EXPECT_TRUE(name.ok()) << name.status();
    return absl::StrCat(name->directory, " ", name->number);
  };
  EXPECT_EQ(parse("/data/run"), "/data/run 0");
  EXPECT_EQ(parse("/data/run/"), "/data/run 0");
  EXPECT_EQ(parse("/data/run/latest"), "/data/run 0");
  EXPECT_EQ(parse("/data/run/000017/"), "/data/run 17");
  EXPECT_EQ(parse("000017"), ". 17");
  EXPECT_EQ(parse("/000017"), "/ 17");
  EXPECT_EQ(parse("/"), "/ 0");
  EXPECT_FALSE(ParseCheckpointName("").ok());
}

TEST(CheckpointTest, ReadsBackWhatWasWrittenWhateverTheShards) {
  for (const uint32_t shards : {1, 2, 3, 20}) {
    for (const uint32_t block_elements : {1, 4, 100}) {
      SCOPED_TRACE(absl::StrCat(shards, " shards, blocks of ", block_elements));
      const std::string directory = EmptyDirectory("round_trip");
      TestJob job = MakeTestJob();
      job.shards = shards;
      job.block_elements = block_elements;
      EXPECT_EQ(Write(directory, job), 1u);
      TrainTestJob(&job);
      EXPECT_EQ(Write(directory, job, 1), 2u);
    }
  }
}

TEST(CheckpointTest, ReadsAnyRange) {
  const std::string directory = EmptyDirectory("ranges");
  const TestJob job = MakeTestJob();
  Write(directory, job);
  const auto checkpoint = Checkpoint::Open(Files(), directory, 0);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->arrays(), 2);
  const std::vector<float>& kernel = job.variables[0].arrays[1];
  for (size_t begin = 0; begin <= kernel.size(); ++begin) {
    for (size_t end = begin; end <= kernel.size(); ++end) {
      std::vector<float> values(end - begin);
      ASSERT_TRUE((*checkpoint)->Read(0, 1, begin, absl::MakeSpan(values)).ok());
      EXPECT_TRUE(std::equal(values.begin(), values.end(), kernel.begin() + begin));
    }
  }
  std::vector<float> values(2);
  EXPECT_EQ((*checkpoint)->Read(0, 0, 14, absl::MakeSpan(values)).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*checkpoint)->Read(0, 0, UINT64_MAX, absl::MakeSpan(values)).code(),
            absl::StatusCode::kOutOfRange);
}

TEST(CheckpointTest, ShardsOfARangeAreThoseThatHaveIt) {
  const std::string directory = EmptyDirectory("shards_of");
  Write(directory, MakeTestJob());  // Of 20 elements, 10 are in each shard.
  const auto checkpoint = Checkpoint::Open(Files(), directory, 0);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(*(*checkpoint)->ShardsOf(0, 0, 10), ElementsAre(0));
  EXPECT_THAT(*(*checkpoint)->ShardsOf(0, 9, 2), ElementsAre(0, 1));
  EXPECT_THAT(*(*checkpoint)->ShardsOf(0, 10, 5), ElementsAre(1));
  EXPECT_THAT(*(*checkpoint)->ShardsOf(1, 0, 4), ElementsAre(1));
  EXPECT_THAT(*(*checkpoint)->ShardsOf(0, 15, 0), IsEmpty());
  EXPECT_FALSE((*checkpoint)->ShardsOf(0, 15, 1).ok());
}

// Values under readable names, in files that other programs read.
TEST(CheckpointTest, TensorsAreNamedAsTheirVariables) {
  const std::string directory = EmptyDirectory("names");
  Write(directory, MakeTestJob());
  std::vector<std::string> names;
  for (const uint32_t shard : {0, 1}) {
    const auto file =
        SafetensorsReader::Open(Files(), JoinPath(directory, ShardValuesPath(1, shard)));
    ASSERT_TRUE(file.ok()) << file.status();
    for (const SafetensorsEntry& tensor : file->header().tensors) names.push_back(tensor.name);
  }
  // The scalar's shape is not known to the writer: a scalar has none.
  EXPECT_THAT(
      names, ElementsAre("dense/kernel[0:10]", "dense/kernel[0:10]@momentum", "dense/kernel[10:15]",
                         "dense/kernel[10:15]@momentum", "dense/bias", "dense/bias@momentum",
                         "scale[0:1]", "scale[0:1]@momentum"));
}

TEST(CheckpointTest, TensorsWhoseNamesWouldMeetHaveOthers) {
  const std::string directory = EmptyDirectory("meeting_names");
  TestJob job = MakeTestJob();
  job.shards = 1;
  job.variables[0].name = "dense/bias@momentum";
  job.variables[2].name = "dense/bias@momentum@momentum";
  Write(directory, job);
}

TEST(IncrementalTest, WhatHasNotChangedIsReferredTo) {
  const std::string directory = EmptyDirectory("incremental");
  TestJob job = MakeTestJob();
  Write(directory, job);
  job.variables[0].arrays[1][5] = -1;  // In the second block of shard 0.
  Write(directory, job, 1);
  const ShardRecord record = RecordOf(directory, 2, 0);
  ASSERT_EQ(record.files_size(), 2);
  EXPECT_EQ(record.files(0).path(), "000002/shard-00000.safetensors");
  EXPECT_EQ(record.files(1).path(), "000001/shard-00000.safetensors");
  for (int block = 0; block < record.blocks_size(); ++block) {
    for (int array = 0; array < 2; ++array) {
      const bool changed = block == 1 && array == 1;
      EXPECT_EQ(record.blocks(block).arrays(array).file(), changed ? 0u : 1u)
          << block << " " << array;
    }
  }
  EXPECT_EQ(record.blocks(1).arrays(1).tensor(), "dense/kernel[4:8]@momentum");
  // Of the other shard nothing is new.
  EXPECT_FALSE(fs::exists(JoinPath(directory, ShardValuesPath(2, 1))));
  const auto manifest = ReadManifest(Files(), directory, 2);
  EXPECT_THAT(manifest->shards(1).files(), ElementsAre("000001/shard-00001.safetensors"));
  EXPECT_EQ(manifest->shards(1).bytes(), 80u);
}

TEST(IncrementalTest, AFileOfWhichLessThanHalfIsNeededIsReferredToNoMore) {
  const std::string directory = EmptyDirectory("space");
  TestJob job = MakeTestJob();
  job.shards = 1;
  job.block_elements = 1;
  Write(directory, job);  // 20 elements, and as many of the slot.
  for (int i = 0; i < 5; ++i) job.variables[0].arrays[0][i] += 1;
  Write(directory, job, 1);
  for (int i = 0; i < 15; ++i) job.variables[0].arrays[1][i] += 1;
  Write(directory, job, 2);  // Half of the first file is needed: just enough.
  EXPECT_EQ(RecordOf(directory, 3, 0).files_size(), 3);
  job.variables[1].arrays[0][0] += 1;
  Write(directory, job, 3);
  const ShardRecord record = RecordOf(directory, 4, 0);
  for (const ValueFile& file : record.files()) {
    EXPECT_NE(file.path(), "000001/shard-00000.safetensors");
  }
}

TEST(IncrementalTest, SpaceIsAtMostTwiceTheValuesHoweverManyThereWere) {
  const std::string directory = EmptyDirectory("bounded_space");
  TestJob job = MakeTestJob();
  job.block_elements = 1;
  CheckpointDirectory checkpoints(Files(), directory);
  uint64_t base = 0;
  for (int round = 0; round < 40; ++round) {
    job.variables[0].arrays[round % 2][static_cast<size_t>(round) % 15] += 1;
    ++job.step;
    const uint64_t number = Write(directory, job, base);
    if (base != 0) {
      ASSERT_EQ(checkpoints.Remove(base), absl::OkStatus());
    }
    base = number;
    EXPECT_EQ(Compare(Files(), directory, number, job), absl::OkStatus());
    uint64_t values = 0;
    for (const auto& [name, bytes] : FilesIn(directory)) {
      if (!absl::EndsWith(name, ".safetensors")) continue;
      const auto file = SafetensorsReader::Open(Files(), JoinPath(directory, name));
      values += file->header().value_bytes();
    }
    EXPECT_LE(values, 2 * 40 * sizeof(float));
  }
}

TEST(IncrementalTest, ABaseThatCannotBeReadIsNoBase) {
  const std::string directory = EmptyDirectory("bad_base");
  const TestJob job = MakeTestJob();
  Write(directory, job);
  Write(directory, job, 1);
  std::ofstream(JoinPath(directory, ShardRecordPath(2, 0))) << "{}";
  fs::remove(JoinPath(directory, ManifestPath(1)));  // Its values stay.
  EXPECT_EQ(Write(directory, job, 1), 3u);
  EXPECT_EQ(Write(directory, job, 2), 4u);
  EXPECT_EQ(RecordOf(directory, 3, 1).files(0).path(), "000003/shard-00001.safetensors");
  EXPECT_EQ(Write(directory, job, 17), 5u);
}

TEST(IncrementalTest, AFileThatHasGoneIsNotReferredTo) {
  const std::string directory = EmptyDirectory("gone_base");
  const TestJob job = MakeTestJob();
  Write(directory, job);
  fs::remove(JoinPath(directory, ShardValuesPath(1, 0)));
  EXPECT_EQ(Write(directory, job, 1), 2u);
}

TEST(IncrementalTest, AFileWhoseHeaderIsDamagedIsNotReferredTo) {
  const std::string directory = EmptyDirectory("damaged_base");
  const TestJob job = MakeTestJob();
  Write(directory, job);
  const std::string path = JoinPath(directory, ShardValuesPath(1, 0));
  std::string bytes = FilesIn(directory)[ShardValuesPath(1, 0)];
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(Write(directory, job, 1), 2u);
  EXPECT_EQ(RecordOf(directory, 2, 0).files(0).path(), "000002/shard-00000.safetensors");
  EXPECT_EQ(RecordOf(directory, 2, 1).files(0).path(), "000001/shard-00001.safetensors");
}

ShardWriteOptions OptionsFor(const std::string& directory, uint64_t number) {
  ShardWriteOptions options;
  options.file_system = Files();
  options.directory = directory;
  options.number = number;
  return options;
}

TEST(ShardWriterTest, WhatTheSourceSaysIsCompared) {
  const std::string directory = EmptyDirectory("known");
  fs::create_directory(JoinPath(directory, "000001"));
  const TestJob job = MakeTestJob();
  TestSource source(&job, 0);
  source.known = Checksum("something else");
  EXPECT_EQ(WriteShard(OptionsFor(directory, 1), ImageOf(job, 0), &source).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(FilesIn(directory), IsEmpty());
}

TEST(ShardWriterTest, TheHookEndsItAndNothingStays) {
  const std::string directory = EmptyDirectory("hook");
  fs::create_directory(JoinPath(directory, "000001"));
  const TestJob job = MakeTestJob();
  uint64_t all = 0;
  ShardWriteOptions options = OptionsFor(directory, 1);
  options.before_write = [&](uint64_t bytes) {
    all += bytes;
    return absl::OkStatus();
  };
  TestSource source(&job, 0);
  const auto written = WriteShard(options, ImageOf(job, 0), &source);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(all, written->bytes_written());
  for (uint64_t limit = 0; limit < all; limit += 7) {
    const std::string other = EmptyDirectory("hook_ends");
    fs::create_directory(JoinPath(other, "000001"));
    options.directory = other;
    uint64_t so_far = 0;
    options.before_write = [&](uint64_t bytes) {
      so_far += bytes;
      return so_far > limit ? absl::CancelledError("enough") : absl::OkStatus();
    };
    EXPECT_EQ(WriteShard(options, ImageOf(job, 0), &source).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_THAT(FilesIn(other), IsEmpty());
  }
}

TEST(ShardWriterTest, FilesThatAreThereAreNotTouched) {
  const std::string directory = EmptyDirectory("there");
  const TestJob job = MakeTestJob();
  TestSource source(&job, 0);
  EXPECT_EQ(WriteShard(OptionsFor(directory, 1), ImageOf(job, 0), &source).status().code(),
            absl::StatusCode::kNotFound);
  Write(directory, job);
  const auto before = FilesIn(directory);
  EXPECT_EQ(WriteShard(OptionsFor(directory, 1), ImageOf(job, 0), &source).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(FilesIn(directory), before);
}

TEST(ShardWriterTest, ImpossibleImagesAreRefused) {
  const std::string directory = EmptyDirectory("impossible");
  fs::create_directory(JoinPath(directory, "000001"));
  const TestJob job = MakeTestJob();
  const ShardImage good = ImageOf(job, 0);
  std::vector<ShardImage> images(5, good);
  images[0].blocks[0].elements = 0;
  images[1].blocks[0].elements = kMaxBlockElements + 1;
  images[2].blocks[1].offset += 1;
  images[3].blocks[0].slice = 1;
  images[4].blocks[0].elements -= 1;  // The source gives more than that.
  images[4].blocks[1].offset -= 1;
  TestSource source(&job, 0);
  for (const ShardImage& image : images) {
    EXPECT_EQ(WriteShard(OptionsFor(directory, 1), image, &source).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(FilesIn(directory), IsEmpty());
}

TEST(CheckpointDirectoryTest, NumbersGrowAndLatestNamesTheNewest) {
  const std::string directory = EmptyDirectory("numbers") + "/run";
  const FileSystemPtr file_system = Files();
  CheckpointDirectory checkpoints(file_system, directory + "/");
  EXPECT_EQ(checkpoints.path(), directory);
  EXPECT_EQ(checkpoints.List().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(checkpoints.Newest().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*checkpoints.Begin(), 1u);  // Makes the directory.
  EXPECT_EQ(*checkpoints.Begin(), 2u);
  EXPECT_EQ(*checkpoints.Begin(/*at_least=*/17), 17u);
  EXPECT_EQ(checkpoints.Newest().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Numbers(directory), IsEmpty());
  const TestJob job = MakeTestJob();
  auto manifest = WriteShards(file_system, directory, 17, job, 0);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(checkpoints.Commit(&*manifest), absl::OkStatus());
  EXPECT_EQ(checkpoints.Commit(&*manifest).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*checkpoints.Newest(), 17u);
  EXPECT_EQ(FilesIn(directory)["latest"], "000017\n");
  EXPECT_EQ(Write(directory, job), 18u);
  EXPECT_THAT(Numbers(directory), ElementsAre(17, 18));
  EXPECT_EQ(FilesIn(directory)["latest"], "000018\n");
  EXPECT_EQ(checkpoints.Remove(18), absl::OkStatus());
  EXPECT_EQ(FilesIn(directory)["latest"], "000017\n");
  EXPECT_EQ(checkpoints.Remove(18).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(checkpoints.Remove(17), absl::OkStatus());
  EXPECT_THAT(FilesIn(directory), IsEmpty());
}

// Whoever still writes to one that was given up must not meet the one after.
TEST(CheckpointDirectoryTest, NoNumberIsGivenTwice) {
  const std::string directory = EmptyDirectory("once") + "/run";
  CheckpointDirectory checkpoints(Files(), directory);
  EXPECT_EQ(*checkpoints.Begin(), 1u);
  ASSERT_TRUE(checkpoints.CollectGarbage(0).ok());
  EXPECT_EQ(*checkpoints.Begin(), 2u);
  EXPECT_EQ(checkpoints.CleanFolder(2), absl::OkStatus());
  EXPECT_EQ(*checkpoints.Begin(), 3u);
  EXPECT_EQ(checkpoints.CleanFolder(2), absl::OkStatus());
  EXPECT_FALSE(fs::exists(JoinPath(directory, "000002")));
  ASSERT_TRUE(checkpoints.CollectGarbage(0).ok());
  EXPECT_FALSE(fs::exists(JoinPath(directory, "000001")));
  EXPECT_TRUE(fs::exists(JoinPath(directory, "000003")));
  const uint64_t number = Write(directory, MakeTestJob());
  EXPECT_EQ(checkpoints.Remove(number), absl::OkStatus());
  EXPECT_EQ(*checkpoints.Begin(), number + 1);
}

TEST(CheckpointDirectoryTest, TheOwnerStaysUntilThereIsAnother) {
  const std::string directory = EmptyDirectory("owned") + "/run";
  CheckpointDirectory checkpoints(Files(), directory);
  EXPECT_EQ(*checkpoints.Owner(), "");
  EXPECT_EQ(checkpoints.SetOwner("j-1"), absl::OkStatus());  // Makes the directory.
  EXPECT_EQ(*checkpoints.Owner(), "j-1");
  EXPECT_EQ(checkpoints.SetOwner("j-2"), absl::OkStatus());
  std::ofstream(JoinPath(directory, "owner.tmp-0011223344556677")) << "j-3";
  ASSERT_TRUE(checkpoints.CollectGarbage(0).ok());
  EXPECT_EQ(*checkpoints.Owner(), "j-2");
  EXPECT_THAT(NamesOfFilesIn(directory), ElementsAre("owner"));
}

TEST(CheckpointPathsTest, ADirectoryHasOneNormalPath) {
  for (const char* path : {"/runs/1", "/runs//1", "/runs/1/", "//runs/./1//", "/runs/2/../1"}) {
    EXPECT_EQ(NormalDirectory(path), "/runs/1") << path;
  }
  EXPECT_EQ(NormalDirectory("/"), "/");
  EXPECT_EQ(NormalDirectory(""), "");
}

TEST(CheckpointDirectoryTest, ADirectoryWhoseParentIsNotThereIsNotMade) {
  CheckpointDirectory checkpoints(Files(), EmptyDirectory("unmounted") + "/not/there");
  const auto number = checkpoints.Begin();
  EXPECT_EQ(number.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(number.status().message()), HasSubstr("unmounted/not is not there"));
}

TEST(CheckpointDirectoryTest, WhereNoneCanBeIsToldBeforehand) {
  const std::string folder = EmptyDirectory("place");
  const auto check = [&](const std::string& path) {
    return CheckpointDirectory(RealFileSystem(), path).CheckPlace();
  };
  EXPECT_TRUE(check(folder).ok());
  EXPECT_TRUE(check(folder + "/new").ok());
  EXPECT_FALSE(std::filesystem::exists(folder + "/new"));
  const absl::Status orphan = check(folder + "/not/there");
  EXPECT_EQ(orphan.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(orphan.message()), HasSubstr("/not is not there; make it, or mount it"));
  std::ofstream(folder + "/file") << "x";
  EXPECT_EQ(check(folder + "/file").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check(folder + "/file/below").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check("/dev/null").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check("/proc/checkpoints").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(check(folder + "/" + std::string(300, 'x')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check("/" + std::string(4000, '/') + "x").code(), absl::StatusCode::kInvalidArgument);
}

// They were told as if they would pass.
TEST(CheckpointDirectoryTest, WhereNothingCanBeThereIsNoCheckpoint) {
  const std::string folder = EmptyDirectory("place");
  std::ofstream(folder + "/file") << "x";
  for (const std::string& path : {folder + "/file", folder + "/" + std::string(300, 'x')}) {
    EXPECT_EQ(CheckpointDirectory(RealFileSystem(), path).Newest().status().code(),
              absl::StatusCode::kNotFound);
    EXPECT_EQ(Checkpoint::Open(RealFileSystem(), path, 5).status().code(),
              absl::StatusCode::kNotFound);
  }
  std::filesystem::create_directory(folder + "/000052");
  const auto inside = CheckpointDirectory(RealFileSystem(), folder + "/000052").Newest();
  EXPECT_THAT(std::string(inside.status().message()),
              HasSubstr("name its directory, " + folder + ", and the checkpoint's number, 52"));
}

TEST(CheckpointDirectoryTest, ACheckpointWhoseFilesHaveGoneIsNotCommitted) {
  const std::string directory = EmptyDirectory("commit_gone");
  const TestJob job = MakeTestJob();
  Write(directory, job);
  CheckpointDirectory checkpoints(Files(), directory);
  const uint64_t number = *checkpoints.Begin();
  auto manifest = WriteShards(Files(), directory, number, job, /*base=*/1);
  ASSERT_TRUE(manifest.ok());
  ASSERT_EQ(checkpoints.Remove(1), absl::OkStatus());
  const absl::Status status = checkpoints.Commit(&*manifest);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("000001/shard-00000.safetensors has gone"));
  EXPECT_THAT(Numbers(directory), IsEmpty());
}

TEST(CheckpointDirectoryTest, NothingGoesThatIsReferredTo) {
  const std::string directory = EmptyDirectory("referred_to");
  TestJob job = MakeTestJob();
  Write(directory, job);
  job.variables[0].arrays[0][0] = -1;
  Write(directory, job, 1);
  CheckpointDirectory checkpoints(Files(), directory);
  EXPECT_EQ(checkpoints.Remove(1), absl::OkStatus());
  EXPECT_EQ(Compare(Files(), directory, 2, job), absl::OkStatus());
  EXPECT_EQ(checkpoints.CollectGarbage(0)->files, 0u);
  EXPECT_EQ(Compare(Files(), directory, 2, job), absl::OkStatus());
  EXPECT_THAT(NamesOfFilesIn(directory),
              ElementsAre("000001/shard-00000.safetensors", "000001/shard-00001.safetensors",
                          "000002/manifest.json", "000002/shard-00000.json",
                          "000002/shard-00000.safetensors", "000002/shard-00001.json", "latest"));
  EXPECT_EQ(checkpoints.Remove(2), absl::OkStatus());
  EXPECT_THAT(FilesIn(directory), IsEmpty());
}

TEST(CheckpointDirectoryTest, GarbageGoesAndOtherFilesStay) {
  const std::string directory = EmptyDirectory("garbage");
  const TestJob job = MakeTestJob();
  Write(directory, job);
  const auto whole = FilesIn(directory);
  CheckpointDirectory checkpoints(Files(), directory);
  const auto leave = [&](const std::string& name) {
    fs::create_directories(fs::path(JoinPath(directory, name)).parent_path());
    std::ofstream(JoinPath(directory, name)) << "12345";
  };
  leave("000002/shard-00000.safetensors");
  leave("000002/manifest.json.tmp-0011223344556677");
  leave("000003/shard-00000.json");
  leave("000004/shard-00000.json");
  leave("000001/shard-00017.safetensors");
  leave("latest.tmp-0011223344556677");
  const auto garbage = checkpoints.CollectGarbage(/*in_progress=*/3);
  ASSERT_TRUE(garbage.ok()) << garbage.status();
  EXPECT_EQ(garbage->files, 3u);
  EXPECT_EQ(garbage->bytes, 15u);
  EXPECT_TRUE(garbage->kept_for.ok());
  EXPECT_FALSE(fs::exists(JoinPath(directory, "000002")));
  EXPECT_TRUE(fs::exists(JoinPath(directory, "000003/shard-00000.json")));
  EXPECT_TRUE(fs::exists(JoinPath(directory, "000004/shard-00000.json")));
  leave("000003/notes.txt");
  leave("000004/notes.txt");
  leave("notes.txt");
  ASSERT_TRUE(checkpoints.CollectGarbage(0).ok());
  auto left = FilesIn(directory);
  EXPECT_EQ(
      left.erase("000003/notes.txt") + left.erase("000004/notes.txt") + left.erase("notes.txt"),
      3u);
  EXPECT_EQ(left, whole);
}

TEST(CheckpointDirectoryTest, WhatAnUnreadableManifestMayNeedStays) {
  const std::string directory = EmptyDirectory("unreadable");
  TestJob job = MakeTestJob();
  Write(directory, job);
  job.variables[0].arrays[0][0] = -1;
  Write(directory, job, 1);
  TrainTestJob(&job);
  Write(directory, job, 2);
  const std::string manifest = JoinPath(directory, ManifestPath(2));
  const std::string text = FilesIn(directory)["000002/manifest.json"];
  std::ofstream(manifest) << text.substr(1);
  CheckpointDirectory checkpoints(Files(), directory);
  EXPECT_EQ(checkpoints.Remove(1), absl::OkStatus());
  const uint64_t garbage_number = *checkpoints.Begin();
  ASSERT_TRUE(WriteShards(Files(), directory, garbage_number, job, 0).ok());
  const auto garbage = checkpoints.CollectGarbage(0);
  ASSERT_TRUE(garbage.ok()) << garbage.status();
  EXPECT_THAT(std::string(garbage->kept_for.message()), HasSubstr("000002/manifest.json: damaged"));
  EXPECT_EQ(garbage->files, 4u) << "what is newer goes all the same";
  // It can be read again: nothing is missing.
  std::ofstream(manifest) << text;
  TestJob second = MakeTestJob();
  second.variables[0].arrays[0][0] = -1;
  EXPECT_EQ(Compare(Files(), directory, 2, second), absl::OkStatus());
  EXPECT_EQ(Compare(Files(), directory, 3, job), absl::OkStatus());
}

}  // namespace
}  // namespace millrace
