#include "worker/parameters/shard_layout.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::worker {
namespace {

absl::Status CheckSlice(const Slice& slice, absl::Span<const uint64_t> variable_sizes,
                        const std::string& path) {
  if (slice.variable() >= variable_sizes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".variable: ", slice.variable(),
                                                   "; the job has ", variable_sizes.size(),
                                                   " variables"));
  }
  if (slice.length() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".length: 0; must be at least 1"));
  }
  const uint64_t size = variable_sizes[slice.variable()];
  if (slice.offset() > size || slice.length() > size - slice.offset()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": elements [", slice.offset(), ", ", slice.offset(), " + ",
                     slice.length(), ") of variable ", slice.variable(), ", which has ", size));
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardLayout> MakeShard(const ShardRoute& route,
                                      absl::Span<const uint64_t> variable_sizes,
                                      const std::vector<bool>& frozen, const std::string& path) {
  if (route.address().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".address: empty; must be HOST:PORT"));
  }
  if (route.slices().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".slices: empty; a shard has at least one"));
  }
  ShardLayout shard = {route.shard(),
                       route.server(),
                       route.address(),
                       {route.slices().begin(), route.slices().end()}};
  for (size_t i = 0; i < shard.slices.size(); ++i) {
    MILLRACE_RETURN_IF_ERROR(
        CheckSlice(shard.slices[i], variable_sizes, absl::StrCat(path, ".slices[", i, "]")));
    const uint64_t length = shard.slices[i].length();
    shard.elements += length;
    if (frozen.empty() || !frozen[shard.slices[i].variable()]) shard.pushed += length;
  }
  return shard;
}

// `locations` are in the order of their offsets.
absl::Status CheckCoverage(const Layout& layout, size_t variable, uint64_t size,
                           const std::vector<SliceLocation>& locations) {
  uint64_t covered = 0;
  for (const SliceLocation& location : locations) {
    const Slice& slice = layout.shards[location.shard].slices[location.slice];
    if (slice.offset() != covered) {
      return absl::InvalidArgumentError(absl::StrCat(
          "routing: element ", std::min(slice.offset(), covered), " of variable ", variable,
          slice.offset() > covered ? " is in no shard" : " is in two slices"));
    }
    covered += slice.length();
  }
  if (covered == size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("routing: element ", covered, " of variable ", variable, " is in no shard"));
}

}  // namespace

std::string ShardLayout::Describe() const {
  return absl::StrCat(server.empty() ? "ps" : server, " (", address, "), shard ", shard);
}

uint64_t Layout::SizeOf(size_t variable) const {
  if (variables[variable].empty()) return 0;
  const SliceLocation& last = variables[variable].back();
  const Slice& slice = shards[last.shard].slices[last.slice];
  return slice.offset() + slice.length();
}

absl::StatusOr<Layout> MakeLayout(absl::Span<const uint64_t> variable_sizes, const Routing& routing,
                                  const std::vector<bool>& frozen) {
  Layout layout;
  layout.generation = routing.generation();
  layout.variables.resize(variable_sizes.size());
  absl::flat_hash_set<uint32_t> numbers;
  for (int i = 0; i < routing.shards_size(); ++i) {
    const std::string path = absl::StrCat("routing.shards[", i, "]");
    MILLRACE_ASSIGN_OR_RETURN(ShardLayout shard,
                              MakeShard(routing.shards(i), variable_sizes, frozen, path));
    if (!numbers.insert(shard.shard).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".shard: ", shard.shard, " is given twice"));
    }
    for (size_t j = 0; j < shard.slices.size(); ++j) {
      layout.variables[shard.slices[j].variable()].push_back({layout.shards.size(), j});
    }
    layout.shards.push_back(std::move(shard));
  }
  for (size_t i = 0; i < variable_sizes.size(); ++i) {
    std::vector<SliceLocation>& locations = layout.variables[i];
    const auto offset = [&layout](const SliceLocation& location) {
      return layout.shards[location.shard].slices[location.slice].offset();
    };
    std::sort(locations.begin(), locations.end(),
              [&](const auto& a, const auto& b) { return offset(a) < offset(b); });
    MILLRACE_RETURN_IF_ERROR(CheckCoverage(layout, i, variable_sizes[i], locations));
  }
  return layout;
}

}  // namespace millrace::worker
