#include "coordinator/placement/placement.h"

#include <algorithm>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr uint64_t kMaxElements = uint64_t{1} << 62;
constexpr uint64_t kAlignedShardElements = uint64_t{64} << 10;
constexpr uint64_t kAlignment = 16;

// 0 for a variable with more than kMaxElements elements.
uint64_t ElementsOf(const VariableSpec& variable) {
  uint64_t elements = 1;
  for (uint64_t dimension : variable.shape()) {
    if (dimension == 0 || elements > kMaxElements / dimension) return 0;
    elements *= dimension;
  }
  return elements;
}

// Where shard `shard` begins; for shard == shards, the end.
uint64_t Boundary(uint64_t elements, uint64_t shards, uint64_t shard) {
  const uint64_t exact =
      absl::Uint128Low64(absl::uint128(elements) * absl::uint128(shard) / absl::uint128(shards));
  if (shard == shards || elements / shards < kAlignedShardElements) return exact;
  return exact / kAlignment * kAlignment;
}

// How many shards each part has: the next one goes where shards are largest.
std::vector<uint64_t> ShardsOfParts(const std::vector<uint64_t>& sizes, uint64_t shards) {
  std::vector<uint64_t> counts(sizes.size(), 1);
  const auto has_smaller_shards = [&](const auto& a, const auto& b) {
    return absl::uint128(a.first) * b.second < absl::uint128(b.first) * a.second;
  };
  using Part = std::pair<uint64_t, uint64_t>;  // Elements and shards.
  for (uint64_t all = sizes.size(); all < shards; ++all) {
    size_t largest = 0;
    for (size_t part = 1; part < sizes.size(); ++part) {
      if (has_smaller_shards(Part(sizes[largest], counts[largest]),
                             Part(sizes[part], counts[part]))) {
        largest = part;
      }
    }
    ++counts[largest];
  }
  return counts;
}

// Cuts the concatenation of the variables where `ends` says; the last one is its end.
std::vector<ShardSlices> CutAt(const Variables& variables, const std::vector<uint64_t>& ends) {
  std::vector<ShardSlices> result(ends.size());
  size_t shard = 0;
  uint64_t position = 0;  // In the concatenation.
  for (int variable = 0; variable < variables.size(); ++variable) {
    const uint64_t size = ElementsOf(variables[variable]);
    for (uint64_t offset = 0; offset < size;) {
      while (position == ends[shard]) ++shard;
      Slice slice;
      slice.set_variable(variable);
      slice.set_offset(offset);
      slice.set_length(std::min(size - offset, ends[shard] - position));
      result[shard].push_back(slice);
      offset += slice.length();
      position += slice.length();
    }
  }
  return result;
}

// Where each variable ends in the concatenation.
std::vector<uint64_t> EndsOf(const Variables& variables) {
  std::vector<uint64_t> ends;
  uint64_t end = 0;
  for (const VariableSpec& variable : variables) ends.push_back(end += ElementsOf(variable));
  return ends;
}

// Where runs of whole variables end that are filled from the left with at most `size` elements each
// and end at `boundaries` too. Nothing: a variable is larger.
absl::optional<std::vector<uint64_t>> RunsOfVariables(const std::vector<uint64_t>& ends,
                                                      absl::Span<const uint64_t> boundaries,
                                                      uint64_t size) {
  std::vector<uint64_t> runs;
  uint64_t begin = 0;   // Of the run.
  uint64_t before = 0;  // Where the variable begins.
  for (const uint64_t end : ends) {
    if (end - before > size) return absl::nullopt;
    const bool at_boundary = !boundaries.empty() && boundaries.front() == before;
    if (at_boundary) boundaries.remove_prefix(1);
    if (at_boundary || end - begin > size) runs.push_back(begin = before);
    before = end;
  }
  runs.push_back(before);
  return runs;
}

// Divides the largest of the runs that have several variables where its parts are most equal.
// REQUIRES: there is one.
void DivideLargest(const std::vector<uint64_t>& ends, std::vector<uint64_t>* runs) {
  uint64_t largest = 0;
  uint64_t cut = 0;
  uint64_t begin = 0;
  for (const uint64_t end : *runs) {
    const auto first = std::upper_bound(ends.begin(), ends.end(), begin);
    const auto last = std::lower_bound(ends.begin(), ends.end(), end);
    if (first != last && end - begin > largest) {
      largest = end - begin;
      const auto larger_part = [&](uint64_t at) { return std::max(at - begin, end - at); };
      cut = *std::min_element(
          first, last, [&](uint64_t a, uint64_t b) { return larger_part(a) < larger_part(b); });
    }
    begin = end;
  }
  runs->insert(std::upper_bound(runs->begin(), runs->end(), cut), cut);
}

}  // namespace

absl::StatusOr<uint64_t> CountElements(const Variables& variables) {
  if (variables.empty()) return absl::InvalidArgumentError("model: it has no variables to train");
  uint64_t total = 0;
  for (const VariableSpec& variable : variables) {
    const uint64_t elements = ElementsOf(variable);
    if (elements == 0 || elements > kMaxElements - total) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name(),
                       "': must have at least one element, and all variables at most 2^62"));
    }
    total += elements;
  }
  return total;
}

absl::Status CheckShardCount(uint32_t shards, uint64_t elements) {
  if (shards <= elements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("placement.shards: ", shards, "; must be at most the number of elements of all ",
                   "variables, ", elements, " (0: one shard for each ps server)"));
}

std::vector<ShardSlices> DivideIntoShards(const Variables& variables, uint64_t shards) {
  return DivideBetween(variables, shards, {});
}

std::vector<ShardSlices> DivideBetween(const Variables& variables, uint64_t shards,
                                       absl::Span<const uint64_t> boundaries) {
  uint64_t elements = 0;
  for (const VariableSpec& variable : variables) elements += ElementsOf(variable);
  CHECK(1 <= shards && shards <= elements) << shards << " shards of " << elements << " elements";
  std::vector<uint64_t> parts(boundaries.begin(), boundaries.end());
  parts.push_back(elements);
  std::vector<uint64_t> sizes;
  uint64_t begin = 0;
  for (const uint64_t end : parts) {
    CHECK(begin < end) << "a part ends at " << end << ", where it begins at " << begin;
    sizes.push_back(end - std::exchange(begin, end));
  }
  const std::vector<uint64_t> counts = ShardsOfParts(sizes, shards);
  std::vector<uint64_t> ends;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (uint64_t shard = 1; shard <= counts[part]; ++shard) {
      ends.push_back(parts[part] - sizes[part] + Boundary(sizes[part], counts[part], shard));
    }
  }
  return CutAt(variables, ends);
}

std::vector<ShardSlices> DivideAtVariables(const Variables& variables, uint64_t shards,
                                           absl::Span<const uint64_t> boundaries) {
  CHECK(1 <= shards && shards <= static_cast<uint64_t>(variables.size()))
      << shards << " shards of " << variables.size() << " variables";
  CHECK(FindDivided(variables, boundaries) == nullptr) << "a boundary within a variable";
  const std::vector<uint64_t> ends = EndsOf(variables);
  const uint64_t parts = boundaries.size() + 1;
  // The least size at which so many shards suffice.
  uint64_t too_small = 0;
  uint64_t enough = ends.back();
  while (enough - too_small > 1) {
    const uint64_t size = too_small + (enough - too_small) / 2;
    const auto runs = RunsOfVariables(ends, boundaries, size);
    const bool suffice = runs.has_value() && runs->size() <= std::max(shards, parts);
    (suffice ? enough : too_small) = size;
  }
  std::vector<uint64_t> runs = *RunsOfVariables(ends, boundaries, enough);
  while (runs.size() < shards) DivideLargest(ends, &runs);
  return CutAt(variables, runs);
}

absl::Status CheckWholeShardCount(uint32_t shards, const Variables& variables) {
  if (shards <= static_cast<uint64_t>(variables.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "placement.shards: ", shards, "; must be at most the number of variables, ", variables.size(),
      ", since the optimizer needs the norms of whole variables (0: ",
      "one shard for each ps server, or fewer)"));
}

const VariableSpec* FindDivided(const Variables& variables, absl::Span<const uint64_t> boundaries) {
  const std::vector<uint64_t> ends = EndsOf(variables);
  for (const uint64_t boundary : boundaries) {
    const auto end = std::lower_bound(ends.begin(), ends.end(), boundary);
    if (*end != boundary) return &variables[static_cast<int>(end - ends.begin())];
  }
  return nullptr;
}

uint64_t ElementsOf(const ShardSlices& slices) {
  uint64_t elements = 0;
  for (const Slice& slice : slices) elements += slice.length();
  return elements;
}

std::vector<size_t> AssignShards(absl::Span<const ShardSlices> shards, std::vector<uint64_t> held) {
  CHECK(!held.empty());
  std::vector<size_t> servers;
  for (const ShardSlices& shard : shards) {
    const auto least = std::min_element(held.begin(), held.end());
    *least += ElementsOf(shard);
    servers.push_back(least - held.begin());
  }
  return servers;
}

}  // namespace millrace::coordinator
