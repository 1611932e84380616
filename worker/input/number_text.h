// Numbers as text files have them.
#ifndef MILLRACE_WORKER_INPUT_NUMBER_TEXT_H_
#define MILLRACE_WORKER_INPUT_NUMBER_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace millrace::worker {

// All of `word` as a number; a plus sign is allowed. What is too small for a double is 0, what is
// too large is infinite.
absl::optional<double> ParseNumber(absl::string_view word);

// A word of a file as it is shown in a message, shortened: whoever submits a job names its files,
// and shall not read in its messages what else is in the files of a worker's machine. So a word
// that is no number is only described: "a word of 5 bytes that is no number".
std::string ShowWord(absl::string_view word);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_NUMBER_TEXT_H_
