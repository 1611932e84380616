#include "client/tensor_files/tensor_writer.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/tensor_files/npy.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/durable_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::TempDir;
using ::testing::UnorderedElementsAre;

std::vector<TensorInfo> Tensors() {
  return {{"dense/kernel", {2, 3}}, {"scalar", {}}, {"none", {0, 4}}, {"dense/bias", {3}}};
}

const float kValues[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

// In pieces that do not fit the tensors.
absl::Status WriteTensors(const std::string& path) {
  auto writer = CreateTensorWriter(path, Tensors());
  if (!writer.ok()) return writer.status();
  const absl::Span<const float> values(kValues);
  for (const auto& piece : {values.subspan(0, 2), values.subspan(2, 6), values.subspan(8)}) {
    if (absl::Status status = (*writer)->Append(piece); !status.ok()) return status;
  }
  return (*writer)->Commit();
}

std::string Bytes(std::initializer_list<float> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float));
}

// An empty folder of that name.
std::string NewFolder(const std::string& name) {
  const std::string folder = absl::StrCat(TempDir(), "/", name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder;
}

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(TensorWriterTest, SafetensorsHasTheTensorsInOrder) {
  const std::string path = TempDir() + "/model.safetensors";
  ASSERT_TRUE(WriteTensors(path).ok());
  auto reader = SafetensorsReader::Open(RealFileSystem(), path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> bias(3);
  ASSERT_TRUE(reader->Read(*reader->Find("dense/bias"), 0, absl::MakeSpan(bias)).ok());
  EXPECT_THAT(bias, ElementsAre(8, 9, 10));
}

// As numpy.save of numpy 2.4 writes them.
TEST(TensorWriterTest, NpyHeadersAreThoseOfNumpy) {
  const std::string header = NpyHeader({2, 3});
  EXPECT_EQ(header.size(), 128u);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(header.substr(10, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_THAT(NpyHeader({3}), HasSubstr("'shape': (3,), }"));
  EXPECT_THAT(NpyHeader({}), HasSubstr("'shape': (), }"));
}

TEST(TensorWriterTest, NpzHasAFileForEachTensor) {
  const std::string path = TempDir() + "/model.npz";
  ASSERT_TRUE(WriteTensors(path).ok());
  const std::string bytes = *ReadWholeFile(RealFileSystem(), path);
  EXPECT_THAT(bytes, HasSubstr("dense/kernel.npy" + NpyHeader({2, 3}) + Bytes({1, 2, 3, 4, 5, 6})));
  EXPECT_THAT(bytes, HasSubstr("scalar.npy" + NpyHeader({}) + Bytes({7})));
  EXPECT_THAT(bytes, HasSubstr("none.npy" + NpyHeader({0, 4})));
}

TEST(TensorWriterTest, FolderHasAFileForEachTensorOrNothing) {
  const std::string parent = NewFolder("parent");
  {
    auto writer = CreateTensorWriter(parent + "/model/", Tensors());
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append({1, 2, 3, 4, 5, 6, 7}).ok());
  }
  EXPECT_THAT(Names(parent), IsEmpty());
  ASSERT_TRUE(WriteTensors(parent + "/model/").ok());
  EXPECT_THAT(Names(parent), UnorderedElementsAre("model"));
  EXPECT_THAT(Names(parent + "/model"),
              UnorderedElementsAre("dense.kernel.npy", "scalar.npy", "none.npy", "dense.bias.npy"));
  EXPECT_EQ(*ReadWholeFile(RealFileSystem(), parent + "/model/dense.bias.npy"),
            NpyHeader({3}) + Bytes({8, 9, 10}));
}

TEST(TensorWriterTest, AnEmptyFolderIsTakenAndAFullOneRefused) {
  const std::string folder = NewFolder("taken");
  EXPECT_TRUE(CheckTensorPath(folder).ok());
  ASSERT_TRUE(WriteTensors(folder).ok());
  EXPECT_THAT(CheckTensorPath(folder).ToString(), HasSubstr("not an empty folder"));
  EXPECT_FALSE(WriteTensors(folder).ok());
}

// All but .npz was once written as safetensors, over whatever had that name.
TEST(TensorWriterTest, OnlyNamesThatSayTheFormatAreTaken) {
  const std::string folder = NewFolder("endings");
  for (const char* name :
       {"/train.py", "/job.json", "/model", "/model.NPZ", "/x.safetensors.bak"}) {
    std::ofstream(folder + name) << "dear";
    EXPECT_EQ(CheckTensorPath(folder + name).code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(WriteTensors(folder + name).ToString(), HasSubstr("FILE.safetensors, FILE.npz"));
    EXPECT_EQ(*ReadWholeFile(RealFileSystem(), folder + name), "dear");
  }
}

TEST(TensorWriterTest, NothingIsWrittenIntoACheckpoint) {
  const std::string folder = NewFolder("checkpoints");
  std::filesystem::create_directories(folder + "/000001/mine");
  std::filesystem::create_directory(folder + "/000002");
  std::ofstream(folder + "/000001/shard-00000.safetensors").flush();
  std::ofstream(folder + "/000002/manifest.json").flush();
  std::filesystem::create_directory_symlink(folder + "/000002", folder + "/link");
  for (const char* name : {"/000001/shard-00000.safetensors", "/000002/model.npz",
                           "/000001/mine/model.npz", "/000002/model/", "/link/x.safetensors"}) {
    EXPECT_EQ(CheckTensorPath(folder + name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_THAT(CheckTensorPath(folder + "/000001/x.npz").ToString(), HasSubstr("is a checkpoint"));
  // A date is a number too.
  std::filesystem::create_directory(folder + "/20261122");
  EXPECT_TRUE(CheckTensorPath(folder + "/20261122/model.npz").ok());
}

TEST(TensorWriterTest, NamesThatLeadElsewhereOrMeetAreRefused) {
  const std::string folder = NewFolder("names") + "/";
  EXPECT_EQ(*NpyFileName("../../etc/x"), "......etc.x.npy");
  EXPECT_FALSE(NpyFileName("a b").ok());
  EXPECT_THAT(CreateTensorWriter(folder, {{"a/b", {}}, {"a.b", {}}}).status().ToString(),
              HasSubstr("a/b and a.b would both be the file a.b.npy"));
  EXPECT_THAT(CreateTensorWriter(TempDir() + "/x.npz", {{"a", {}}, {"a", {}}}).status().ToString(),
              HasSubstr("unique"));
}

}  // namespace
}  // namespace millrace::client
