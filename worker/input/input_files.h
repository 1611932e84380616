// The names of a set's files.
#ifndef MILLRACE_WORKER_INPUT_INPUT_FILES_H_
#define MILLRACE_WORKER_INPUT_INPUT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::worker {

// One name of a file and the field of the job that has it, as InputFile::Open takes them.
struct NamedFile {
  std::string name;
  std::string field;  // "data.train.cifar.files", or "data.train.cifar.files[1]" of several.
};

// Puts in place of each shell pattern ("train-*.bin") the files in `directory` that it matches, by
// their whole names, sorted by bytes. A name that is there, with or without .gz, is no pattern.
// Blocks while it reads folders. INVALID_ARGUMENT: a pattern that matches nothing. UNAVAILABLE: a
// folder cannot be read. What is no pattern is not looked for.
absl::StatusOr<std::vector<NamedFile>> FindFiles(const std::string& directory,
                                                 absl::Span<const std::string> names,
                                                 const std::string& field);

// For messages about all of them: "a.bin", or "a.bin to c.bin (3 files)". REQUIRES: not empty.
std::string NameAll(const std::vector<NamedFile>& files);

}  // namespace millrace::worker

#endif  // MILLRACE_WORKER_INPUT_INPUT_FILES_H_
