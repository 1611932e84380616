// What a cut's manifest says of the bytes of its blocks.
#ifndef MILLRACE_PS_CUT_CUT_CHECKSUMS_H_
#define MILLRACE_PS_CUT_CUT_CHECKSUMS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ps/cut/cut_record.pb.h"

namespace millrace::ps {

// As CutManifest.checksums has it of an array: 16 bytes.
std::string BinaryChecksum(absl::string_view bytes);

// Immutable and thread-safe.
class CutChecksums {
 public:
  // Of a cut whose blocks have `arrays` arrays each. DATA_LOSS: the manifest has another number of
  // checksums.
  static absl::StatusOr<CutChecksums> Of(const CutManifest& manifest, int arrays);

  // Empty: the cut is older than checksums. REQUIRES: there is such an array.
  absl::string_view Get(size_t block, int array) const;

  // DATA_LOSS: these are not the array's bytes.
  absl::Status Check(size_t block, int array, absl::string_view bytes) const;

 private:
  CutChecksums(std::string checksums, int arrays)
      : checksums_(std::move(checksums)), arrays_(static_cast<size_t>(arrays)) {}

  std::string checksums_;
  size_t arrays_;
};

}  // namespace millrace::ps

#endif  // MILLRACE_PS_CUT_CUT_CHECKSUMS_H_
