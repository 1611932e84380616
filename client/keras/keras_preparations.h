// Keras's layers that prepare data. Internal to client/keras.
#ifndef MILLRACE_CLIENT_KERAS_KERAS_PREPARATIONS_H_
#define MILLRACE_CLIENT_KERAS_KERAS_PREPARATIONS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace::client {

// What stands for such a layer in a job's data, or that nothing does: a sentence or more. Empty:
// Keras's class of that name does something else, or there is none.
std::string InPlaceOfPreparation(absl::string_view class_name);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_KERAS_KERAS_PREPARATIONS_H_
