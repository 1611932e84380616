#include "worker/device/cuda/gradient_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "worker/device/cuda/mirrored_memory.h"

namespace millrace::worker {
namespace {

using cuda::Stream;

constexpr size_t kAlignment = 256;  // Of pieces, in bytes.

float* Floats(char* memory) { return reinterpret_cast<float*>(memory); }

}  // namespace

GradientExchange::GradientExchange(const std::vector<GradientBucket>& buckets,
                                   std::vector<Member> members, cuda::PieceSums* sums,
                                   const VariablePlaces& places, const HostVariables& host,
                                   size_t* at_work)
    : buckets_(buckets),
      sums_(sums),
      places_(places),
      host_(host),
      at_work_(at_work),
      states_(members.size()) {
  for (size_t i = 0; i < members.size(); ++i) {
    State& state = At(i);
    state.member = members[i];
    cuda::Gpu* const gpu = state.member.gpu;
    state.exchanged = gpu->MakeEvent();
    state.copied = gpu->MakeEvent();
    for (size_t b = 0; b < buckets.size(); ++b) {
      state.buckets.push_back(
          {gpu->MakeEvent(), gpu->MakeEvent(), gpu->MakeEvent(), gpu->MakeEvent()});
    }
    for (size_t k = 0; k < members.size(); ++k) {
      if (k != i) gpu->Reach(*members[k].gpu);
    }
  }
}

size_t GradientExchange::ReceivedBytes(const std::vector<GradientBucket>& buckets, size_t members) {
  size_t bytes = 0;
  for (const GradientBucket& bucket : buckets) {
    for (size_t pieces = 2; pieces <= members; ++pieces) {
      bytes = std::max(bytes, (pieces - 1) * PieceOf(bucket, 0, pieces).bytes);
    }
  }
  return bytes;
}

GradientExchange::State& GradientExchange::At(size_t member) const {
  *at_work_ = member;
  return states_[member];
}

GradientExchange::Piece GradientExchange::PieceOf(const GradientBucket& bucket, size_t piece,
                                                  size_t pieces) {
  const size_t share = (bucket.bytes() + pieces - 1) / pieces;
  const size_t most = MemoryLayout::AlignUp(share, kAlignment);
  const size_t begin = std::min(piece * most, bucket.bytes());
  return {begin, std::min(most, bucket.bytes() - begin)};
}

void GradientExchange::Begin(size_t taking_part, const GradientPlaces& to) {
  taking_part_ = taking_part;
  to_ = to;
  for (const size_t variable : places_.order) {
    const absl::Span<float> own = host_.gradient(variable);
    if (own.size() * sizeof(float) < kLeastDirectBytes) to_[variable] = own.data();
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    State& state = At(i);
    state.member.gpu->Record(Stream::kExchange, state.exchanged.get());
    state.member.gpu->Record(Stream::kCopyOut, state.copied.get());
  }
  for (size_t i = 0; i < taking_part; ++i) {
    State& state = At(i);
    state.member.gpu->WaitFor(Stream::kExchange, *state.copied);
    state.member.gpu->CopyIn(Stream::kExchange, state.member.marks, state.member.unmarked,
                             MarksBytes(buckets_));
    for (const State& other : states_) {
      state.member.gpu->WaitFor(Stream::kCompute, *other.exchanged);
      state.member.gpu->WaitFor(Stream::kCompute, *other.copied);
    }
  }
}

void GradientExchange::Enqueue(size_t bucket) {
  for (size_t i = 0; i < taking_part_; ++i) {
    State& state = At(i);
    state.member.gpu->Record(Stream::kCompute, state.buckets[bucket].final.get());
  }
  for (size_t i = 0; i < taking_part_; ++i) {
    for (size_t k = 0; k < taking_part_; ++k) {
      At(i).member.gpu->WaitFor(Stream::kExchange, *states_[k].buckets[bucket].final);
    }
  }
  if (sums_ != nullptr && taking_part_ == states_.size()) {
    EnqueueSums(bucket);
  } else if (taking_part_ > 1) {
    for (size_t i = 0; i < taking_part_; ++i) EnqueueSum(bucket, i);
  }
  for (size_t i = 0; i < taking_part_; ++i) EnqueueCopies(bucket, i);
}

std::vector<const float*> GradientExchange::Gather(const GradientBucket& bucket, const Piece& piece,
                                                   size_t member) const {
  const Member& here = states_[member].member;
  const auto part_of = [&](size_t i) {
    return states_[i].member.gradients + bucket.begin + piece.begin;
  };
  char* slot = here.received;
  std::vector<const float*> parts(taking_part_);
  parts[member] = Floats(part_of(member));
  // Each begins with the one behind it, so that they do not all read from the same one at a time.
  for (size_t k = 1; k < taking_part_; ++k) {
    const size_t i = (member + k) % taking_part_;
    here.gpu->CopyFrom(Stream::kExchange, slot, *states_[i].member.gpu, part_of(i), piece.bytes);
    parts[i] = Floats(slot);
    slot += piece.bytes;
  }
  return parts;
}

void GradientExchange::EnqueueSum(size_t index, size_t member) {
  const GradientBucket& bucket = buckets_[index];
  const Piece piece = PieceOf(bucket, member, taking_part_);
  if (piece.bytes == 0) return;
  const Member& here = At(member).member;
  here.gpu->Sum(Stream::kExchange, Gather(bucket, piece, member), piece.bytes / sizeof(float),
                Floats(here.gradients + bucket.begin + piece.begin));
}

// Pieces are equal, as VariablePlaces says.
void GradientExchange::EnqueueSums(size_t index) {
  const GradientBucket& bucket = buckets_[index];
  const Piece piece = PieceOf(bucket, 0, taking_part_);
  if (piece.bytes == 0) return;
  std::vector<float*> arrays;
  for (const State& state : states_) {
    arrays.push_back(Floats(state.member.gradients + bucket.begin));
  }
  sums_->Enqueue(Stream::kExchange, arrays, piece.bytes / sizeof(float));
}

// The model's own gradients stand on the host as on the GPU. What is between two of them is
// nobody's: it may be copied along.
std::vector<GradientExchange::Copy> GradientExchange::CopiesOf(const GradientBucket& bucket,
                                                               const Piece& piece) const {
  const size_t begin = bucket.begin + piece.begin;
  std::vector<Copy> copies;
  bool last_is_own = false;
  for (const size_t variable : bucket.variables) {
    const size_t place = places_.gradients[variable];
    const size_t first = std::max(begin, place);
    const size_t end =
        std::min(begin + piece.bytes, place + places_.elements[variable] * sizeof(float));
    if (first >= end) continue;
    const bool is_own = to_[variable] == host_.gradient(variable).data();
    if (is_own && last_is_own) {
      copies.back().end = end;
    } else {
      copies.push_back({reinterpret_cast<char*>(to_[variable]) + (first - place), first, end});
    }
    last_is_own = is_own;
  }
  return copies;
}

// The piece is looked at while it is copied, on another stream; its mark waits for both.
void GradientExchange::EnqueueCopies(size_t index, size_t member) {
  const GradientBucket& bucket = buckets_[index];
  const Piece piece = PieceOf(bucket, member, taking_part_);
  State& state = At(member);
  OfBucket& events = state.buckets[index];
  cuda::Gpu* const gpu = state.member.gpu;
  gpu->Record(Stream::kExchange, events.summed.get());
  gpu->WaitFor(Stream::kCopyOut, *events.summed);
  for (const Copy& copy : CopiesOf(bucket, piece)) {
    gpu->CopyOut(Stream::kCopyOut, copy.to, state.member.gradients + copy.begin,
                 copy.end - copy.begin);
  }
  uint64_t* const mark = state.member.marks + index;
  gpu->MarkNotFinite(Stream::kExchange, Floats(state.member.gradients + bucket.begin + piece.begin),
                     piece.bytes / sizeof(float), mark);
  gpu->Record(Stream::kExchange, events.looked_at.get());
  gpu->WaitFor(Stream::kCopyOut, *events.looked_at);
  gpu->CopyOut(Stream::kCopyOut, state.member.marks_copied + index, mark, sizeof(uint64_t));
  gpu->Record(Stream::kCopyOut, events.copied.get());
}

// The passes first: a GPU that is lost then says so itself, and no other waits for it.
bool GradientExchange::Await(size_t bucket, double seconds) const {
  return Await(bucket, &OfBucket::final, seconds) && Await(bucket, &OfBucket::copied, seconds);
}

bool GradientExchange::Await(size_t bucket, std::unique_ptr<cuda::Event> OfBucket::*event,
                             double seconds) const {
  std::vector<AwaitedEvent> all;
  for (size_t i = 0; i < taking_part_; ++i) {
    const State& state = states_[i];
    all.push_back({state.member.gpu, (state.buckets[bucket].*event).get()});
  }
  return AwaitAll(all, sums_, seconds, at_work_);
}

bool GradientExchange::Wait(double seconds) const {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (!Await(b, seconds)) return false;
  }
  return true;
}

bool GradientExchange::IsFinite(size_t bucket) const {
  for (size_t i = 0; i < taking_part_; ++i) {
    if (states_[i].member.marks_copied[bucket] != 0) return false;
  }
  return true;
}

bool GradientExchange::HandOver(double seconds, GradientSink* sink) const {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (!Await(b, seconds)) return false;
    const bool is_finite = IsFinite(b);
    for (const size_t variable : buckets_[b].variables) {
      HandOverFrom({to_[variable], places_.elements[variable]}, variable, is_finite, sink);
    }
  }
  return true;
}

}  // namespace millrace::worker
