#include "worker/parameters/pull_attempt.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/parameters/variable_rows.h"

namespace millrace::worker {
namespace {

// Writes numbers that come one after the other to runs of elements of `values`.
void WidenToRuns(const FloatSlices& numbers, const std::vector<ElementRange>& runs,
                 absl::Span<float> values) {
  const size_t width = WidthOf(numbers.encoding());
  auto run = runs.begin();
  uint64_t done = 0;  // Of the run.
  numbers.ForEachRun([&](size_t /*offset*/, const char* bytes, size_t count) {
    while (count > 0) {
      const size_t now = std::min<uint64_t>(count, run->count - done);
      Widen(numbers.encoding(), bytes, values.subspan(run->begin + done, now));
      bytes += now * width;
      count -= now;
      done += now;
      if (done < run->count) continue;
      ++run;
      done = 0;
    }
  });
}

}  // namespace

PullAttempt::PullAttempt(PullRequest request, std::shared_ptr<PullGroup> group, size_t shard,
                         const std::vector<PulledSlice>* destinations,
                         const ArrivedFunction* arrived, const AskedElements& elements,
                         std::shared_ptr<CopyNanoseconds> copied, ClientCore* core)
    : StreamAttempt(request.pull_id(), core->connections(shard), core->monitor(), core->clock()),
      request_(std::move(request)),
      group_(std::move(group)),
      shard_(shard),
      destinations_(destinations),
      arrived_(arrived),
      elements_(elements),
      copied_(std::move(copied)),
      core_(core) {
  for (const WantedRows& wanted : request_.rows()) wanted_[wanted.slice()] = &wanted;
}

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
    if (!IsOfGroupLocked(header)) {
      const absl::Status status = absl::AbortedError(
          absl::StrCat("part ", request_.part(), " of ", request_.parts(), " is of version ",
                       header.version(), ", another one of version ", *group_->version));
      return header.last() ? SettleLocked(status, Again::kWithItsShard)
                           : EndLocked(status, Again::kWithItsShard);
    }
    LearnLocked(header);
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
  if (complete(header)) return SettleLocked(absl::OkStatus(), Again::kNever);
  if (header.last()) SettleLocked(Incomplete(), Again::kAfterPause, Fault::kServer);
}

bool PullAttempt::IsOfGroupLocked(const PullResponse& header) const {
  if (group_ == nullptr) return true;
  if (!group_->version.has_value()) group_->version = header.version();
  return *group_->version == header.version();
}

void PullAttempt::LearnLocked(const PullResponse& header) {
  if (knows_rows_.has_value()) return;
  knows_rows_ = header.knows_rows();
  expected_ = *knows_rows_ ? elements_.wanted : elements_.all;
  core_->AssertLocked();
  core_->NoteRows(shard_, *knows_rows_);
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
    MILLRACE_RETURN_IF_ERROR(CheckPlace(piece));
    MILLRACE_RETURN_IF_ERROR(CheckRows(piece));
    // A network that repeats messages must not make up for one that is missing.
    if (!taken_.emplace(piece.slice, piece.offset).second) continue;
    Copy(piece);
    received_ += piece.data.size();
  }
  if (received_ <= expected_) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server has sent ", received_, " elements of part ",
                                          request_.part(), " of ", request_.parts(),
                                          ", which is to have ", expected_));
}

absl::Status PullAttempt::CheckPlace(const WirePiece& piece) const {
  const size_t size =
      piece.slice < destinations_->size() ? (*destinations_)[piece.slice].values.size() : 0;
  if (piece.offset <= size && piece.elements() <= size - piece.offset) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the server has sent elements [", piece.offset, ", ",
                                          piece.offset, " + ", piece.elements(), ") of slice ",
                                          piece.slice, ", which has ", size));
}

absl::Status PullAttempt::CheckRows(const WirePiece& piece) const {
  const auto found = wanted_.find(piece.slice);
  const WantedRows* const wanted = *knows_rows_ && found != wanted_.end() ? found->second : nullptr;
  if (wanted == nullptr && piece.rows == nullptr) return absl::OkStatus();
  const auto wrong = [&piece](absl::string_view what) {
    return absl::InternalError(absl::StrCat("the server has sent of slice ", piece.slice,
                                            ", from element ", piece.offset, " on, ", what));
  };
  if (wanted == nullptr) return wrong("rows, where all elements were to come");
  if (piece.rows == nullptr) return wrong("all elements, where rows were to come");
  const PieceRows& rows = *piece.rows;
  if (rows.width() != wanted->width()) {
    return wrong(absl::StrCat("rows of ", rows.width(), " elements, which have ", wanted->width()));
  }
  const ElementRange range = RangeOf(piece);
  const absl::StatusOr<uint64_t> elements = CountRowElements(rows.rows(), rows.width(), range);
  if (!elements.ok()) return wrong(elements.status().message());
  if (*elements != piece.data.size()) {
    return wrong(absl::StrCat(piece.data.size(), " elements of rows that have ", *elements));
  }
  const absl::Span<const uint64_t> asked = RowsIn(wanted->rows(), wanted->width(), range);
  if (std::includes(asked.begin(), asked.end(), rows.rows().begin(), rows.rows().end())) {
    return absl::OkStatus();
  }
  return wrong("rows that it was not asked for");
}

void PullAttempt::Copy(const WirePiece& piece) const {
  const PulledSlice& slice = (*destinations_)[piece.slice];
  const absl::Span<float> values = slice.values.subspan(piece.offset, piece.elements());
  std::vector<ElementRange> runs = {{0, piece.elements()}};
  if (piece.rows == nullptr) {
    piece.data.CopyTo(values);
  } else {
    runs = RunsOf(piece.rows->rows(), piece.rows->width(), RangeOf(piece));
    WidenToRuns(piece.data, runs, values);
  }
  if (!*arrived_) return;
  for (const ElementRange& run : runs) {
    (*arrived_)(slice.variable, slice.first + piece.offset + run.begin, run.count);
  }
}

absl::Status PullAttempt::Incomplete() const {
  return absl::InternalError(absl::StrCat("the server has sent ", received_, " of the ", expected_,
                                          " elements of part ", request_.part(), " of ",
                                          request_.parts()));
}

}  // namespace millrace::worker
