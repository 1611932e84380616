#include "worker/parameters/push_attempt.h"

#include <algorithm>
#include <utility>

#include "worker/parameters/retry.h"

namespace millrace::worker {
namespace {

// A stream may break between being chosen and being used.
constexpr int kMaxStreamTries = 3;

// How many of `pieces`, from the first on, make a message: at least one, and no more than a block
// of values.
size_t PiecesOfMessage(absl::Span<const OutgoingPiece> pieces) {
  size_t elements = 0;
  size_t count = 0;
  while (count < pieces.size()) {
    elements += pieces[count].values.size();
    if (count > 0 && elements > kBlockElements) break;
    ++count;
  }
  return count;
}

}  // namespace

PushAttempt::PushAttempt(PushRequest header, ServerConnections* connections,
                         std::shared_ptr<Monitor> monitor)
    : header_(std::move(header)), connections_(connections), monitor_(std::move(monitor)) {}

void PushAttempt::Send(absl::Span<const OutgoingPiece> pieces) {
  while (!pieces.empty()) {
    const size_t count = PiecesOfMessage(pieces);
    SendMessage(EncodePush(header_, pieces.subspan(0, count)));
    pieces.remove_prefix(count);
  }
}

void PushAttempt::SendMessage(grpc::ByteBuffer message) {
  std::shared_ptr<PushStream> stream;
  bool sent = false;
  for (int i = 0; i < kMaxStreamTries && !sent; ++i) {
    stream = connections_->LeastLoadedPushStream();
    if (!Use(stream)) return;
    sent = stream->Send(header_.push_id(), shared_from_this(), &message);
  }
  if (!sent) return OnBroken(absl::UnavailableError("streams break as soon as they are opened"));
  bool closed;
  bool answered;
  {
    MutexLock lock(&monitor_->mutex);
    closed = closed_;
    answered = answered_;
  }
  if (closed) Leave(stream.get(), answered);  // Close may have been there before the message was.
}

bool PushAttempt::Use(const std::shared_ptr<PushStream>& stream) {
  MutexLock lock(&monitor_->mutex);
  if (ended_ || closed_ || monitor_->cancelled) return false;
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) {
    streams_.push_back(stream);
  }
  return true;
}

void PushAttempt::Leave(PushStream* stream, bool answered) {
  stream->Forget(header_.push_id());
  if (!answered) stream->Cancel();
}

void PushAttempt::Close() {
  std::vector<std::shared_ptr<PushStream>> streams;
  bool answered;
  {
    MutexLock lock(&monitor_->mutex);
    closed_ = true;
    answered = answered_;
    streams.swap(streams_);
  }
  for (const auto& stream : streams) Leave(stream.get(), answered);
}

void PushAttempt::OnAnswer(PushAnswer answer) {
  MutexLock lock(&monitor_->mutex);
  if (ended_ || closed_) return;
  ended_ = true;
  answered_ = true;
  const auto code = static_cast<absl::StatusCode>(answer.header.code());
  status_ = absl::Status(code, answer.header.message());
  // RESOURCE_EXHAUSTED: the server has no memory for more pushes at once.
  retriable_ = code == absl::StatusCode::kAborted || code == absl::StatusCode::kUnavailable ||
               code == absl::StatusCode::kResourceExhausted;
  monitor_->changed.SignalAll();
}

void PushAttempt::OnBroken(const absl::Status& status) {
  MutexLock lock(&monitor_->mutex);
  if (ended_ || closed_) return;
  ended_ = true;
  status_ = status.ok() ? absl::UnavailableError("the server has ended the stream") : status;
  retriable_ = IsBrokenConnection(status.code());
  monitor_->changed.SignalAll();
}

}  // namespace millrace::worker
