// Tables of testing/reference, for tests.
#ifndef MILLRACE_WORKER_DEVICE_MODEL_TESTS_REFERENCE_CASES_H_
#define MILLRACE_WORKER_DEVICE_MODEL_TESTS_REFERENCE_CASES_H_

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace millrace::worker {

// What is left of a line.
template <typename T>
std::vector<T> RestOf(std::istringstream* line) {
  std::vector<T> numbers;
  for (T number; *line >> number;) numbers.push_back(number);
  return numbers;
}

// The cases of a table: "case NAME" begins one, and `read_line` takes its other lines, each of
// which begins with a key. Case has a `name`.
template <typename Case>
std::vector<Case> ReadReferenceCases(
    const std::string& path,
    const std::function<void(const std::string& key, std::istringstream* line, Case* to)>&
        read_line) {
  std::ifstream file(path);
  std::vector<Case> cases;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string key;
    line >> key;
    if (key == "case") {
      cases.emplace_back();
      line >> cases.back().name;
    } else {
      read_line(key, &line, &cases.back());
    }
  }
  return cases;
}

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_DEVICE_MODEL_TESTS_REFERENCE_CASES_H_
