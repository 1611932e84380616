// Who may call gRPC when. Reads are started by Start and then only by OnRead, which asks for the
// end when there are no more. Writes are started by whoever has set `busy_`, which is one thread at
// a time: OnStartedOrWritten, until there are no messages left, and then the one that found it
// false. (The call's start is a write to gRPC: there can be no other meanwhile.) The stream is over
// when the end is complete and nobody is busy: it was closed before, so nobody becomes busy again.
//
// No gRPC operation is started under a lock: it may write to the socket, and with that free values
// that others own.
#include "worker/parameters/stream.h"

#include <utility>

namespace millrace::worker {

Stream::Stream(std::shared_ptr<grpc::Channel> channel, grpc::CompletionQueue* queue,
               const char* method, std::shared_ptr<Monitor> monitor)
    : channel_(std::move(channel)), queue_(queue), method_(method), monitor_(std::move(monitor)) {}

void Stream::Start(std::shared_ptr<Stream> self) {
  self_ = self;
  {
    MutexLock lock(&monitor_->mutex);
    ++monitor_->live_streams;
  }
  call_ = grpc::GenericStub(channel_).PrepareCall(&context_, method_, queue_);
  call_->StartCall(on_written_.tag());
  call_->Read(&incoming_, on_read_.tag());
}

void Stream::Cancel() {
  Close();
  context_.TryCancel();
}

bool Stream::EnqueueLocked(uint64_t request, grpc::ByteBuffer* message) {
  queued_bytes_ += message->Length();
  messages_.push_back({request, {}});
  messages_.back().message.Swap(message);
  if (busy_) return false;
  busy_ = NextLocked();
  return busy_;
}

std::list<Stream::Queued> Stream::DropLocked(uint64_t request) {
  std::list<Queued> dropped;
  for (auto it = messages_.begin(); it != messages_.end();) {
    const auto queued = it++;
    if (queued->request != request) continue;
    queued_bytes_ -= queued->message.Length();
    dropped.splice(dropped.end(), messages_, queued);
  }
  return dropped;
}

bool Stream::NextLocked() {
  if (!open_ || messages_.empty()) return false;
  writing_.Swap(&messages_.front().message);
  messages_.pop_front();
  return true;
}

void Stream::WriteNext() {
  grpc::ByteBuffer written;  // Let go of now: its owners need not wait for the next message.
  bool write;
  {
    MutexLock lock(&mutex_);
    written.Swap(&writing_);
    queued_bytes_ -= written.Length();
    write = NextLocked();
    busy_ = write;
  }
  if (write) StartWriting();
}

void Stream::Close() {
  std::list<Queued> dropped;
  MutexLock lock(&mutex_);
  open_ = false;
  dropped.swap(messages_);
}

void Stream::OnRead(bool ok) {
  if (ok) {
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    if (!OnMessage(message)) Cancel();
    call_->Read(&incoming_, on_read_.tag());
    return;
  }
  Close();
  call_->Finish(&status_, on_finished_.tag());
}

void Stream::OnStartedOrWritten(bool ok) {
  if (!ok) Close();
  WriteNext();
  EndWhereOver();
}

void Stream::OnFinished(bool /*ok*/) {
  finished_ = true;
  EndWhereOver();
}

void Stream::EndWhereOver() {
  if (!finished_) return;
  {
    MutexLock lock(&mutex_);
    if (busy_) return;  // Its write will fail, and OnStartedOrWritten comes here again.
  }
  OnBroken(status_);
  const std::shared_ptr<Monitor> monitor = monitor_;  // This object may be gone before the unlock.
  MutexLock lock(&monitor->mutex);
  monitor->ended_streams.push_back(std::move(self_));
  --monitor->live_streams;
  monitor->changed.SignalAll();
}

}  // namespace millrace::worker
