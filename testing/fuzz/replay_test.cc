// What libFuzzer would do with the readers, for a moment: files that are known, and small changes.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/input/input_test_util.h"

// testing/fuzz/reader_fuzz.cc. Ends the process where a reader does what it must not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace millrace::testing {
namespace {

void Feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::vector<std::string> KnownFiles() {
  std::vector<std::string> files = {
      IdxImages(2, 1, {0, 51, 102, 153}),
      "1 1:2 3:4 # comment\n\n0 2:5\n",
      std::string(2 * 3073, '\2'),
  };
  for (const auto& entry : std::filesystem::directory_iterator("testing/reference/data")) {
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const size_t plain = files.size();
  for (size_t i = 0; i < plain; ++i) files.push_back(Gzip(files[i]));
  return files;
}

TEST(ReplayTest, ReadersSurviveWhateverIsInAFile) {
  constexpr uint64_t kSeed = 20260404;
  constexpr int kRounds = 40;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::vector<std::string> files = KnownFiles();
  EXPECT_GT(files.size(), 30u);
  for (const std::string& file : files) {
    Feed(file);
    for (int round = 0; round < kRounds; ++round) Feed(Mutate(file, &random));
  }
}

}  // namespace
}  // namespace millrace::testing
