#include "ps/ps_test_util.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/wire/encoding.h"
#include "common/wire/piece_elements.h"
#include "gtest/gtest.h"

namespace millrace::testing {

PushRequest MakePush(const ShardSpec& spec, uint64_t step, uint64_t push_id,
                     const std::vector<PieceRange>& ranges, float value) {
  PushRequest request;
  request.set_job_id(spec.job_id());
  request.set_shard(spec.shard());
  request.set_generation(1);
  request.set_step(step);
  request.set_push_id(push_id);
  request.set_examples(1);
  for (const PieceRange& range : ranges) {
    const std::vector<float> values(range.count, value);
    Piece& piece = *request.add_pieces();
    piece.set_slice(range.slice);
    piece.set_offset(range.offset);
    piece.set_data(values.data(), values.size() * sizeof(float));
  }
  return request;
}

PushRequest EncodedAs(Encoding::Kind encoding, PushRequest push) {
  if (encoding == Encoding::FLOAT32) return push;
  for (Piece& piece : *push.mutable_pieces()) {
    std::vector<float> values(piece.data().size() / sizeof(float));
    std::memcpy(values.data(), piece.data().data(), piece.data().size());
    std::string bytes(values.size() * WidthOf(encoding), '\0');
    EXPECT_EQ(Narrow(values, encoding, &bytes[0]), values.size()) << "a value does not fit";
    SetElements(encoding, std::move(bytes), &piece);
  }
  return push;
}

std::vector<PieceRange> WholeShard(const ShardSpec& spec) {
  std::vector<PieceRange> ranges;
  for (int i = 0; i < spec.slices_size(); ++i) {
    ranges.push_back({static_cast<uint32_t>(i), 0, spec.slices(i).slice().length()});
  }
  return ranges;
}

absl::optional<PushResponse> Pusher::Read() {
  PushResponse response;
  if (!stream_->Read(&response)) return absl::nullopt;
  return response;
}

PushResponse Pusher::Push(const PushRequest& request) {
  if (!Write(request)) ADD_FAILURE() << "the stream has ended";
  const absl::optional<PushResponse> response = Read();
  if (!response.has_value()) {
    ADD_FAILURE() << "no answer";
    return PushResponse();
  }
  return *response;
}

void Puller::Take(const Piece& piece, Pulled* pulled) const {
  const Encoding::Kind encoding = EncodingOf(piece);
  const std::string& bytes = ElementsOf(piece);
  std::vector<float> values(bytes.size() / WidthOf(encoding));
  Widen(encoding, bytes.data(), absl::MakeSpan(values));
  pulled->elements += values.size();
  pulled->bytes += bytes.size();
  std::vector<float>& slice = pulled->slices.at(piece.slice());
  if (!piece.has_rows()) {
    std::copy(values.begin(), values.end(), slice.begin() + piece.offset());
    return;
  }
  const uint64_t first =
      spec_.slices(static_cast<int>(piece.slice())).slice().offset() + piece.offset();
  auto next = values.begin();
  for (const uint64_t row : piece.rows().rows()) {
    for (uint64_t i = row * piece.rows().width(); i < (row + 1) * piece.rows().width(); ++i) {
      if (i >= first && i - first < piece.rows().count()) {
        slice.at(i - first + piece.offset()) = *next++;
      }
    }
  }
  EXPECT_EQ(next, values.end()) << "rows' elements, and no others";
}

PushRequest MakeRowsPush(const ShardSpec& spec, uint64_t step, uint64_t push_id, uint64_t width,
                         const std::vector<uint64_t>& rows, float value) {
  PushRequest push = MakePush(spec, step, push_id, WholeShard(spec), value);
  for (Piece& piece : *push.mutable_pieces()) {
    const Slice& slice = spec.slices(static_cast<int>(piece.slice())).slice();
    piece.clear_elements();
    piece.mutable_rows()->set_width(width);
    piece.mutable_rows()->set_count(slice.length());
    std::string given;
    for (const uint64_t row : rows) {
      const uint64_t begin = std::max(row * width, slice.offset());
      const uint64_t end = std::min((row + 1) * width, slice.offset() + slice.length());
      if (begin >= end) continue;
      piece.mutable_rows()->add_rows(row);
      for (uint64_t i = begin; i < end; ++i) {
        given.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
    piece.set_row_elements(given);
  }
  return push;
}

bool Puller::Read(PullResponse* response) {
  if (!stream_->Read(response)) return false;
  EXPECT_EQ(response->pull_id(), received_ + 1);
  if (response->last()) ++received_;
  return true;
}

Pulled Puller::Receive() {
  Pulled pulled;
  for (const ShardSlice& slice : spec_.slices()) {
    pulled.slices.emplace_back(slice.slice().length());
  }
  PullResponse response;
  while (Read(&response)) {
    ++pulled.messages;
    pulled.code = response.code();
    pulled.message = response.message();
    pulled.version = response.version();
    pulled.encoding = response.encoding();
    pulled.knows_rows = response.knows_rows();
    for (const Piece& piece : response.pieces()) {
      Take(piece, &pulled);
    }
    if (response.last()) return pulled;
  }
  ADD_FAILURE() << "the stream has ended";
  return pulled;
}

Pulled Puller::Pull(const PullRequest& request) {
  Send(request);
  return Receive();
}

Pulled Puller::Pull() { return Pull(MakePull(spec_)); }

PullRequest MakePull(const ShardSpec& spec) {
  PullRequest request;
  request.set_job_id(spec.job_id());
  request.set_shard(spec.shard());
  request.set_generation(1);
  return request;
}

}  // namespace millrace::testing
