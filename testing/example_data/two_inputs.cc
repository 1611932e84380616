#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "testing/digits/digit_set.h"
#include "testing/digits/draw_digit.h"
#include "testing/digits/random.h"
#include "testing/example_data/example_data.h"
#include "testing/example_data/npz.h"
#include "testing/example_data/write_file.h"

namespace millrace::testing {
namespace {

constexpr uint64_t kTrainExamples = 2400;
constexpr uint64_t kTestExamples = 600;
constexpr size_t kSoundNumbers = 8;

using Sound = std::array<double, kSoundNumbers>;

// What each digit sounds like.
std::array<Sound, 10> MakeSounds(uint64_t seed) {
  Random random(seed);
  std::array<Sound, 10> sounds;
  for (Sound& sound : sounds) {
    for (double& number : sound) number = random.Normal();
  }
  return sounds;
}

// What is heard of all digits of a set.
struct Heard {
  std::vector<float> sounds;  // One after the other.
  std::vector<float> pitches;
};

Heard Hear(const DigitSet& set, const std::array<Sound, 10>& sounds, Random* random) {
  Heard heard;
  for (const uint8_t digit : set.labels) {
    const double pitch = random->Normal();
    heard.pitches.push_back(static_cast<float>(pitch));
    for (const double number : sounds[digit]) {
      heard.sounds.push_back(static_cast<float>(number + pitch + random->Normal()));
    }
  }
  return heard;
}

// `stream`: which digits are drawn; another one, other digits.
std::string MakeExamples(uint64_t count, uint64_t seed, uint64_t stream) {
  const DigitSet set = MakeDigitSet(count, seed, stream);
  Random random(Random(seed).Next() + stream);
  const Heard heard = Hear(set, MakeSounds(seed), &random);
  const std::vector<int64_t> digits(set.labels.begin(), set.labels.end());
  return NpzFile({
      {"picture",
       "|u1",
       {count, kDigitSide, kDigitSide, 1},
       BytesOf(absl::MakeConstSpan(set.pixels))},
      {"sound", "<f4", {count, kSoundNumbers}, BytesOf(absl::MakeConstSpan(heard.sounds))},
      {"digit", "<i8", {count}, BytesOf(absl::MakeConstSpan(digits))},
      {"pitch", "<f4", {count}, BytesOf(absl::MakeConstSpan(heard.pitches))},
  });
}

}  // namespace

absl::Status WriteTwoInputs(const std::string& directory, uint64_t seed) {
  MILLRACE_RETURN_IF_ERROR(MakeFolder(directory));
  MILLRACE_RETURN_IF_ERROR(
      WriteBytes(directory + "/train.npz", MakeExamples(kTrainExamples, seed, /*stream=*/0)));
  return WriteBytes(directory + "/test.npz", MakeExamples(kTestExamples, seed, /*stream=*/1));
}

}  // namespace millrace::testing
