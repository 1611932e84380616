#include "coordinator/checkpoint/restore_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/util/message_differencer.h"

namespace millrace::coordinator {
namespace {

using ::google::protobuf::util::MessageDifferencer;

// A variable's place among all elements.
struct Place {
  uint64_t begin = 0;
  uint64_t length = 0;
};
using Places = std::map<std::string, Place>;

absl::StatusOr<Places> PlacesOf(const JobPlan& plan) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  Places places;
  uint64_t begin = 0;
  for (const VariableSpec& variable : plan.variables()) {
    uint64_t length = 1;
    for (const uint64_t dimension : variable.shape()) {
      if (dimension == 0 || length > kMost / dimension) {
        return absl::DataLossError(
            absl::StrCat("the manifest's variable '", variable.name(), "' has no size"));
      }
      length *= dimension;
    }
    if (length > kMost - begin)
      return absl::DataLossError("the manifest's variables are too large");
    places[variable.name()] = {begin, length};
    begin += length;
  }
  return places;
}

// Elements [begin, end) of all.
struct Run {
  uint64_t begin = std::numeric_limits<uint64_t>::max();
  uint64_t end = 0;
};

absl::StatusOr<Run> RunOf(const ShardRecord& record, const Places& places) {
  Run run;
  uint64_t elements = 0;
  for (const StoredBlock& block : record.blocks()) {
    const auto place = places.find(block.variable());
    if (place == places.end() || block.offset() > place->second.length ||
        block.length() > place->second.length - block.offset()) {
      return absl::DataLossError(absl::StrCat("shard ", record.shard(), " has elements of '",
                                              block.variable(),
                                              "' that the manifest's variables have not"));
    }
    const uint64_t begin = place->second.begin + block.offset();
    run.begin = std::min(run.begin, begin);
    run.end = std::max(run.end, begin + block.length());
    elements += block.length();
  }
  if (record.blocks().empty() || run.end - run.begin != elements) {
    return absl::DataLossError(
        absl::StrCat("shard ", record.shard(), " is not one run of the variables' elements"));
  }
  return run;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> FindBoundaries(const CheckpointManifest& manifest,
                                                     absl::Span<const ShardRecord> records) {
  std::vector<uint64_t> boundaries;
  if (manifest.exact()) return boundaries;
  MILLRACE_ASSIGN_OR_RETURN(const Places places, PlacesOf(manifest.plan()));
  uint64_t end = 0;
  for (size_t shard = 0; shard < records.size(); ++shard) {
    MILLRACE_ASSIGN_OR_RETURN(const Run run, RunOf(records[shard], places));
    if (run.begin != end) {
      return absl::DataLossError(absl::StrCat("shard ", records[shard].shard(),
                                              " begins at element ", run.begin,
                                              ", and the one before ends at ", end));
    }
    if (shard > 0 &&
        !MessageDifferencer::Equals(records[shard - 1].applied(), records[shard].applied())) {
      boundaries.push_back(run.begin);
    }
    end = run.end;
  }
  return boundaries;
}

}  // namespace millrace::coordinator
