// A job small enough for tests, and its data.
#ifndef MILLRACE_CLIENT_TESTING_SMALL_JOB_H_
#define MILLRACE_CLIENT_TESTING_SMALL_JOB_H_

#include <string>

namespace millrace::testing {

// Writes `text` to a new file `name` in ::testing::TempDir() and returns its path.
std::string WriteFile(const std::string& name, const std::string& text);

// A logistic regression on two features, 3 epochs of 40 examples in batches of 8, evaluated at the
// end on the same; text format. Its data is SmallData's.
std::string SmallJob();

// Makes a directory that holds the job's examples, which a line divides, and returns its path.
std::string SmallData();

}  // namespace millrace::testing

#endif  // MILLRACE_CLIENT_TESTING_SMALL_JOB_H_
