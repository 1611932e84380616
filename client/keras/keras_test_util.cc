#include "client/keras/keras_test_util.h"

#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

// The library forgets some of its memory when it finds a file damaged.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5_serial.so\n"; }

namespace millrace::client {

std::string KerasSamplePath(const std::string& name) {
  return absl::StrCat("testing/reference/keras/", name);
}

std::string ReadKerasSample(const std::string& name) {
  std::ifstream file(KerasSamplePath(name), std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

absl::StatusOr<KerasFile> ReadTrainedFile(const std::string& end) {
  const std::string path = KerasSamplePath(absl::StrCat("trained.", end));
  if (KerasFormatOf(path) == KerasFormat::kHdf5) return ReadKerasHdf5(path);
  return ReadKerasArchive(path, /*with_weights=*/true);
}

std::string TrainedFileName(const ::testing::TestParamInfo<const char*>& file) {
  return absl::StrReplaceAll(file.param, {{".", "_"}});
}

std::string WriteKerasTestFile(const std::string& name, absl::string_view content) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << std::string(content);
  return path;
}

KerasModel ConvertOrFail(const std::string& json, const KerasModelOptions& options) {
  auto model = ConvertKerasModel(json, "model.json", options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : KerasModel();
}

std::string ConversionError(const std::string& json, const KerasModelOptions& options) {
  const absl::Status status = ConvertKerasModel(json, "model.json", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

void ExpectModel(const ModelSpec& actual, const std::string& text) {
  ModelSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, actual)) << difference;
}

std::string SequentialJson(const std::string& layers) {
  return absl::StrCat(R"({"class_name": "Sequential", "config": {"layers": [)", layers, "]}}");
}

}  // namespace millrace::client
