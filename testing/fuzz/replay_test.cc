// What libFuzzer would do with the targets, for a moment: inputs that are known, and small changes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "testing/fuzz/fuzz_target.h"
#include "worker/input/input_test_util.h"

namespace millrace::testing {
namespace {

std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> KnownInputs(const FuzzTarget& target) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& folder : InputFolders(target)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) inputs.push_back(ReadWhole(path));
  return inputs;
}

class ReplayTest : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(ReplayTest, SurvivesKnownInputsAndChangesOfThem) {
  constexpr uint64_t kSeed = 20260404;
  constexpr int kRounds = 40;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937_64 random(kSeed);
  const std::vector<std::string> inputs = KnownInputs(GetParam());
  EXPECT_FALSE(inputs.empty());
  for (const std::string& input : inputs) {
    GetParam().feed(input);
    GetParam().feed(Gzip(input));
    for (int round = 0; round < kRounds; ++round) {
      const std::string changed = Mutate(input, &random);
      GetParam().feed(changed);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ReplayTest, ::testing::ValuesIn(FuzzTargets()),
                         [](const auto& target) { return target.param.name; });

}  // namespace
}  // namespace millrace::testing
