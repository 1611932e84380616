// Where a test writes.
#ifndef MILLRACE_TESTING_DIRECTORY_TEST_DIRECTORY_H_
#define MILLRACE_TESTING_DIRECTORY_TEST_DIRECTORY_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace millrace {

// The path of a directory that is the running test's alone. Another one for each `name`. It is not
// there: an earlier run's is removed.
inline std::string TestDirectory(absl::string_view name) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path path =
      absl::StrCat(::testing::TempDir(), "/", test.test_suite_name(), ".", test.name(), ".", name);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path.parent_path());  // Parameters make names with slashes.
  return path;
}

// The same, and it is there, empty.
inline std::string EmptyTestDirectory(absl::string_view name) {
  const std::string path = TestDirectory(name);
  std::filesystem::create_directory(path);
  return path;
}

// The files of a directory whose names end so (".sst"), in no particular order.
inline std::vector<std::filesystem::path> FilesIn(const std::string& directory,
                                                  absl::string_view extension) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension().string() == extension) files.push_back(entry.path());
  }
  return files;
}

}  // namespace millrace

#endif  // MILLRACE_TESTING_DIRECTORY_TEST_DIRECTORY_H_
