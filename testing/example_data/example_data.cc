#include "testing/example_data/example_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::testing {
namespace {

using Write = absl::Status (*)(const std::string& directory, uint64_t seed);

constexpr std::pair<const char*, Write> kSets[] = {
    {"census_csv", WriteCensus},
    {"census_wide_deep", WriteCensus},
    {"image_folder", WriteShapes},
    {"movielens_mf", WriteRatings},
    {"regression_csv", WriteRegressionData},
    {"two_inputs", WriteTwoInputs},
};

}  // namespace

absl::Status WriteExampleData(const std::string& directory, uint64_t seed) {
  for (const auto& [name, write] : kSets) {
    MILLRACE_RETURN_IF_ERROR(write(absl::StrCat(directory, "/", name), seed));
  }
  return absl::OkStatus();
}

}  // namespace millrace::testing
