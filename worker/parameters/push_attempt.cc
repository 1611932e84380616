#include "worker/parameters/push_attempt.h"

#include <algorithm>
#include <utility>

#include "worker/parameters/row_pieces.h"

namespace millrace::worker {
namespace {

// What messages have limits for.
struct Amount {
  uint64_t values = 0;
  uint64_t elements = 0;  // That the pieces stand for.
  uint64_t rows = 0;

  void Add(const OutgoingPiece& piece) {
    values += piece.values.size();
    elements += ElementsOfPiece(piece);
    if (piece.rows != nullptr) rows += static_cast<uint64_t>(piece.rows->rows_size());
  }

  bool fits() const {
    return values <= kBlockElements && elements <= kMaxBlocksTogether * kBlockElements &&
           rows <= kMaxRows;
  }
};

// How many of `pieces`, from the first on, make a message: at least one, if there is one, and no
// more than a block of values.
size_t PiecesOfMessage(absl::Span<const OutgoingPiece> pieces) {
  Amount amount;
  size_t count = 0;
  while (count < pieces.size()) {
    amount.Add(pieces[count]);
    if (count > 0 && !amount.fits()) break;
    ++count;
  }
  return count;
}

bool HaveRows(absl::Span<const OutgoingPiece> pieces) {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const OutgoingPiece& piece) { return piece.rows != nullptr; });
}

}  // namespace

PushAttempt::PushAttempt(PushRequest header, ServerConnections* connections,
                         std::shared_ptr<Monitor> monitor, Clock* clock)
    : StreamAttempt(header.push_id(), connections, std::move(monitor), clock),
      header_(std::move(header)) {}

void PushAttempt::Send(absl::Span<const OutgoingPiece> pieces) {
  if (HaveRows(pieces)) {
    MutexLock lock(&monitor_->mutex);
    with_rows_ = true;
  }
  do {
    const size_t count = PiecesOfMessage(pieces);
    SendMessage(EncodePush(header_, pieces.subspan(0, count)));
    pieces.remove_prefix(count);
  } while (!pieces.empty());
}

void PushAttempt::OnAnswer(PushAnswer answer) {
  const auto code = static_cast<absl::StatusCode>(answer.header.code());
  const Failure failure = Classify(code);
  const bool again = failure == Failure::kPassing || failure == Failure::kFull;
  MutexLock lock(&monitor_->mutex);
  if (over_locked()) return;
  // The server may have been replaced by an older one since it said that it knows rows.
  refused_with_rows_ = with_rows_ && code == absl::StatusCode::kInvalidArgument;
  SettleLocked(absl::Status(code, answer.header.message()), refused_with_rows_ ? Again::kAtOnce
                                                            : again            ? Again::kAfterPause
                                                                               : Again::kNever);
}

}  // namespace millrace::worker
