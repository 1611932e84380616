// What the tests of this folder share.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_TEST_UTIL_H_
#define MILLRACE_CLIENT_KERAS_KERAS_TEST_UTIL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/keras/keras_file.h"
#include "client/keras/keras_model.h"
#include "gtest/gtest.h"
#include "protos/model.pb.h"

namespace millrace::client {

// The path of a file that Keras wrote: "trained.keras3.h5".
std::string KerasSamplePath(const std::string& name);
std::string ReadKerasSample(const std::string& name);

// The whole files of one model: "trained." and one of these.
inline constexpr const char* kTrainedFiles[] = {"keras2.keras", "keras2.h5", "keras3.keras",
                                                "keras3.h5"};
absl::StatusOr<KerasFile> ReadTrainedFile(const std::string& end);
// Of a test of such a file: "keras2_h5".
std::string TrainedFileName(const ::testing::TestParamInfo<const char*>& file);

// A file of a temporary directory; returns its path.
std::string WriteKerasTestFile(const std::string& name, absl::string_view content);

// Fails the test where it cannot be converted.
KerasModel ConvertOrFail(const std::string& json, const KerasModelOptions& options = {});
// The message. Fails the test where it can be, or the status is another one.
std::string ConversionError(const std::string& json, const KerasModelOptions& options = {});

// `text`: a ModelSpec.
void ExpectModel(const ModelSpec& actual, const std::string& text);

// A Sequential model's JSON, of its layers'.
std::string SequentialJson(const std::string& layers);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_TEST_UTIL_H_
