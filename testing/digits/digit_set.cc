#include "testing/digits/digit_set.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "testing/digits/draw_digit.h"
#include "testing/digits/random.h"

namespace millrace::testing {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint64_t kTrainStream = 0;
constexpr uint64_t kEvaluateStream = 1;

absl::Status WriteFailed(const std::string& path) {
  return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
}

// A header of big-endian numbers, and bytes.
absl::Status WriteIdxFile(const std::string& path, const std::vector<uint64_t>& header,
                          const std::vector<uint8_t>& bytes, bool gzip) {
  std::vector<uint8_t> content;
  for (const uint64_t number : header) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      content.push_back(static_cast<uint8_t>(number >> shift));
    }
  }
  content.insert(content.end(), bytes.begin(), bytes.end());

  const std::string full_path = gzip ? path + ".gz" : path;
  errno = 0;
  gzFile file = gzopen(full_path.c_str(), gzip ? "wb6" : "wbT");  // T: no compression, no header.
  if (file == nullptr) return WriteFailed(full_path);
  const size_t written = gzfwrite(content.data(), 1, content.size(), file);
  if (gzclose_w(file) != Z_OK || written != content.size()) return WriteFailed(full_path);
  return absl::OkStatus();
}

absl::Status CheckCount(const char* name, uint64_t count) {
  constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
  if (count >= 1 && count <= kMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", count, "; must be 1 to ", kMax));
}

absl::Status WriteSet(const std::string& prefix, const DigitSet& set, bool gzip) {
  const uint64_t count = set.labels.size();
  MILLRACE_RETURN_IF_ERROR(WriteIdxFile(prefix + "-images-idx3-ubyte",
                                        {kImagesMagic, count, kDigitSide, kDigitSide}, set.pixels,
                                        gzip));
  return WriteIdxFile(prefix + "-labels-idx1-ubyte", {kLabelsMagic, count}, set.labels, gzip);
}

}  // namespace

DigitSet MakeDigitSet(uint64_t count, uint64_t seed, uint64_t stream) {
  DigitSet set;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t stream_seed = Random(Random(seed).Next() + stream).Next();
    Random random(Random(stream_seed + i).Next());
    const int digit = static_cast<int>(random.Below(10));
    const DigitImage image = DrawDigit(digit, &random);
    set.pixels.insert(set.pixels.end(), image.begin(), image.end());
    set.labels.push_back(static_cast<uint8_t>(digit));
  }
  return set;
}

absl::Status WriteDigitFiles(const std::string& directory, const DigitFilesOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckCount("train", options.train));
  MILLRACE_RETURN_IF_ERROR(CheckCount("evaluate", options.evaluate));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat(directory, ": cannot make this folder: ", error.message()));
  }
  MILLRACE_RETURN_IF_ERROR(WriteSet(
      directory + "/train", MakeDigitSet(options.train, options.seed, kTrainStream), options.gzip));
  return WriteSet(directory + "/t10k",
                  MakeDigitSet(options.evaluate, options.seed, kEvaluateStream), options.gzip);
}

}  // namespace millrace::testing
