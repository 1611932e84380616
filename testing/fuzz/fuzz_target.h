// What is fed with arbitrary bytes: everything that reads what comes from outside.
#ifndef MILLRACE_TESTING_FUZZ_FUZZ_TARGET_H_
#define MILLRACE_TESTING_FUZZ_FUZZ_TARGET_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::testing {

struct FuzzTarget {
  // "csv"; known inputs are in testing/fuzz/corpus/csv,
  std::string name;
  // and in these folders, below the root of the project.
  std::vector<std::string> more_inputs;
  // Ends the process where something is done with an input that must not be. Single-threaded.
  void (*feed)(absl::string_view input);
};

// Sorted by name.
const std::vector<FuzzTarget>& FuzzTargets();

// The folders of known inputs.
std::vector<std::string> InputFolders(const FuzzTarget& target);

// Formats of data.
void FeedCifar(absl::string_view input);
void FeedCsv(absl::string_view input);
void FeedGzip(absl::string_view input);
void FeedIdx(absl::string_view input);
void FeedImage(absl::string_view input);
void FeedLibsvm(absl::string_view input);
void FeedNumpy(absl::string_view input);
void FeedTfExample(absl::string_view input);
void FeedTfRecord(absl::string_view input);
void FeedZip(absl::string_view input);

// Jobs: as a file, as a message, and as what --set takes.
void FeedJobText(absl::string_view input);
void FeedJobMessage(absl::string_view input);
void FeedJobField(absl::string_view input);

// Other formats.
void FeedKeras(absl::string_view input);
void FeedSafetensors(absl::string_view input);
void FeedShardCopy(absl::string_view input);
void FeedWire(absl::string_view input);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTING_FUZZ_FUZZ_TARGET_H_
