#include "coordinator/placement/placement.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
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
  uint64_t elements = 0;
  for (const VariableSpec& variable : variables) elements += ElementsOf(variable);
  CHECK(1 <= shards && shards <= elements) << shards << " shards of " << elements << " elements";
  std::vector<ShardSlices> result(shards);
  uint64_t shard = 0;
  uint64_t position = 0;  // In the concatenation.
  for (int variable = 0; variable < variables.size(); ++variable) {
    const uint64_t size = ElementsOf(variables[variable]);
    for (uint64_t offset = 0; offset < size;) {
      while (position == Boundary(elements, shards, shard + 1)) ++shard;
      Slice slice;
      slice.set_variable(variable);
      slice.set_offset(offset);
      slice.set_length(std::min(size - offset, Boundary(elements, shards, shard + 1) - position));
      result[shard].push_back(slice);
      offset += slice.length();
      position += slice.length();
    }
  }
  return result;
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
