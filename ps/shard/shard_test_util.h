// What tests of the store share: specs, and pushes that need no wire.
#ifndef MILLRACE_PS_SHARD_SHARD_TEST_UTIL_H_
#define MILLRACE_PS_SHARD_SHARD_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/encoding.h"
#include "common/wire/tensor_codec.h"
#include "protos/parameter_server.pb.h"
#include "ps/dense/shard_state.h"
#include "ps/shard/shard.h"

namespace millrace::testing {

// A shard of job "job" with one slice for each length. Values start at 0; SGD with learning rate 1.
ShardSpec MakeSpec(const std::vector<uint64_t>& lengths, uint32_t replicas = 0,
                   uint64_t total_steps = 1'000'000);

// A piece whose bytes come in received slices of `slice_bytes` bytes each.
WirePiece MakeWirePiece(uint32_t slice, uint64_t offset, absl::Span<const float> values,
                        size_t slice_bytes = 64 << 10);

// The same, rounded to `encoding`. REQUIRES: FLOAT16 or BFLOAT16, which has room for all of them.
WirePiece MakeNarrowPiece(Encoding::Kind encoding, uint32_t slice, uint64_t offset,
                          absl::Span<const float> values, size_t slice_bytes = 64 << 10);

// A piece with rows, which stands for `count` elements; `values` are the rows'.
WirePiece MakeRowsPiece(uint32_t slice, uint64_t offset, uint64_t count, uint64_t width,
                        const std::vector<uint64_t>& rows, absl::Span<const float> values,
                        Encoding::Kind encoding = Encoding::FLOAT32);

// A message of a push, without pieces, at generation 1.
DecodedPush MakeMessage(const ShardSpec& spec, uint64_t step, uint64_t push_id,
                        uint32_t examples = 1);

// Pushes a whole gradient, the shard's elements that are not frozen one after the other, in one
// message on stream 1, and returns the answer. REQUIRES: no other push is under way.
PushResponse PushWhole(ps::Shard* shard, uint64_t step, uint64_t push_id,
                       absl::Span<const float> gradient, uint32_t examples = 1);

// All values, the shard's elements one after the other.
std::vector<float> Values(const ps::ShardState& state);

// The newest state.
ps::StatePtr Newest(ps::Shard* shard);

}  // namespace millrace::testing

#endif  // MILLRACE_PS_SHARD_SHARD_TEST_UTIL_H_
