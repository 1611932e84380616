// What the tests of this folder share.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_TEST_UTIL_H_
#define MILLRACE_CLIENT_KERAS_KERAS_TEST_UTIL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/keras/keras_model.h"
#include "protos/model.pb.h"

namespace millrace::client {

// The path of a file that Keras wrote: "trained.keras3.h5".
std::string KerasSamplePath(const std::string& name);
std::string ReadKerasSample(const std::string& name);

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
