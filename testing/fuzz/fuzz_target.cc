#include "testing/fuzz/fuzz_target.h"

#include "absl/strings/str_cat.h"

namespace millrace::testing {

const std::vector<FuzzTarget>& FuzzTargets() {
  static const auto* const targets = new std::vector<FuzzTarget>{
      {"cifar", {}, FeedCifar},
      {"csv", {}, FeedCsv},
      {"gzip", {}, FeedGzip},
      {"idx", {}, FeedIdx},
      {"image", {}, FeedImage},
      {"job_field", {}, FeedJobField},
      {"job_message", {}, FeedJobMessage},
      {"job_text", {"examples"}, FeedJobText},
      {"keras", {"testing/reference/keras"}, FeedKeras},
      {"libsvm", {}, FeedLibsvm},
      {"numpy", {"testing/reference/data"}, FeedNumpy},
      {"safetensors", {}, FeedSafetensors},
      {"shard_copy", {}, FeedShardCopy},
      {"tf_example", {}, FeedTfExample},
      {"tfrecord", {"testing/reference/data"}, FeedTfRecord},
      {"wire", {}, FeedWire},
      {"zip", {"testing/reference/data"}, FeedZip},
  };
  return *targets;
}

std::vector<std::string> InputFolders(const FuzzTarget& target) {
  std::vector<std::string> folders = {absl::StrCat("testing/fuzz/corpus/", target.name)};
  folders.insert(folders.end(), target.more_inputs.begin(), target.more_inputs.end());
  return folders;
}

}  // namespace millrace::testing
