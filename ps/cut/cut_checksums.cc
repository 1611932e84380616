#include "ps/cut/cut_checksums.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "xxhash.h"

namespace millrace::ps {
namespace {

constexpr size_t kChecksumBytes = sizeof(XXH128_canonical_t);

}  // namespace

std::string BinaryChecksum(absl::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), kChecksumBytes);
}

absl::StatusOr<CutChecksums> CutChecksums::Of(const CutManifest& manifest, int arrays) {
  const size_t bytes = size_t{manifest.blocks()} * static_cast<size_t>(arrays) * kChecksumBytes;
  if (manifest.checksums().empty() || manifest.checksums().size() == bytes) {
    return CutChecksums(manifest.checksums(), arrays);
  }
  return absl::DataLossError(absl::StrCat("a cut's file is damaged: its manifest has ",
                                          manifest.checksums().size(), " bytes of checksums and ",
                                          manifest.blocks(), " blocks of ", arrays, " arrays"));
}

absl::string_view CutChecksums::Get(size_t block, int array) const {
  if (checksums_.empty()) return "";
  const size_t index = block * arrays_ + static_cast<size_t>(array);
  return absl::string_view(checksums_).substr(index * kChecksumBytes, kChecksumBytes);
}

absl::Status CutChecksums::Check(size_t block, int array, absl::string_view bytes) const {
  const absl::string_view expected = Get(block, array);
  if (expected.empty() || expected == BinaryChecksum(bytes)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a cut's file is damaged: the checksum of array ", array,
                                          " of block ", block, " is another"));
}

}  // namespace millrace::ps
