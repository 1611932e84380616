#include "worker/parameters/pull_attempt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/parameters/retry.h"

namespace millrace::worker {
namespace {

// A stream may break between being chosen and being used.
constexpr int kMaxStreamTries = 3;

}  // namespace

PullAttempt::PullAttempt(PullRequest request, const std::vector<absl::Span<float>>* destinations,
                         std::shared_ptr<Monitor> monitor)
    : request_(std::move(request)), destinations_(destinations), monitor_(std::move(monitor)) {}

void PullAttempt::Send(ServerConnections* connections) {
  const grpc::Slice slice(request_.SerializeAsString());
  grpc::ByteBuffer message(&slice, 1);
  for (int i = 0; i < kMaxStreamTries; ++i) {
    const std::shared_ptr<PullStream> stream = connections->LeastLoadedPullStream();
    {
      MutexLock lock(&monitor_->mutex);
      if (monitor_->cancelled) return;
      stream_ = stream;
    }
    if (stream->Send(request_.pull_id(), shared_from_this(), &message)) return;
  }
  OnBroken(absl::UnavailableError("streams break as soon as they are opened"));
}

void PullAttempt::Abandon() {
  std::shared_ptr<PullStream> stream;
  bool ended;
  {
    MutexLock lock(&monitor_->mutex);
    abandoned_ = true;
    stream.swap(stream_);
    while (copying_) monitor_->changed.Wait(&monitor_->mutex);
    ended = ended_;
  }
  if (stream == nullptr) return;
  stream->Forget(request_.pull_id());
  if (!ended) stream->Cancel();
}

void PullAttempt::EndLocked(absl::Status status, bool retriable) {
  ended_ = true;
  status_ = std::move(status);
  retriable_ = retriable;
  monitor_->changed.SignalAll();
}

void PullAttempt::OnAnswer(PullAnswer answer) {
  const PullResponse& header = answer.pull.header;
  {
    MutexLock lock(&monitor_->mutex);
    if (ended_ || abandoned_) return;
    if (header.code() != 0) {
      const auto code = static_cast<absl::StatusCode>(header.code());
      // Its own deadline is the only one that the server knows of.
      waited_ = code == absl::StatusCode::kDeadlineExceeded;
      const bool retriable = waited_ || code == absl::StatusCode::kUnavailable ||
                             code == absl::StatusCode::kResourceExhausted;
      return EndLocked(absl::Status(code, header.message()), retriable);
    }
    copying_ = true;
  }
  const absl::StatusOr<uint64_t> copied = Copy(answer.pull.pieces);
  MutexLock lock(&monitor_->mutex);
  copying_ = false;
  if (abandoned_) return monitor_->changed.SignalAll();
  if (!copied.ok()) return EndLocked(copied.status(), /*retriable=*/false);
  elements_ += *copied;
  if (header.last()) EndLocked(absl::OkStatus(), /*retriable=*/false);
}

void PullAttempt::OnBroken(const absl::Status& status) {
  MutexLock lock(&monitor_->mutex);
  if (ended_ || abandoned_) return;
  EndLocked(status.ok() ? absl::UnavailableError("the server has ended the stream") : status,
            IsBrokenConnection(status.code()));
}

absl::StatusOr<uint64_t> PullAttempt::Copy(const std::vector<WirePiece>& pieces) const {
  uint64_t elements = 0;
  for (const WirePiece& piece : pieces) {
    const size_t size =
        piece.slice < destinations_->size() ? (*destinations_)[piece.slice].size() : 0;
    if (piece.offset > size || piece.data.size() > size - piece.offset) {
      return absl::InternalError(absl::StrCat("the server has sent elements [", piece.offset, ", ",
                                              piece.offset, " + ", piece.data.size(), ") of slice ",
                                              piece.slice, ", which has ", size));
    }
    piece.data.CopyTo((*destinations_)[piece.slice].subspan(piece.offset, piece.data.size()));
    elements += piece.data.size();
  }
  return elements;
}

}  // namespace millrace::worker
