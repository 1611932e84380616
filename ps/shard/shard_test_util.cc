#include "ps/shard/shard_test_util.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace millrace::testing {

ShardSpec MakeSpec(const std::vector<uint64_t>& lengths, uint32_t replicas, uint64_t total_steps) {
  ShardSpec spec;
  spec.set_job_id("job");
  spec.set_replicas(replicas);
  spec.set_total_steps(total_steps);
  spec.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    ShardSlice& slice = *spec.add_slices();
    slice.mutable_slice()->set_variable(static_cast<uint32_t>(i));
    slice.mutable_slice()->set_length(lengths[i]);
    slice.set_variable_name(absl::StrCat("variable_", i));
    slice.mutable_initial_value()->set_constant(0);
  }
  return spec;
}

namespace {

std::vector<grpc::Slice> Cut(const void* bytes, size_t size, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < size; begin += slice_bytes) {
    slices.emplace_back(static_cast<const char*>(bytes) + begin,
                        std::min(slice_bytes, size - begin));
  }
  return slices;
}

}  // namespace

WirePiece MakeWirePiece(uint32_t slice, uint64_t offset, absl::Span<const float> values,
                        size_t slice_bytes) {
  return {slice, offset,
          FloatSlices(Cut(values.data(), values.size() * sizeof(float), slice_bytes))};
}

WirePiece MakeNarrowPiece(Encoding::Kind encoding, uint32_t slice, uint64_t offset,
                          absl::Span<const float> values, size_t slice_bytes) {
  std::vector<char> bytes(values.size() * WidthOf(encoding));
  CHECK_EQ(Narrow(values, encoding, bytes.data()), values.size());
  return {slice, offset, FloatSlices(Cut(bytes.data(), bytes.size(), slice_bytes), encoding)};
}

WirePiece MakeRowsPiece(uint32_t slice, uint64_t offset, uint64_t count, uint64_t width,
                        const std::vector<uint64_t>& rows, absl::Span<const float> values,
                        Encoding::Kind encoding) {
  // An odd number of bytes, so that numbers straddle slices.
  WirePiece piece = encoding == Encoding::FLOAT32
                        ? MakeWirePiece(slice, offset, values, /*slice_bytes=*/4099)
                        : MakeNarrowPiece(encoding, slice, offset, values, /*slice_bytes=*/4099);
  auto given = std::make_shared<PieceRows>();
  given->set_width(width);
  given->mutable_rows()->Add(rows.begin(), rows.end());
  given->set_count(count);
  given->set_encoding(encoding);
  piece.rows = std::move(given);
  return piece;
}

DecodedPush MakeMessage(const ShardSpec& spec, uint64_t step, uint64_t push_id, uint32_t examples) {
  DecodedPush message;
  message.header.set_job_id(spec.job_id());
  message.header.set_shard(spec.shard());
  message.header.set_generation(1);
  message.header.set_step(step);
  message.header.set_push_id(push_id);
  message.header.set_examples(examples);
  return message;
}

PushResponse PushWhole(ps::Shard* shard, uint64_t step, uint64_t push_id,
                       absl::Span<const float> gradient, uint32_t examples) {
  const ShardSpec& spec = shard->plan().spec;
  DecodedPush message = MakeMessage(spec, step, push_id, examples);
  size_t begin = 0;
  for (int i = 0; i < spec.slices_size(); ++i) {
    if (spec.slices(i).update().has_frozen()) continue;
    const size_t length = spec.slices(i).slice().length();
    message.pieces.push_back(
        MakeWirePiece(static_cast<uint32_t>(i), 0, gradient.subspan(begin, length)));
    begin += length;
  }
  PushResponse answer;
  const bool answered =
      shard->Push(/*stream=*/1, std::move(message), [&](const PushResponse& got) { answer = got; });
  CHECK(answered);
  return answer;
}

std::vector<float> Values(const ps::ShardState& state) {
  std::vector<float> values;
  for (const auto& block : state.blocks) {
    values.insert(values.end(), block->values().begin(), block->values().end());
  }
  return values;
}

ps::StatePtr Newest(ps::Shard* shard) { return shard->Contents().state; }

}  // namespace millrace::testing
