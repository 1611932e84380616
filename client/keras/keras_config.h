// The fields of one of Keras's JSON objects, read one by one. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_CONFIG_H_
#define MILLRACE_CLIENT_KERAS_KERAS_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/keras/keras_json.h"

namespace millrace::client {

// What a layer's fields alone do not tell.
struct KerasSurroundings {
  // How many dimensions the layer's input has, with the batch's. 0: not known.
  size_t input_rank = 0;
  // Initial values are given elsewhere: initializers that cannot be converted are left out, and
  // named here. Null: they cannot be left out.
  std::vector<std::string>* left_out = nullptr;
};

// Remembers what was asked for, so that nothing is passed over. Errors are INVALID_ARGUMENT:
// "FIELD: VALUE; must be ALLOWED".
class KerasConfig {
 public:
  // `object` must outlive it. REQUIRES: it is an object.
  explicit KerasConfig(const KerasJson& object, const KerasSurroundings& around = {})
      : object_(object), around_(around) {}

  const KerasSurroundings& around() const { return around_; }

  // Null where the field is absent.
  const KerasJson& Take(const std::string& field);

  // Absent or null: `fallback`.
  absl::StatusOr<bool> TakeBool(const std::string& field, bool fallback);
  absl::StatusOr<double> TakeNumber(const std::string& field, double fallback);
  // Absent or null: an error.
  absl::StatusOr<double> TakeNumber(const std::string& field);
  absl::StatusOr<std::string> TakeString(const std::string& field, const std::string& fallback);
  absl::StatusOr<uint32_t> TakeCount(const std::string& field);
  // One number or a list of them. Absent or null: none.
  absl::StatusOr<std::vector<uint32_t>> TakeCounts(const std::string& field);

  // The same of one dimension: a number, or a list of one. Absent or null: 0.
  absl::StatusOr<uint32_t> TakeCountOfOne(const std::string& field);

  // The field is absent, null or one of `same`, which all mean that nothing special is asked for.
  absl::Status Expect(const std::string& field, const std::vector<KerasJson>& same);

  // The field names the input's last dimension, from the front or as -1, alone or as a list of one.
  // Absent or null: it does. Where the rank is not known, only -1 does.
  absl::Status ExpectLastAxis(const std::string& field);

  // Every field was taken, means nothing for what is computed, or is null, false or empty.
  absl::Status ExpectNothingElse() const;

 private:
  const KerasJson& object_;
  const KerasSurroundings around_;
  std::set<std::string> taken_;
};

// What whoever wrote a class may do.
inline constexpr char kOwnCodeNeedsAWorker[] =
    "Code of your own (a Lambda, a custom class) needs a worker of your own";

// Of an object whose class is not Keras's own the value is that class.
absl::Status KerasFieldError(absl::string_view field, const KerasJson& value,
                             absl::string_view allowed);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_CONFIG_H_
