// Operations are started from two sides: from gRPC's reactions and from the thread that owns the
// stream. gRPC runs OnDone as soon as the call has ended and no operation or hold is left, and an
// operation must not start after that. One hold, taken in the constructor, is given up by the read
// that fails; from then on `broken_` keeps the owner's side from starting anything. An owner that
// saw `broken_` unset takes a hold of its own, under the lock, for as long as it starts its
// operation.
#include "common/membership/membership_stream.h"

#include <utility>

#include "common/grpc_status.h"

namespace millrace {

MembershipStream::MembershipStream(Membership::Stub* stub, std::function<void()> changed)
    : changed_(std::move(changed)) {
  stub->async()->Join(&context_, this);
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

MembershipStream::~MembershipStream() {
  context_.TryCancel();
  MutexLock lock(&mutex_);
  while (!done_) done_cond_.Wait(&mutex_);
}

void MembershipStream::Send(MemberMessage message) {
  {
    MutexLock lock(&mutex_);
    if (close_wanted_) return;
    unsent_.push_back(std::move(message));
  }
  Advance();
}

void MembershipStream::CloseWhenSent() {
  {
    MutexLock lock(&mutex_);
    close_wanted_ = true;
  }
  Advance();
}

void MembershipStream::Advance() {
  const MemberMessage* message = nullptr;
  {
    MutexLock lock(&mutex_);
    if (broken_ || writing_ || closed_) return;
    if (!unsent_.empty()) {
      message = &unsent_.front();
      writing_ = true;
    } else if (close_wanted_) {
      closed_ = true;
    } else {
      return;
    }
    AddHold();
  }
  if (message != nullptr) {
    StartWrite(message);
  } else {
    StartWritesDone();
  }
  RemoveHold();
}

absl::optional<CoordinatorMessage> MembershipStream::Next() {
  MutexLock lock(&mutex_);
  if (received_.empty()) return absl::nullopt;
  CoordinatorMessage message = std::move(received_.front());
  received_.pop_front();
  return message;
}

absl::optional<absl::Status> MembershipStream::end() const {
  MutexLock lock(&mutex_);
  return end_;
}

std::deque<MemberMessage> MembershipStream::TakeUnsent() {
  MutexLock lock(&mutex_);
  return std::move(unsent_);
}

void MembershipStream::OnReadDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    if (ok) {
      received_.push_back(std::move(incoming_));
    } else {
      broken_ = true;
    }
  }
  if (!ok) {
    RemoveHold();
    return;
  }
  incoming_.Clear();
  StartRead(&incoming_);
  changed_();
}

void MembershipStream::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) return;  // The read will fail too, and tell why.
    unsent_.pop_front();
  }
  Advance();
}

void MembershipStream::OnDone(const grpc::Status& status) {
  {
    MutexLock lock(&mutex_);
    end_ = FromGrpcStatus(status);
  }
  changed_();
  // The destructor waits for this; nothing of this object is touched after it.
  MutexLock lock(&mutex_);
  done_ = true;
  done_cond_.SignalAll();
}

}  // namespace millrace
