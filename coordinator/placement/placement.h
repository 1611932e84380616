// How a job's variables are divided into shards, and which ps server holds which.
#ifndef MILLRACE_COORDINATOR_PLACEMENT_PLACEMENT_H_
#define MILLRACE_COORDINATOR_PLACEMENT_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_field.h"
#include "protos/job.pb.h"

namespace millrace::coordinator {

using Variables = google::protobuf::RepeatedPtrField<VariableSpec>;

// A shard's part of the variables: runs of elements in the variables' order.
using ShardSlices = std::vector<Slice>;

// Elements of all variables. INVALID_ARGUMENT: there are none, or more than 2^62.
absl::StatusOr<uint64_t> CountElements(const Variables& variables);

// INVALID_ARGUMENT: more shards than `elements`. `shards` is PlacementSpec's; 0 is always right.
absl::Status CheckShardCount(uint32_t shards, uint64_t elements);

// Cuts the concatenation of the variables into `shards` runs whose sizes differ by at most one
// element; where shards have 64 Ki elements or more, at multiples of 16 elements instead (a cache
// line), so that sizes differ by at most 32. No slice is empty. REQUIRES: 1 <= shards <= elements.
std::vector<ShardSlices> DivideIntoShards(const Variables& variables, uint64_t shards);

// The same for each part between `boundaries`, where a shard must end and another begin: parts have
// shards by their sizes, each at least one. So there are more shards than `shards` where there are
// more parts. REQUIRES: `boundaries` grow, from 1 to below the number of elements; 1 <= shards <=
// elements.
std::vector<ShardSlices> DivideBetween(const Variables& variables, uint64_t shards,
                                       absl::Span<const uint64_t> boundaries);

// The same with each variable whole: runs of variables, of which the largest is as small as it can
// be. REQUIRES: `boundaries` are ends of variables; 1 <= shards <= variables.size().
std::vector<ShardSlices> DivideAtVariables(const Variables& variables, uint64_t shards,
                                           absl::Span<const uint64_t> boundaries);

// INVALID_ARGUMENT: more shards than variables, which stay whole because of the optimizer. `shards`
// is PlacementSpec's.
absl::Status CheckWholeShardCount(uint32_t shards, const Variables& variables);

// The variable that one of `boundaries` divides, or nullptr.
const VariableSpec* FindDivided(const Variables& variables, absl::Span<const uint64_t> boundaries);

uint64_t ElementsOf(const ShardSlices& slices);

// Gives each shard to a server: the one that then holds least, the first of several. `held`: what
// each server holds already, in elements. Returns the shards' servers, as indices into `held`.
// REQUIRES: held is not empty.
std::vector<size_t> AssignShards(absl::Span<const ShardSlices> shards, std::vector<uint64_t> held);

}  // namespace millrace::coordinator

#endif  // MILLRACE_COORDINATOR_PLACEMENT_PLACEMENT_H_
