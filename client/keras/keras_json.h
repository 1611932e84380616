// JSON as Keras writes it, from text and piece by piece. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_JSON_H_
#define MILLRACE_CLIENT_KERAS_KERAS_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace millrace::client {

using KerasJson = nlohmann::ordered_json;

// INVALID_ARGUMENT: "FILE:LINE:COLUMN: not JSON", both counted from 1; or it is deeper than any
// model of Keras's: what walks through the result may call itself.
absl::StatusOr<KerasJson> ParseKerasJson(absl::string_view text, const std::string& file_name);

// Null: it is not there, or no object.
const KerasJson* FindObject(const KerasJson& json, const char* field);
// Empty: it is not there, or no string.
std::string TextAt(const KerasJson& json, const char* field);
// An empty list: it is not there, or no list.
const KerasJson& ListAt(const KerasJson& json, const char* field);
// Null: it is not there.
const KerasJson& ValueAt(const KerasJson& json, const char* field);

// Of an object whose class is not Keras's own: its name with its package or its module, as no class
// of Keras's is called: "my>Dense", "Dropout (module null)". Empty: it is Keras's, or has no class.
std::string OwnKerasClass(const KerasJson& object);
// The class of any object: "Dense", or one of the above. Empty: it has none.
std::string KerasClassName(const KerasJson& object);

// "as it is in the file", shortened.
std::string ShowJson(const KerasJson& value);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_JSON_H_
