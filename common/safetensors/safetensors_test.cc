#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "testing/seed/test_seed.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::TempDir;

constexpr char kPath[] = "some/file";

SafetensorsEntry Entry(const std::string& name, const std::string& dtype,
                       std::vector<uint64_t> shape) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  return entry;
}

absl::StatusOr<SafetensorsHeader> Parse(const std::string& json, uint64_t value_bytes) {
  return ParseSafetensorsHeader(kPath, json, kSafetensorsLengthBytes + json.size() + value_bytes);
}

std::string Refusal(const std::string& json, uint64_t value_bytes) {
  const auto header = Parse(json, value_bytes);
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << json;
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(kPath));
  return std::string(header.status().message());
}

TEST(SafetensorsHeaderTest, AllTypesAreUnderstood) {
  SafetensorsHeader header;
  header.metadata = {{"a \"key\"", "\u00e9"}};
  header.tensors = {Entry("b", "BF16", {3}),    Entry("a", "F64", {2, 1}), Entry("c", "I8", {}),
                    Entry("d", "F8_E4M3", {5}), Entry("e", "BOOL", {0}),   Entry("f", "F4", {3, 2}),
                    Entry("g", "F6_E2M3", {4}), Entry("h", "C64", {1})};
  const auto text = EncodeSafetensorsHeader(kPath, &header);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(header.bytes, text->size());
  EXPECT_EQ(header.bytes % 8, 0u);
  EXPECT_EQ(header.value_bytes(), 6u + 16 + 1 + 5 + 0 + 3 + 3 + 8);
  const uint64_t file_bytes = header.bytes + header.value_bytes();
  const auto length = ParseSafetensorsLength(kPath, *text, file_bytes);
  ASSERT_TRUE(length.ok()) << length.status();
  const auto parsed = ParseSafetensorsHeader(kPath, text->substr(8), file_bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->metadata, header.metadata);
  ASSERT_EQ(parsed->tensors.size(), header.tensors.size());
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    EXPECT_EQ(parsed->tensors[i].name, header.tensors[i].name);
    EXPECT_EQ(parsed->tensors[i].dtype, header.tensors[i].dtype);
    EXPECT_EQ(parsed->tensors[i].shape, header.tensors[i].shape);
    EXPECT_EQ(parsed->tensors[i].begin, header.tensors[i].begin);
    EXPECT_EQ(parsed->tensors[i].end, header.tensors[i].end);
  }
}

TEST(SafetensorsHeaderTest, WhatIsWrongIsNamed) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  ASSERT_TRUE(Parse(good, 4).ok());
  EXPECT_THAT(Refusal(good, 5), HasSubstr("5 bytes of values where the header says 4"));
  EXPECT_THAT(Refusal("", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(Refusal(good.substr(1), 4), HasSubstr("not a JSON object"));
  EXPECT_THAT(Refusal(good + "{}", 4), HasSubstr("no JSON object"));
  EXPECT_THAT(Refusal(R"({"a":1})", 0), HasSubstr("'a': it is a number"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("dtype 'F33' is unknown"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
              HasSubstr("a negative number"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4),
              HasSubstr("must be two numbers"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
              HasSubstr("do not fit"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4),
              HasSubstr("an array"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[1]}})", 4), HasSubstr("no data_offsets"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4),
              HasSubstr("dtype is there twice"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":1}})", 0), HasSubstr("other than strings"));
  EXPECT_THAT(Refusal(R"({"__metadata__":{"a":"","a":""}})", 0), HasSubstr("a key twice"));
  EXPECT_THAT(
      Refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      HasSubstr("do not fit"));
  EXPECT_THAT(Refusal(absl::StrCat(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,0]}})"), 0),
              HasSubstr("do not fit"));
  const std::string twice = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(Refusal(absl::StrCat("{\"a\":", twice, ",\"a\":", twice, "}"), 0),
              HasSubstr("'a': it is there twice"));
  EXPECT_THAT(Refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      8),
              HasSubstr("'b' starts at 0 where 4 is expected"));
}

// Nothing is allocated for what a header only claims.
TEST(SafetensorsHeaderTest, ClaimsCostNothing) {
  EXPECT_FALSE(ParseSafetensorsLength(kPath, std::string(8, '\xff'), UINT64_MAX).ok());
  EXPECT_FALSE(ParseSafetensorsLength(kPath, std::string("\0\0\0\1\0\0\0\0", 8), 1000).ok());
  EXPECT_THAT(Refusal(std::string(1'000'000, '['), 0), HasSubstr("not a JSON object"));
  EXPECT_FALSE(Parse("{\"a\":{\"shape\":" + std::string(1'000'000, '['), 0).ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(Parse(objects, 0).ok());
  std::string dimensions = "1";
  for (int i = 0; i < 1000; ++i) dimensions += ",1";
  EXPECT_THAT(Refusal(absl::StrCat(R"({"a":{"dtype":"F32","shape":[)", dimensions,
                                   R"(],"data_offsets":[0,4]}})"),
                      4),
              HasSubstr("more than 64 dimensions"));
}

TEST(SafetensorsHeaderTest, WhatCannotBeWrittenIsRefused) {
  for (const SafetensorsEntry& entry :
       {Entry("", "F32", {1}), Entry("__metadata__", "F32", {1}), Entry("\xff", "F32", {1}),
        Entry("a", "F33", {1}), Entry("a", "F32", {uint64_t{1} << 61}), Entry("a", "F4", {1})}) {
    SafetensorsHeader header;
    header.tensors = {entry};
    EXPECT_EQ(EncodeSafetensorsHeader(kPath, &header).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// A file with one tensor of these bytes.
std::string WriteFile(const std::string& dtype, const std::string& bytes) {
  const std::string path = TempDir() + "/one_tensor.safetensors";
  SafetensorsHeader header;
  header.tensors = {Entry("t", dtype, {bytes.size() * 8 / *SafetensorsBits(dtype)})};
  const auto text = EncodeSafetensorsHeader(path, &header);
  std::ofstream(path, std::ios::binary) << *text << bytes;
  return path;
}

std::vector<float> ReadAll(const std::string& path, size_t elements) {
  const auto file = SafetensorsReader::Open(RealFileSystem(), path);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<float> values(elements);
  const absl::Status read = file->Read(*file->Find("t"), 0, absl::MakeSpan(values));
  EXPECT_TRUE(read.ok()) << read;
  return values;
}

// Bytes by numpy: numpy.array([...], "<f2").tobytes().
TEST(SafetensorsReaderTest, HalfNumbersAreWhatTheyAreElsewhere) {
  const std::string bytes("\x00\x3c\x00\xc0\xff\x7b\x01\x00\x00\x80\x00\x7c\x00\x04\x55\x35", 16);
  const std::vector<float> values = ReadAll(WriteFile("F16", bytes), 8);
  EXPECT_THAT(values,
              ElementsAre(1.0f, -2.0f, 65504.0f, 0x1p-24f, 0.0f,
                          std::numeric_limits<float>::infinity(), 0x1p-14f, 0.333251953125f));
  EXPECT_TRUE(std::signbit(values[4]));
  EXPECT_TRUE(std::isnan(ReadAll(WriteFile("F16", std::string("\x01\x7e", 2)), 1)[0]));
}

TEST(SafetensorsReaderTest, OtherTypesOfNumbersAreConverted) {
  EXPECT_THAT(ReadAll(WriteFile("BF16", std::string("\x80\x3f\x00\xc0", 4)), 2),
              ElementsAre(1.0f, -2.0f));
  const double doubles[] = {0.1, -std::numeric_limits<double>::infinity()};
  std::string bytes(sizeof(doubles), '\0');
  std::memcpy(bytes.data(), doubles, sizeof(doubles));
  EXPECT_THAT(ReadAll(WriteFile("F64", bytes), 2),
              ElementsAre(0.1f, -std::numeric_limits<float>::infinity()));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += std::string("\x80\x3f", 2);
  EXPECT_EQ(ReadAll(WriteFile("BF16", many), 100'000), std::vector<float>(100'000, 1.0f));
}

// Such a value became infinite, and the loss of the job that began with it nan.
TEST(SafetensorsReaderTest, ValuesThatNoFloatCanBeAreRefused) {
  std::vector<double> doubles(100'000, 0.5);
  doubles[90'000] = -1e300;
  std::string bytes(doubles.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), doubles.data(), bytes.size());
  const auto file = SafetensorsReader::Open(RealFileSystem(), WriteFile("F64", bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(90'000);
  EXPECT_TRUE(file->Read(0, 0, absl::MakeSpan(values)).ok());
  const absl::Status refused = file->Read(0, 10'000, absl::MakeSpan(values));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.ToString(),
              HasSubstr("element 90000 of tensor 't' is -1e+300, which does not fit a float32"));
}

TEST(SafetensorsReaderTest, OnlyWhatIsThereIsRead) {
  const std::string path = WriteFile("F32", std::string(12, '\0'));
  const auto file = SafetensorsReader::Open(RealFileSystem(), path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values(2);
  EXPECT_TRUE(file->Read(0, 1, absl::MakeSpan(values)).ok());
  EXPECT_EQ(file->Read(0, 2, absl::MakeSpan(values)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->Read(0, UINT64_MAX, absl::MakeSpan(values)).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(file->Find("other"), absl::nullopt);
  std::filesystem::resize_file(path, file->header().bytes + 4);
  EXPECT_EQ(file->Read(0, 1, absl::MakeSpan(values)).code(), absl::StatusCode::kDataLoss);
  const auto whole_numbers =
      SafetensorsReader::Open(RealFileSystem(), WriteFile("I32", std::string(8, '\0')));
  EXPECT_EQ(whole_numbers->Read(0, 0, absl::MakeSpan(values)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SafetensorsReader::Open(RealFileSystem(), TempDir() + "/absent").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(SafetensorsWriterTest, WritesPieceByPieceAndOnlyWholeFiles) {
  const std::string path = TempDir() + "/pieces.safetensors";
  std::filesystem::remove(path);
  SafetensorsHeader header;
  header.tensors = {Entry("t", "F32", {3}), Entry("u", "F32", {})};
  {
    auto file = SafetensorsWriter::Create(RealFileSystem(), path, header);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Append(std::vector<float>{1, 2}).ok());
    EXPECT_EQ(file->Finish().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  auto file = SafetensorsWriter::Create(RealFileSystem(), path, header);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append(std::vector<float>{1, 2}).ok());
  ASSERT_TRUE(file->Append(std::vector<float>{3, 4}).ok());
  ASSERT_TRUE(file->Finish().ok());
  EXPECT_THAT(ReadAll(path, 3), ElementsAre(1, 2, 3));
}

#ifdef MILLRACE_SANITIZER
constexpr int kHeaderRounds = 10'000;
#else
constexpr int kHeaderRounds = 100'000;
#endif

// Headers with random damage: what is accepted is JSON for another parser too, and describes the
// whole file. MILLRACE_SEED repeats a run.
TEST(SafetensorsFuzzTest, DamagedHeadersAreRefusedOrMakeSense) {
  const uint64_t seed = TestSeedOr(20261122);
  std::mt19937_64 random(seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const std::string telling = "{}[]\",:0123456789-.e\\ \x01\x7f\xff";
  const std::string whole = R"({"__metadata__":{"a":"b"},)"
                            R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                            R"("b":{"dtype":"F16","shape":[],"data_offsets":[8,10]}})";
  int good = 0;
  for (int round = 0; round < kHeaderRounds; ++round) {
    std::string json = whole;
    for (size_t i = 1 + below(2); i > 0; --i) {
      const size_t at = below(json.size());
      switch (below(4)) {
        case 0:
          json.erase(at, 1 + below(4));
          break;
        case 1:
          json.insert(at, 1, telling[below(telling.size())]);
          break;
        case 2:
          json.insert(at, json.substr(below(json.size()), below(60)));
          break;
        default:
          json[at] = telling[below(telling.size())];
      }
      if (json.empty()) json = "{";
    }
    const auto header = Parse(json, 10);
    if (!header.ok()) continue;
    ++good;
    ASSERT_TRUE(nlohmann::json::parse(json, nullptr, false).is_object()) << json;
    uint64_t next = 0;
    for (const SafetensorsEntry& tensor : header->tensors) {
      ASSERT_EQ(tensor.begin, next);
      ASSERT_EQ((tensor.end - tensor.begin) * 8,
                *ElementsOf(tensor.shape) * *SafetensorsBits(tensor.dtype));
      next = tensor.end;
    }
    ASSERT_EQ(next, 10u);
  }
  EXPECT_GT(good, kHeaderRounds / 100);
  EXPECT_LT(good, kHeaderRounds / 2);
}

}  // namespace
}  // namespace millrace
