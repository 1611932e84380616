#include "client/tensor_files/zip_writer.h"

#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::TempDir;

// Reads an archive as the format says: from its end.
class ZipReader {
 public:
  explicit ZipReader(std::string bytes) : bytes_(std::move(bytes)) {}

  // Name and content of each file, in the order of the directory. Checks what is said twice.
  std::vector<std::pair<std::string, std::string>> Files() {
    uint64_t end = bytes_.size() - 22;
    EXPECT_EQ(At(end, 4), 0x06054b50u);
    uint64_t count = At(end + 10, 2), offset = At(end + 16, 4);
    if (end >= 20 && At(end - 20, 4) == 0x07064b50) {
      const uint64_t end64 = At(end - 12, 8);
      EXPECT_EQ(At(end64, 4), 0x06064b50u);
      EXPECT_EQ(end64 + 12 + At(end64 + 4, 8), end - 20);
      count = At(end64 + 32, 8);
      offset = At(end64 + 48, 8);
      uses_zip64_ = true;
    }
    std::vector<std::pair<std::string, std::string>> files;
    for (uint64_t i = 0; i < count; ++i) files.push_back(Entry(&offset));
    return files;
  }

  bool uses_zip64() const { return uses_zip64_; }

 private:
  uint64_t At(uint64_t place, int size) const {
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + place, static_cast<size_t>(size));
    return value;
  }

  std::pair<std::string, std::string> Entry(uint64_t* place) {
    const uint64_t entry = *place;
    EXPECT_EQ(At(entry, 4), 0x02014b50u);
    uint64_t crc = At(entry + 16, 4), size = At(entry + 24, 4), offset = At(entry + 42, 4);
    const uint64_t name_size = At(entry + 28, 2), extra_size = At(entry + 30, 2);
    uint64_t extra = entry + 46 + name_size + 4;
    if (size == 0xFFFFFFFF) {
      size = At(extra, 8);
      extra += 16;
    }
    if (offset == 0xFFFFFFFF) offset = At(extra, 8);
    *place = entry + 46 + name_size + extra_size;
    const std::string name = bytes_.substr(entry + 46, name_size);
    const uint64_t begin = offset + 30 + At(offset + 26, 2) + At(offset + 28, 2);
    EXPECT_EQ(At(offset, 4), 0x04034b50u);
    EXPECT_EQ(bytes_.substr(offset + 30, name_size), name);
    EXPECT_EQ(At(begin + size, 4), 0x08074b50u);
    EXPECT_EQ(At(begin + size + 4, 4), crc);
    const std::string content = bytes_.substr(begin, size);
    EXPECT_EQ(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())),
        crc);
    return {name, content};
  }

  const std::string bytes_;
  bool uses_zip64_ = false;
};

std::string WriteTwoFiles(uint64_t zip64_from) {
  const std::string path = TempDir() + "/two.zip";
  auto zip = ZipWriter::Create(RealFileSystem(), path, zip64_from);
  EXPECT_TRUE(zip.ok()) << zip.status();
  EXPECT_TRUE(zip->Begin("a/b.npy", 5).ok());
  EXPECT_TRUE(zip->Append("he").ok());
  EXPECT_TRUE(zip->Append("llo").ok());
  EXPECT_TRUE(zip->End().ok());
  EXPECT_TRUE(zip->Begin("empty", 0).ok());
  EXPECT_TRUE(zip->End().ok());
  EXPECT_TRUE(zip->Commit().ok());
  return *ReadWholeFile(RealFileSystem(), path);
}

TEST(ZipWriterTest, FilesComeBack) {
  ZipReader reader(WriteTwoFiles(ZipWriter::kZip64From));
  EXPECT_THAT(reader.Files(), ElementsAre(Pair("a/b.npy", "hello"), Pair("empty", "")));
  EXPECT_FALSE(reader.uses_zip64());
}

TEST(ZipWriterTest, WhatIsTooLargeForItsFieldsIsInThoseOfZip64) {
  ZipReader reader(WriteTwoFiles(/*zip64_from=*/4));
  EXPECT_THAT(reader.Files(), ElementsAre(Pair("a/b.npy", "hello"), Pair("empty", "")));
  EXPECT_TRUE(reader.uses_zip64());
}

TEST(ZipWriterTest, SeventyThousandFilesFit) {
  const std::string path = TempDir() + "/many.zip";
  auto zip = ZipWriter::Create(RealFileSystem(), path);
  for (int i = 0; i < 70000; ++i) {
    ASSERT_TRUE(zip->Begin(absl::StrCat(i), 0).ok());
    ASSERT_TRUE(zip->End().ok());
  }
  ASSERT_TRUE(zip->Commit().ok());
  ZipReader reader(*ReadWholeFile(RealFileSystem(), path));
  EXPECT_EQ(reader.Files().size(), 70000u);
  EXPECT_TRUE(reader.uses_zip64());
}

TEST(ZipWriterTest, WithoutCommitNothingIsLeft) {
  const std::string path = TempDir() + "/left.zip";
  {
    auto zip = ZipWriter::Create(RealFileSystem(), path);
    ASSERT_TRUE(zip->Begin("a", 5).ok());
    ASSERT_TRUE(zip->Append("he").ok());
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace millrace::client
