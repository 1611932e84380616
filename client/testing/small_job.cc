#include "client/testing/small_job.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace millrace::testing {

std::string WriteFile(const std::string& name, const std::string& text) {
  std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream file(path);
  file << text;
  CHECK(file.flush()) << path;
  return path;
}

std::string SmallJob() {
  return R"(
name: "small"
model {
  layers { name: "logit" dense { units: 1 } }
  loss: BINARY_CROSSENTROPY
  metrics: ACCURACY
}
data {
  train { libsvm { file: "examples.txt" features: 2 } }
  evaluate { libsvm { file: "examples.txt" features: 2 } }
}
optimizer { sgd { learning_rate: 0.5 } }
batch_size: 8
epochs: 3
seed: 7
)";
}

std::string SmallData() {
  const std::string directory = absl::StrCat(::testing::TempDir(), "/small_data");
  std::filesystem::create_directories(directory);
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const int x = i % 7 - 3;
    const int y = i % 5 - 2;
    absl::StrAppend(&text, x + y > 0 ? "+1" : "-1", " 1:", x, " 2:", y, "\n");
  }
  WriteFile("small_data/examples.txt", text);
  return directory;
}

}  // namespace millrace::testing
