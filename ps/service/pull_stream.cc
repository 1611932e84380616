// A request that waits has left two marks: a waiter with its shard, and a deadline. Whichever of
// publication, deadline and the stream's end comes first takes the waiter from the shard, and only
// the one that takes it makes the callback, so Begin runs once for a request.
//
// The next request is read when the last message of the one before is written. So the members that
// describe the request are used by one thread after the other: by those that send, and between two
// of them, while a message is being written, by CheckProgress, which `sending_` lets in and keeps
// out.
//
// A client that does not read would keep the state that it pulls for ever, and with it memory for
// each of its blocks that has changed since. So the state is let go of when a message takes too
// long, or all of them do: a client that reads a little now and then would keep the state as well.
// If it reads on, it finds an error where the rest of the values would be; if it does not, the
// stream is broken, since the message that it leaves unread keeps a block. The shard takes the
// state back sooner where memory is short (StateHold).
#include "ps/service/pull_stream.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/net/byte_buffer.h"
#include "common/printable.h"
#include "common/proto_duration.h"
#include "common/status_macros.h"
#include "common/wire/tensor_codec.h"
#include "grpcpp/server_context.h"
#include "ps/service/pull_pieces.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kDefaultTimeout = absl::Seconds(10);
// For all messages of a pull: kWriteTimeout, and a second for each of these. A shard's parts come
// beside each other, and other shards' too, so it is a small share of a slow network.
constexpr double kSlowestBytesPerSecond = 64 << 10;
// For a client to take a message. gRPC tells the server what a client has read when it is a large
// part of what may be sent ahead, which grows with what a connection carries (to 28 to 64 MiB after
// fast pulls). So a client that reads as slowly as it may seems to read nothing for many minutes,
// and then many messages at once.
constexpr absl::Duration kWriteTimeout = absl::Minutes(15);

absl::Status CheckRequest(const PullRequest& request) {
  if (request.part() >= std::max<uint64_t>(request.parts(), 1)) {
    return absl::InvalidArgumentError(absl::StrCat("part: ", request.part(), "; there are ",
                                                   request.parts(), " parts, counted from 0"));
  }
  if (request.has_timeout() &&
      (!IsValid(request.timeout()) || FromProto(request.timeout()) < absl::ZeroDuration())) {
    return absl::InvalidArgumentError(absl::StrCat("timeout: ", request.timeout().seconds(),
                                                   " s and ", request.timeout().nanos(),
                                                   " ns; must be a duration of 0 s or more"));
  }
  return CheckEncoding(request);
}

}  // namespace

absl::Status PullStream::FindWanted(const ShardPlan& plan) {
  MILLRACE_ASSIGN_OR_RETURN(wanted_, WantedBySlice::Create(request_, plan));
  return absl::OkStatus();
}

void PullStream::OnMessage(const grpc::ByteBuffer& message) {
  absl::StatusOr<PullRequest> request = DecodePullRequest(message);
  if (!request.ok()) return End(request.status());
  request_ = *std::move(request);
  absl::StatusOr<std::shared_ptr<Shard>> shard = shards_->Find(request_.job_id(), request_.shard());
  absl::Status status = shard.status();
  if (status.ok()) status = CheckRequest(request_);
  if (status.ok()) status = FindWanted((*shard)->plan());
  if (status.ok()) {
    Serve(*shard);
  } else {
    Refuse(status);
  }
}

void PullStream::Serve(const std::shared_ptr<Shard>& shard) {
  uint64_t number;
  {
    MutexLock lock(&mutex_);
    number = ++requests_;
  }
  auto self = std::static_pointer_cast<PullStream>(shared_from_this());
  // Once the callback has run, the next request may be in request_.
  const absl::Duration timeout =
      request_.has_timeout() ? FromProto(request_.timeout()) : kDefaultTimeout;
  const uint64_t waiter = shard->Read(request_, [self, shard](absl::StatusOr<StatePtr> state) {
    self->Begin(shard, std::move(state));
  });
  if (waiter == 0) return;
  bool gone = false;
  {
    MutexLock lock(&mutex_);
    if (found_ >= number) return;  // More than that where the next one was found meanwhile.
    gone = ending_;
    if (!gone) {
      const std::weak_ptr<Shard> weak = shard;
      wait_ = {shard, waiter, deadlines_->Add(clock_->Now() + timeout, [weak, waiter] {
                 const std::shared_ptr<Shard> there = weak.lock();
                 if (there != nullptr)
                   there->StopWaiting(waiter, absl::StatusCode::kDeadlineExceeded);
               })};
    }
  }
  if (gone) shard->StopWaiting(waiter, absl::StatusCode::kCancelled);
}

void PullStream::Begin(const std::shared_ptr<Shard>& shard, absl::StatusOr<StatePtr> state) {
  absl::optional<Wait> wait;
  {
    MutexLock lock(&mutex_);
    ++found_;
    wait.swap(wait_);
  }
  if (wait.has_value()) deadlines_->Cancel(wait->deadline);
  if (!state.ok()) {
    Refuse(state.status());
    return;
  }
  shard_ = shard;
  const uint64_t blocks = (*state)->blocks.size();
  const uint64_t parts = request_.parts() == 0 ? 1 : request_.parts();
  const uint64_t part = request_.parts() == 0 ? 0 : request_.part();
  next_block_ = static_cast<size_t>(blocks * part / parts);
  end_block_ = static_cast<size_t>(blocks * (part + 1) / parts);
  uint64_t bytes = 0;
  for (size_t i = next_block_; i < end_block_; ++i) bytes += (*state)->blocks[i]->values().size();
  bytes *= sizeof(float);
  state_ = shard->Hold(*std::move(state));
  {
    MutexLock lock(&mutex_);
    read_all_by_ = clock_->Now() + kWriteTimeout +
                   absl::Seconds(static_cast<double>(bytes) / kSlowestBytesPerSecond);
  }
  SendNext();
}

void PullStream::Refuse(const absl::Status& status) {
  PullResponse response;
  response.set_pull_id(request_.pull_id());
  response.set_last(true);
  response.set_code(static_cast<int32_t>(status.code()));
  response.set_message(Printable(status.message()));
  {
    MutexLock lock(&mutex_);
    read_all_by_ = absl::InfiniteFuture();
  }
  SendWatched(ToByteBuffer(response));
}

void PullStream::SendNext() {
  const StatePtr state = state_->Get();
  if (state == nullptr) {
    state_.reset();
    const std::shared_ptr<Shard> shard = std::move(shard_);
    Refuse(absl::AbortedError(
        absl::StrCat("the state of ", shard->name(),
                     " that was being read was given up for newer ones: the server's memory is "
                     "short, and the client reads slowly; pull again")));
    return;
  }
  PullResponse header;
  header.set_pull_id(request_.pull_id());
  header.set_version(state->version);
  header.set_encoding(request_.encoding());
  header.set_knows_rows(true);
  std::vector<OutgoingPiece> pieces;
  size_t elements = 0;
  while (next_block_ < end_block_) {
    const std::shared_ptr<const Block>& block = state->blocks[next_block_];
    const WantedRows* const wanted = wanted_.Of(shard_->plan().layout.blocks()[next_block_].slice);
    const size_t most = MostElements(shard_->plan().layout, next_block_, wanted);
    if (elements > 0 && elements + most > kBlockElements) break;
    absl::StatusOr<absl::optional<OutgoingPiece>> piece =
        PieceOf(shard_.get(), next_block_, block, request_.encoding(), wanted);
    if (!piece.ok()) {
      state_.reset();
      shard_.reset();
      return Refuse(piece.status());
    }
    ++next_block_;
    if (!piece->has_value()) continue;
    elements += (*piece)->values.size();
    pieces.push_back(**std::move(piece));
  }
  header.set_last(next_block_ == end_block_);
  grpc::ByteBuffer message = EncodePull(header, pieces);
  if (header.last()) {
    state_.reset();
    shard_.reset();
    // It keeps no state any more.
    MutexLock lock(&mutex_);
    read_all_by_ = absl::InfiniteFuture();
  }
  SendWatched(std::move(message));
}

void PullStream::SendWatched(grpc::ByteBuffer&& message) {
  {
    MutexLock lock(&mutex_);
    sending_ = true;
    sent_ = clock_->Now();
    if (!watched_) CheckProgressAt(ReadBy());
  }
  Send(std::move(message));
}

absl::Time PullStream::ReadBy() const { return std::min(sent_ + kWriteTimeout, read_all_by_); }

void PullStream::CheckProgressAt(absl::Time when) {
  watched_ = true;
  const std::weak_ptr<ServerStream> weak = weak_from_this();
  progress_check_ = deadlines_->Add(when, [weak] {
    const std::shared_ptr<ServerStream> there = weak.lock();
    if (there != nullptr) static_cast<PullStream*>(there.get())->CheckProgress();
  });
}

void PullStream::CheckProgress() {
  StatePtr released;
  MutexLock lock(&mutex_);
  watched_ = false;
  if (!sending_ || ending_) return;
  const absl::Time now = clock_->Now();
  if (now < ReadBy()) {
    CheckProgressAt(ReadBy());
  } else if (state_ != nullptr && !gave_up_) {
    released = state_->TakeBack();
    gave_up_ = true;
    CheckProgressAt(now + kWriteTimeout);
  } else {
    // The call is there: it has a message to write.
    context_->TryCancel();
  }
}

// Every message that is sent leads here when it is written.
void PullStream::OnIdle() {
  bool gave_up;
  {
    MutexLock lock(&mutex_);
    sending_ = false;
    gave_up = std::exchange(gave_up_, false);
  }
  if (gave_up) {
    state_.reset();
    const std::shared_ptr<Shard> shard = std::move(shard_);
    Refuse(absl::DeadlineExceededError(
        absl::StrCat("the client has not read the values of ", shard->name(),
                     " in time: a message ", "within ", absl::FormatDuration(kWriteTimeout),
                     ", and all of them within that and 16 s for each MiB; pull again")));
  } else if (shard_ != nullptr) {
    SendNext();
  } else {
    ReadNext();
  }
}

void PullStream::OnLastMessage() { EndWhenWritten(); }

void PullStream::OnEnding() {
  absl::optional<Wait> wait;
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    wait = wait_;
  }
  if (wait.has_value()) wait->shard->StopWaiting(wait->waiter, absl::StatusCode::kCancelled);
}

void PullStream::OnEnded() {
  MutexLock lock(&mutex_);
  ending_ = true;
  // It would keep this object's memory until it is due.
  if (watched_) deadlines_->Cancel(progress_check_);
}

}  // namespace millrace::ps
