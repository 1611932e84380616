#include "client/safetensors.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/safetensors/safetensors_file.h"
#include "common/safetensors/safetensors_header.h"
#include "common/status_macros.h"
#include "common/storage/durable_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::TempDir;

std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A file with this header and values.
std::string WithHeader(const std::string& header, const std::string& values) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xff);
  bytes[1] = static_cast<char>(header.size() >> 8);
  return bytes + header + values;
}

std::vector<Tensor> TwoTensors() {
  return {{"dense/kernel", {2, 1}, {1.0f, -2.0f}}, {"dense/bias", {1}, {0.5f}}};
}

absl::Status WriteTensors(const std::string& path, const std::vector<Tensor>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  for (const Tensor& tensor : tensors) {
    header.tensors.push_back({.name = tensor.name, .dtype = "F32", .shape = tensor.shape});
  }
  MILLRACE_ASSIGN_OR_RETURN(SafetensorsWriter file,
                            SafetensorsWriter::Create(RealFileSystem(), path, std::move(header)));
  for (const Tensor& tensor : tensors) MILLRACE_RETURN_IF_ERROR(file.Append(tensor.values));
  return file.Finish();
}

// An empty directory.
std::string NewDirectory(const std::string& name) {
  std::string path = TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

// What its directory holds, itself among it.
int64_t FilesBeside(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

// Checked with the Python package: safetensors.numpy.load reads these bytes as the two tensors.
TEST(SafetensorsTest, BytesAreThoseOfTheFormat) {
  const std::string path = TempDir() + "/golden.safetensors";
  ASSERT_TRUE(WriteTensors(path, TwoTensors(), {{"format", "millrace"}}).ok());
  std::string header = R"({"__metadata__":{"format":"millrace"},)"
                       R"("dense/kernel":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                       R"("dense/bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  header += std::string(8 - header.size() % 8, ' ');
  ASSERT_EQ(header.size(), 168u);
  const std::string values("\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f", 12);
  EXPECT_EQ(FileBytes(path), WithHeader(header, values));
}

TEST(SafetensorsTest, ReadsBackWhatWasWritten) {
  const std::string path = TempDir() + "/round_trip.safetensors";
  std::vector<Tensor> tensors = TwoTensors();
  tensors.push_back({"scalar", {}, {7.0f}});
  tensors.push_back({"empty \"quoted\"", {0, 3}, {}});
  ASSERT_TRUE(WriteTensors(path, tensors, {{"a", "b"}}).ok());
  const auto file = ReadSafetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->metadata, ElementsAre(Pair("a", "b")));
  ASSERT_EQ(file->tensors.size(), 4u);
  for (const Tensor& expected : tensors) {
    bool found = false;
    for (const Tensor& tensor : file->tensors) {
      if (tensor.name != expected.name) continue;
      found = true;
      EXPECT_EQ(tensor.shape, expected.shape);
      EXPECT_EQ(tensor.values, expected.values);
    }
    EXPECT_TRUE(found) << expected.name;
  }
}

TEST(SafetensorsTest, ReplacesTheFileThatWasThereAndLeavesNoTemporaryOne) {
  const std::string path = NewDirectory("replaced") + "/file";
  WriteBytes(path, "something longer than what comes");
  ASSERT_TRUE(WriteTensors(path, TwoTensors(), {}).ok());
  EXPECT_TRUE(ReadSafetensors(path).ok());
  EXPECT_EQ(FilesBeside(path), 1);
}

TEST(SafetensorsTest, FailureToRenameNamesTheFileAndLeavesNoTemporaryOne) {
  const std::string path = NewDirectory("unnamed") + "/a_directory";
  mkdir(path.c_str(), 0777);
  const absl::Status status = WriteTensors(path, TwoTensors(), {});
  EXPECT_THAT(status.ToString(), HasSubstr(path));
  EXPECT_THAT(status.ToString(), HasSubstr("rename"));
  EXPECT_EQ(FilesBeside(path), 1);
}

TEST(SafetensorsTest, MissingDirectoryIsNamed) {
  const std::string path = TempDir() + "/nowhere/model.safetensors";
  const absl::Status status = WriteTensors(path, TwoTensors(), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.ToString(), HasSubstr(path));
}

TEST(SafetensorsTest, RefusesNamesThatAreEmptyOrGivenTwice) {
  const std::string path = TempDir() + "/refused.safetensors";
  for (const std::vector<Tensor>& tensors :
       {std::vector<Tensor>{{"", {1}, {1}}}, std::vector<Tensor>{{"a", {1}, {1}}, {"a", {1}, {1}}},
        std::vector<Tensor>{{"__metadata__", {1}, {1}}}}) {
    EXPECT_EQ(WriteTensors(path, tensors, {}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
}

TEST(SafetensorsTest, ReadingNamesWhatIsWrongWithAFile) {
  const std::string path = TempDir() + "/broken.safetensors";
  const auto error = [&path](const std::string& bytes) {
    WriteBytes(path, bytes);
    return ReadSafetensors(path).status().ToString();
  };
  EXPECT_THAT(error("abc"), HasSubstr("shorter than 8 bytes"));
  EXPECT_THAT(error(std::string(8, '\xff')), HasSubstr("a header of"));
  EXPECT_THAT(error(std::string("\x40\0\0\0\0\0\0\0{}", 10)), HasSubstr("ends within its header"));
  EXPECT_THAT(
      error(WithHeader(R"({"a":{"dtype":"F32","shape":[1e300],"data_offsets":[0,4]}})", "abcd")),
      HasSubstr("shape: must be whole numbers"));
  EXPECT_THAT(error(WithHeader("[1]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(error(WithHeader(R"({"a":{"dtype":"I16","shape":[1],"data_offsets":[0,2]}})", "ab")),
              HasSubstr("'a' is I16"));
  EXPECT_THAT(
      error(WithHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd")),
      HasSubstr("do not fit the shape"));
  EXPECT_THAT(
      error(WithHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcd")),
      HasSubstr("starts at 4 where 0 is expected"));
  EXPECT_THAT(error(WithHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abc")),
              HasSubstr("3 bytes of values"));
  EXPECT_THAT(error(WithHeader(R"({"a":{"dtype":"F32"}})", "")), HasSubstr("tensor 'a'"));
  EXPECT_EQ(ReadSafetensors(TempDir() + "/absent").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::client
