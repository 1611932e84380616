#include "worker/parameters/push_operation.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "worker/parameters/row_pieces.h"
#include "worker/parameters/variable_rows.h"

namespace millrace::worker {
namespace {

// A shard of up to this many elements (256 KiB) is pushed in one message, when all of it is there.
constexpr uint64_t kOneMessageElements = kBlockElements / 4;

// Otherwise this many (64 KiB) are worth a message of their own.
constexpr size_t kMinMessageElements = kBlockElements / 16;

}  // namespace

PushOperation::PushOperation(std::shared_ptr<ClientCore> core, uint64_t step, uint32_t examples)
    : RetriedCalls(std::move(core), ClientCore::Call::kPush, absl::StrCat("push of step ", step)),
      step_(step),
      examples_(examples),
      shares_(core_->layout().shards.size()) {
  for (size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].unadded = layout_of(i).pushed;
    shares_[i].added.resize(layout_of(i).slices.size());
    AddPart(i, layout_of(i).pushed * sizeof(float));
  }
}

void PushOperation::AddFirst(size_t variable, size_t count, EncodedNumbers gradient,
                             std::shared_ptr<const void> owner) {
  const Layout& layout = core_->layout();
  CHECK_LT(variable, layout.variables.size());
  for (const SliceLocation& location : layout.variables[variable]) {
    {
      MutexLock lock(&core_->monitor()->mutex);
      AddPieces(location, count, gradient, owner);
    }
    Send(location.shard);
  }
}

void PushOperation::AddPieces(const SliceLocation& location, size_t count, EncodedNumbers gradient,
                              const std::shared_ptr<const void>& owner) {
  const Slice& slice = layout_of(location.shard).slices[location.slice];
  CHECK_LE(slice.offset() + slice.length(), gradient.size());
  if (count <= slice.offset()) return;
  const uint64_t there = std::min(count - slice.offset(), slice.length());
  Share& share = shares_[location.shard];
  uint64_t& added = share.added[location.slice];
  while (added < there) {
    const size_t block = std::min<uint64_t>(kBlockElements, slice.length() - added);
    if (added + block > there) return;
    CHECK_LE(block, share.unadded) << "a frozen variable was added";
    share.pieces.push_back({static_cast<uint32_t>(location.slice), added,
                            gradient.subspan(slice.offset() + added, block), owner});
    added += block;
    share.unadded -= block;
    share.unsent_elements += block;
  }
}

void PushOperation::AddRows(size_t variable, std::shared_ptr<const VariableRows> rows,
                            EncodedNumbers gradient, std::shared_ptr<const void> owner) {
  const Layout& layout = core_->layout();
  CHECK_LT(variable, layout.variables.size());
  CheckVariableRows(*rows, layout.SizeOf(variable));
  CHECK_EQ(gradient.size(), rows->rows.size() * rows->width);
  // A shard's room is for gradients of all elements: rows must not take more.
  const bool are_too_many = rows->rows.size() * (rows->width * sizeof(float) + sizeof(uint64_t)) >
                            layout.SizeOf(variable) * sizeof(float);
  for (const SliceLocation& location : layout.variables[variable]) {
    const Slice& slice = layout_of(location.shard).slices[location.slice];
    std::vector<OutgoingPiece> pieces =
        MakeRowPieces(slice, static_cast<uint32_t>(location.slice), *rows, gradient, owner);
    if (are_too_many) pieces = WithoutRows(pieces, layout_of(location.shard).slices);
    {
      MutexLock lock(&core_->monitor()->mutex);
      AddRowPieces(location, std::move(pieces));
    }
    Send(location.shard);
  }
}

void PushOperation::AddRowPieces(const SliceLocation& location, std::vector<OutgoingPiece> pieces) {
  const uint64_t length = layout_of(location.shard).slices[location.slice].length();
  Share& share = shares_[location.shard];
  CHECK_EQ(share.added[location.slice], 0u) << "a variable was added twice";
  CHECK_LE(length, share.unadded) << "a frozen variable was added";
  std::move(pieces.begin(), pieces.end(), std::back_inserter(share.pieces));
  share.added[location.slice] = length;
  share.unadded -= length;
  share.unsent_elements += length;
}

void PushOperation::Commit() {
  {
    MutexLock lock(&core_->monitor()->mutex);
    for (const Share& share : shares_) {
      CHECK_EQ(share.unadded, 0u) << "a variable was not added to the push of step " << step_;
    }
    committed_ = true;
  }
  for (size_t i = 0; i < core_->layout().shards.size(); ++i) Send(i);
}

absl::Status PushOperation::Wait(absl::Time deadline) {
  {
    MutexLock lock(&core_->monitor()->mutex);
    CHECK(committed_) << "the push of step " << step_ << " was not committed";
  }
  return RetriedCalls::Wait(deadline);
}

size_t PushOperation::Sendable(const Share& share) const {
  const bool complete = share.unadded == 0 && !share.pieces.empty();
  return share.pieces.size() - (complete && !committed_ ? 1 : 0);
}

bool PushOperation::IsDue(size_t index) const {
  const Share& share = shares_[index];
  if (core_->monitor()->cancelled) return false;
  // A shard that is frozen altogether gets a message without pieces.
  if (share.pieces.empty()) return committed_ && share.attempt == nullptr;
  if (share.sent >= Sendable(share)) return false;
  if (committed_) return true;
  return layout_of(index).pushed > kOneMessageElements &&
         share.unsent_elements >= kMinMessageElements;
}

void PushOperation::Send(size_t index) {
  std::vector<OutgoingPiece> pieces;
  std::shared_ptr<PushAttempt> attempt;
  bool with_rows = false;
  {
    MutexLock lock(&core_->monitor()->mutex);
    if (!IsDue(index)) return;
    Share& share = shares_[index];
    if (share.attempt == nullptr) {
      share.attempt = std::make_shared<PushAttempt>(MakeHeader(index), core_->connections(index),
                                                    core_->monitor(), core_->clock());
      parts()[index].attempt = share.attempt;
    }
    share.attempt->AssertLocked();
    if (share.attempt->ended()) return;  // Broken: Wait sends all of it again.
    const size_t end = Sendable(share);
    pieces.assign(share.pieces.begin() + share.sent, share.pieces.begin() + end);
    for (const OutgoingPiece& piece : pieces) share.unsent_elements -= ElementsOfPiece(piece);
    share.sent = end;
    with_rows = core_->knows_rows(index) && !share.rows_refused;
    attempt = share.attempt;
  }
  if (!with_rows) pieces = WithoutRows(pieces, layout_of(index).slices);
  attempt->Send(pieces);
}

// A server that knew rows when it was last pulled from, and refuses a push that contains some, may
// have been replaced by an older one in between: its shard is pushed once more without. If it was
// the gradient that was wrong, that is refused again, and then it is final.
void PushOperation::OnFailed(size_t index, Attempt::Again /*again*/) {
  Share& share = shares_[index];
  share.attempt->AssertLocked();
  if (share.attempt->refused_with_rows()) {
    share.rows_refused = true;
    core_->NoteRows(index, false);
  }
  share.attempt = nullptr;
  share.sent = 0;
  share.unsent_elements = layout_of(index).pushed;
}

PushRequest PushOperation::MakeHeader(size_t shard) {
  PushRequest header;
  header.set_job_id(core_->job_id());
  header.set_shard(layout_of(shard).shard);
  header.set_generation(core_->layout().generation);
  header.set_step(step_);
  header.set_push_id(core_->NextId());
  header.set_examples(examples_);
  return header;
}

}  // namespace millrace::worker
