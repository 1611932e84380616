#include "worker/parameters/pull_attempt.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace::worker {

PullAttempt::PullAttempt(PullRequest request, const std::vector<PulledSlice>* destinations,
                         const ArrivedFunction* arrived, uint64_t elements,
                         std::shared_ptr<CopyNanoseconds> copied, ServerConnections* connections,
                         std::shared_ptr<Monitor> monitor, Clock* clock)
    : StreamAttempt(request.pull_id(), connections, std::move(monitor), clock),
      request_(std::move(request)),
      destinations_(destinations),
      arrived_(arrived),
      elements_(elements),
      copied_(std::move(copied)) {}

void PullAttempt::Send() {
  const grpc::Slice slice(request_.SerializeAsString());
  SendMessage(grpc::ByteBuffer(&slice, 1));
}

void PullAttempt::OnAnswer(PullAnswer answer) {
  const PullResponse& header = answer.pull.header;
  {
    MutexLock lock(&monitor_->mutex);
    if (over_locked()) return;
    if (header.code() != 0) return RefuseLocked(header);
    BeginTakingLocked();
  }
  const absl::Time begin = clock_->Now();
  const absl::Status known = CheckEncoding(header);
  absl::Status taken = known.ok() ? Take(answer.pull.pieces) : known;
  copied_->fetch_add(absl::ToInt64Nanoseconds(clock_->Now() - begin), std::memory_order_relaxed);
  MutexLock lock(&monitor_->mutex);
  EndTakingLocked();
  if (over_locked()) return;
  ProgressLocked();
  if (!known.ok()) return EndLocked(known, Again::kNever);
  if (!taken.ok()) return EndLocked(std::move(taken), Again::kWithItsShard, Fault::kServer);
  if (received_ == elements_) return SettleLocked(absl::OkStatus(), Again::kNever);
  if (header.last()) SettleLocked(Incomplete(), Again::kAfterPause, Fault::kServer);
}

void PullAttempt::RefuseLocked(const PullResponse& header) {
  const auto code = static_cast<absl::StatusCode>(header.code());
  Again again = Again::kNever;
  if (code == absl::StatusCode::kDeadlineExceeded) {
    again = Again::kAtOnce;  // Its own deadline is the only one that the server knows of.
  } else if (code == absl::StatusCode::kUnavailable) {
    again = AfterBreak();  // The server stops.
  } else if (code == absl::StatusCode::kResourceExhausted) {
    again = Again::kAfterPause;
  } else if (code == absl::StatusCode::kAborted && request_.pull_group() != 0) {
    again = Again::kWithItsShard;  // The state that the others are of is gone.
  }
  SettleLocked(absl::Status(code, header.message()), again);
}

absl::Status PullAttempt::CheckEncoding(const PullResponse& header) const {
  if (header.encoding() == request_.encoding()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the ps server was asked for values as ",
                   Encoding::Kind_Name(request_.encoding()), " and sends them otherwise: is it ",
                   "older than this worker? Update all servers, or set precision.wire to FLOAT32"));
}

absl::Status PullAttempt::Take(const std::vector<WirePiece>& pieces) {
  for (const WirePiece& piece : pieces) {
    const size_t size =
        piece.slice < destinations_->size() ? (*destinations_)[piece.slice].values.size() : 0;
    if (piece.offset > size || piece.data.size() > size - piece.offset) {
      return absl::InternalError(absl::StrCat("the server has sent elements [", piece.offset, ", ",
                                              piece.offset, " + ", piece.data.size(), ") of slice ",
                                              piece.slice, ", which has ", size));
    }
    // A network that repeats messages must not make up for one that is missing.
    if (!taken_.emplace(piece.slice, piece.offset).second) continue;
    const PulledSlice& slice = (*destinations_)[piece.slice];
    piece.data.CopyTo(slice.values.subspan(piece.offset, piece.data.size()));
    if (*arrived_) (*arrived_)(slice.variable, slice.first + piece.offset, piece.data.size());
    received_ += piece.data.size();
  }
  if (received_ <= elements_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server has sent ", received_, " elements of part ",
                                          request_.part(), " of ", request_.parts(), ", which has ",
                                          elements_));
}

absl::Status PullAttempt::Incomplete() const {
  return absl::InternalError(absl::StrCat("the server has sent ", received_, " of the ", elements_,
                                          " elements of part ", request_.part(), " of ",
                                          request_.parts()));
}

}  // namespace millrace::worker
