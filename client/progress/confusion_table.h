// Confusion matrices as tables for people.
#ifndef MILLRACE_CLIENT_PROGRESS_CONFUSION_TABLE_H_
#define MILLRACE_CLIENT_PROGRESS_CONFUSION_TABLE_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "protos/events.pb.h"

namespace millrace::client {

// The lines of a table, such as
//   "confusion matrix of digits (rows: labels, columns: what the model says):"
//   "           0      1"
//   "    0  4,971     29"
//   "    1     12  4,988"
// One line that says so where there are too many classes to read, or the message is not whole.
std::vector<std::string> ConfusionTable(const ConfusionMatrix& matrix);

// {"output": "digits", "counts": [[4971, 29], [12, 4988]]}
nlohmann::ordered_json ConfusionJson(const ConfusionMatrix& matrix);

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_PROGRESS_CONFUSION_TABLE_H_
