// Who may call gRPC when. Reads are started by Start and then only by OnReadDone. Writes are
// started by whoever has set `busy_`, which is one thread at a time: the one that found it false,
// then OnWriteDone, and so on until the queue is empty. As writes can start outside of gRPC's
// callbacks, gRPC must be held back from OnDone: the hold is removed when the stream is closed and
// nobody is busy, since then nobody will become busy again.
//
// No gRPC operation is started under a lock: it may write to the socket, and with that free values
// that others own.
#include "worker/parameters/stream.h"

#include <algorithm>
#include <utility>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/stub_options.h"

namespace millrace::worker {

Stream::Stream(std::shared_ptr<grpc::Channel> channel, const char* method,
               std::shared_ptr<Monitor> monitor)
    : channel_(std::move(channel)), method_(method), monitor_(std::move(monitor)) {}

void Stream::Start(std::shared_ptr<Stream> self) {
  self_ = self;
  {
    MutexLock lock(&monitor_->mutex);
    ++monitor_->live_streams;
  }
  grpc::GenericStub stub(channel_);
  stub.PrepareBidiStreamingCall(&context_, method_, grpc::StubOptions(), this);
  AddHold();
  StartRead(&incoming_);
  StartCall();
  // In charge of writing since construction: go on with what was queued meanwhile.
  bool write;
  bool release;
  {
    MutexLock lock(&mutex_);
    write = NextLocked();
    busy_ = write;
    release = TakeHoldLocked();
  }
  if (write) StartWrite(&writing_);
  if (release) RemoveHold();
}

void Stream::Cancel() {
  Close();
  context_.TryCancel();
}

bool Stream::EnqueueLocked(uint64_t request, grpc::ByteBuffer* message) {
  queued_bytes_ += message->Length();
  queue_.push_back({request, {}});
  queue_.back().message.Swap(message);
  if (busy_) return false;
  busy_ = NextLocked();
  return busy_;
}

std::list<Stream::Queued> Stream::DropLocked(uint64_t request) {
  std::list<Queued> dropped;
  for (auto it = queue_.begin(); it != queue_.end();) {
    const auto queued = it++;
    if (queued->request != request) continue;
    queued_bytes_ -= queued->message.Length();
    dropped.splice(dropped.end(), queue_, queued);
  }
  return dropped;
}

std::vector<uint64_t> Stream::WaitingLocked() const {
  std::vector<uint64_t> waiting;
  for (const Queued& queued : queue_) {
    if (std::find(waiting.begin(), waiting.end(), queued.request) == waiting.end()) {
      waiting.push_back(queued.request);
    }
  }
  return waiting;
}

bool Stream::NextLocked() {
  if (!open_ || queue_.empty()) return false;
  writing_.Swap(&queue_.front().message);
  written_request_ = queue_.front().request;
  queue_.pop_front();
  return true;
}

bool Stream::TakeHoldLocked() {
  if (open_ || busy_ || !held_) return false;
  held_ = false;
  return true;
}

void Stream::Close() {
  std::list<Queued> dropped;
  MutexLock lock(&mutex_);
  open_ = false;
  dropped.swap(queue_);
}

void Stream::OnReadDone(bool ok) {
  if (ok) {
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    if (!OnMessage(message)) Cancel();
    StartRead(&incoming_);
    return;
  }
  Close();
  bool release;
  {
    MutexLock lock(&mutex_);
    release = TakeHoldLocked();
  }
  if (release) RemoveHold();
}

void Stream::OnWriteDone(bool ok) {
  if (!ok) Close();
  grpc::ByteBuffer written;  // Let go of now: its owners need not wait for the next message.
  uint64_t request;
  std::vector<uint64_t> waiting;
  bool write;
  bool release;
  {
    MutexLock lock(&mutex_);
    written.Swap(&writing_);
    queued_bytes_ -= written.Length();
    request = written_request_;
    waiting = WaitingLocked();
    write = NextLocked();
    busy_ = write;
    release = TakeHoldLocked();
  }
  if (ok) OnWritten(request, waiting);
  if (write) StartWrite(&writing_);
  if (release) RemoveHold();
}

void Stream::OnDone(const grpc::Status& status) {
  Close();
  OnBroken(status);
  const std::shared_ptr<Monitor> monitor = monitor_;  // This object may be gone before the unlock.
  MutexLock lock(&monitor->mutex);
  monitor->ended_streams.push_back(std::move(self_));
  --monitor->live_streams;
  monitor->changed.SignalAll();
}

}  // namespace millrace::worker
