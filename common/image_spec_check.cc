// CheckImageFolder, CheckNormalization and CheckAugmentation, field by field in the order of
// protos/images.proto.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/field_checks.h"
#include "common/proto_fields.h"
#include "common/spec_checks.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

constexpr uint32_t kMaxImageSide = 4096;
constexpr uint32_t kMaxCropPadding = 1024;

}  // namespace

absl::Status CheckImageFolder(const ImageFolder& folder, const std::string& path) {
  MILLRACE_RETURN_IF_ERROR(
      CheckAtLeastOne(absl::StrCat(path, ".height"), folder.height(), kMaxImageSide));
  return CheckAtLeastOne(absl::StrCat(path, ".width"), folder.width(), kMaxImageSide);
}

absl::Status CheckNormalization(const Normalization& normalization, const std::string& path) {
  for (int i = 0; i < normalization.mean_size(); ++i) {
    const double mean = normalization.mean(i);
    if (std::isfinite(static_cast<float>(mean))) continue;
    return FieldError(absl::StrCat(path, ".mean[", i, "]"), absl::StrCat(mean),
                      "a finite number that fits float32");
  }
  for (int i = 0; i < normalization.stddev_size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckPositive(absl::StrCat(path, ".stddev[", i, "]"), normalization.stddev(i)));
  }
  return absl::OkStatus();
}

absl::Status CheckAugmentation(const Augmentation& augmentation, const std::string& path) {
  return CheckNumber(absl::StrCat(path, ".crop_padding"), augmentation.crop_padding(), 0,
                     kMaxCropPadding);
}

}  // namespace millrace
