// Writes the checkpoints that are kept in this folder, with what they must read as:
//   bazel run //testing/checkpoint:make_checkpoint -- $PWD/testing/checkpoint/v1
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>

#include "testing/checkpoint/kept_job.h"

namespace millrace::testing {
namespace {

// {"VARIABLE": {"values": [...], "SLOT": [...]}}
void WriteValues(const TestJob& job, const std::string& path) {
  std::ofstream file(path);
  file.precision(std::numeric_limits<float>::max_digits10);
  file << "{";
  for (size_t i = 0; i < job.variables.size(); ++i) {
    const TestVariable& variable = job.variables[i];
    file << (i == 0 ? "" : ",") << "\n  \"" << variable.name << "\": {";
    for (size_t array = 0; array < variable.arrays.size(); ++array) {
      file << (array == 0 ? "\"values\": [" : ", \"" + job.slots[array - 1] + "\": [");
      for (size_t j = 0; j < variable.arrays[array].size(); ++j) {
        file << (j == 0 ? "" : ", ") << variable.arrays[array][j];
      }
      file << "]";
    }
    file << "}";
  }
  file << "\n}\n";
}

int Main(const std::string& directory) {
  std::filesystem::create_directories(directory);
  absl::StatusOr<uint64_t> number =
      WriteTestCheckpoint(RealFileSystem(), directory, KeptJobBefore());
  if (number.ok()) number = WriteTestCheckpoint(RealFileSystem(), directory, KeptJob(), *number);
  if (!number.ok()) {
    std::cerr << number.status() << std::endl;
    return 1;
  }
  WriteValues(KeptJob(), directory + "/values.json");
  return 0;
}

}  // namespace
}  // namespace millrace::testing

int main(int argc, char** argv) {
  if (argc == 2) return millrace::testing::Main(argv[1]);
  std::cerr << "usage: make_checkpoint DIRECTORY" << std::endl;
  return 2;
}
