// The fields of one of Keras's JSON objects, read one by one. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_CONFIG_H_
#define MILLRACE_CLIENT_KERAS_KERAS_CONFIG_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace millrace::client {

using KerasJson = nlohmann::ordered_json;

// "as it is in the file", shortened.
std::string ShowJson(const KerasJson& value);

// Remembers what was asked for, so that nothing is passed over. Errors are INVALID_ARGUMENT:
// "FIELD: VALUE; must be ALLOWED".
class KerasConfig {
 public:
  // `object` must outlive it. REQUIRES: it is an object.
  explicit KerasConfig(const KerasJson& object) : object_(object) {}

  // Null where the field is absent.
  const KerasJson& Take(const std::string& field);

  // Absent or null: `fallback`.
  absl::StatusOr<bool> TakeBool(const std::string& field, bool fallback);
  absl::StatusOr<double> TakeNumber(const std::string& field, double fallback);
  absl::StatusOr<std::string> TakeString(const std::string& field, const std::string& fallback);
  absl::StatusOr<uint32_t> TakeCount(const std::string& field);
  // One number or a list of them. Absent or null: none.
  absl::StatusOr<std::vector<uint32_t>> TakeCounts(const std::string& field);

  // The field is absent, null or one of `same`, which all mean that nothing special is asked for.
  absl::Status Expect(const std::string& field, const std::vector<KerasJson>& same);

  // Every field was taken, means nothing for what is computed, or is null, false or empty.
  absl::Status ExpectNothingElse() const;

 private:
  const KerasJson& object_;
  std::set<std::string> taken_;
};

absl::Status KerasFieldError(absl::string_view field, const KerasJson& value,
                             absl::string_view allowed);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_CONFIG_H_
