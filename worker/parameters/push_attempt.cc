#include "worker/parameters/push_attempt.h"

#include <utility>

namespace millrace::worker {
namespace {

// How many of `pieces`, from the first on, make a message: at least one, if there is one, and no
// more than a block of values.
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
                         std::shared_ptr<Monitor> monitor, Clock* clock)
    : StreamAttempt(header.push_id(), connections, std::move(monitor), clock),
      header_(std::move(header)) {}

void PushAttempt::Send(absl::Span<const OutgoingPiece> pieces) {
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
  SettleLocked(absl::Status(code, answer.header.message()),
               again ? Again::kAfterPause : Again::kNever);
}

}  // namespace millrace::worker
