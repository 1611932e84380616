#include "worker/input/input_test_util.h"

#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::testing {
namespace {

size_t RandomBelow(size_t end, std::mt19937_64* random) { return (*random)() % end; }

}  // namespace

std::string MakeTestDirectory() {
  std::string path = absl::StrCat(::testing::TempDir(), "/input_XXXXXX");
  EXPECT_NE(mkdtemp(path.data()), nullptr) << path;
  return path;
}

void WriteTestFile(const std::string& directory, const std::string& name,
                   const std::string& bytes) {
  std::ofstream file(absl::StrCat(directory, "/", name), std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  EXPECT_TRUE(file.good()) << directory << "/" << name;
}

void ReplaceTestFile(const std::string& directory, const std::string& name,
                     const std::string& bytes) {
  std::filesystem::remove(absl::StrCat(directory, "/", name));
  WriteTestFile(directory, name, bytes);
}

std::string ReferenceFile(const std::string& name) {
  std::ifstream file("testing/reference/data/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Gzip(const std::string& bytes) {
  constexpr int kGzipWindowBits = 15 + 16;
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipWindowBits, /*memLevel=*/8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

std::string BigEndian32(uint32_t value) {
  std::string bytes(4, '\0');
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (24 - 8 * i));
  return bytes;
}

std::string IdxImages(uint32_t rows, uint32_t columns, const std::vector<uint8_t>& pixels) {
  const uint32_t count = static_cast<uint32_t>(pixels.size() / (size_t{rows} * columns));
  return BigEndian32(0x803) + BigEndian32(count) + BigEndian32(rows) + BigEndian32(columns) +
         std::string(pixels.begin(), pixels.end());
}

std::string IdxLabels(const std::vector<uint8_t>& labels) {
  return BigEndian32(0x801) + BigEndian32(static_cast<uint32_t>(labels.size())) +
         std::string(labels.begin(), labels.end());
}

std::string Mutate(const std::string& bytes, std::mt19937_64* random) {
  std::string mutated = bytes;
  const size_t changes = 1 + RandomBelow(3, random);
  for (size_t i = 0; i < changes; ++i) {
    const size_t position = RandomBelow(mutated.size() + 1, random);
    switch (RandomBelow(5, random)) {
      case 0:
        if (position < mutated.size()) mutated[position] = static_cast<char>((*random)());
        break;
      case 1:
        mutated.insert(position, 1, static_cast<char>((*random)()));
        break;
      case 2:
        mutated.erase(position, 1 + RandomBelow(4, random));
        break;
      case 3:
        mutated.resize(position);
        break;
      default:
        mutated.insert(position, bytes.substr(RandomBelow(bytes.size() + 1, random),
                                              1 + RandomBelow(8, random)));
    }
  }
  return mutated;
}

std::string RealDataDirectory() {
  const char* directory = std::getenv("MILLRACE_TEST_DATA");
  return directory == nullptr ? "" : directory;
}

worker::Batch ReadExamples(const worker::Dataset& dataset, const std::vector<uint64_t>& indices) {
  worker::Batch batch;
  const absl::Status status = dataset.Read(indices, &batch);
  CHECK(status.ok()) << status;
  return batch;
}

worker::Batch ReadAllExamples(const worker::Dataset& dataset) {
  std::vector<uint64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  return ReadExamples(dataset, indices);
}

}  // namespace millrace::testing
