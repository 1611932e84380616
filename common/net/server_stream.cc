#include "common/net/server_stream.h"

#include <utility>
#include <vector>

#include "common/grpc_status.h"

namespace millrace {
namespace {

absl::Status ClientIsGone() { return absl::CancelledError("the client is gone"); }

}  // namespace

ServerStream::Reactor* ServerStream::Start(std::shared_ptr<ServerStream> stream,
                                           StreamRegistry* registry) {
  ServerStream* const raw = stream.get();
  raw->registry_ = registry;
  raw->self_ = std::move(stream);
  const absl::Status status = registry->Add(raw);
  if (status.ok()) {
    raw->ReadNext();
  } else {
    raw->End(status);
  }
  return raw;
}

size_t ServerStream::Send(grpc::ByteBuffer&& message) {
  size_t waiting;
  Operation operation;
  {
    MutexLock lock(&mutex_);
    if (ending_) return 0;
    queue_.emplace_back();
    queue_.back().Swap(&message);
    operation = TakeChargeLocked();
    waiting = queue_.size();
  }
  StartOperation(operation);
  return waiting;
}

void ServerStream::End(const absl::Status& status) {
  {
    std::deque<grpc::ByteBuffer> dropped;  // Freed without the lock.
    MutexLock lock(&mutex_);
    if (ending_) return;
    ending_ = true;
    dropped.swap(queue_);
  }
  OnEnding();
  Operation operation;
  {
    MutexLock lock(&mutex_);
    end_ = status;
    operation = TakeChargeLocked();
  }
  StartOperation(operation);
}

void ServerStream::EndWhenWritten() {
  Operation operation;
  {
    MutexLock lock(&mutex_);
    end_when_written_ = true;
    operation = TakeChargeLocked();
  }
  StartOperation(operation);
}

void ServerStream::ReadNext() {
  {
    MutexLock lock(&mutex_);
    if (ending_) return;
  }
  StartRead(&incoming_);
}

void ServerStream::ReadNextWhenWritten() {
  {
    MutexLock lock(&mutex_);
    if (ending_) return;
    read_when_written_ = queue_.size() >= kManyMessages;
    if (read_when_written_) return;
  }
  StartRead(&incoming_);
}

ServerStream::Operation ServerStream::NextLocked() {
  busy_ = true;
  if (!queue_.empty()) {
    outgoing_.Swap(&queue_.front());
    queue_.pop_front();
    return Operation::kWrite;
  }
  if (end_when_written_ && !ending_) {
    ending_ = true;
    end_ = absl::OkStatus();
  }
  if (end_.has_value()) return Operation::kFinish;
  busy_ = false;
  return Operation::kNone;
}

ServerStream::Operation ServerStream::TakeChargeLocked() {
  return busy_ ? Operation::kNone : NextLocked();
}

void ServerStream::StartOperation(Operation operation) {
  switch (operation) {
    case Operation::kNone:
      return;
    case Operation::kWrite:
      StartWrite(&outgoing_);
      return;
    case Operation::kFinish:
      grpc::Status end;
      {
        MutexLock lock(&mutex_);
        end = ToGrpcStatus(*end_);
      }
      Finish(std::move(end));
      return;
  }
}

void ServerStream::OnReadDone(bool ok) {
  if (!ok) {
    OnLastMessage();
    return;
  }
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  OnMessage(message);
}

void ServerStream::OnWriteDone(bool ok) {
  if (!ok) End(ClientIsGone());
  Operation operation;
  bool read;
  bool idle;
  {
    grpc::ByteBuffer written;  // Freed without the lock.
    MutexLock lock(&mutex_);
    written.Swap(&outgoing_);
    operation = NextLocked();
    read = read_when_written_ && queue_.empty() && !ending_;
    if (read) read_when_written_ = false;
    idle = !busy_ && !ending_;
  }
  if (read) StartRead(&incoming_);
  StartOperation(operation);
  if (idle) OnIdle();
}

void ServerStream::OnCancel() { End(ClientIsGone()); }

void ServerStream::OnDone() {
  {
    // What others did under the lock comes before the end of the stream. gRPC has seen to that, but
    // ThreadSanitizer does not know.
    MutexLock lock(&mutex_);
  }
  registry_->Remove(this);
  OnEnded();
  // Whoever else holds the stream finds it finished.
  const std::shared_ptr<ServerStream> self = std::move(self_);
}

absl::Status StreamRegistry::Add(ServerStream* stream) {
  MutexLock lock(&mutex_);
  if (stopped_) return when_stopped_;
  streams_.insert(stream);
  return absl::OkStatus();
}

void StreamRegistry::Remove(ServerStream* stream) {
  MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void StreamRegistry::Stop() {
  std::vector<std::shared_ptr<ServerStream>> streams;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    streams.reserve(streams_.size());
    for (ServerStream* stream : streams_) streams.push_back(stream->shared_from_this());
  }
  for (const std::shared_ptr<ServerStream>& stream : streams) stream->End(when_stopped_);
}

}  // namespace millrace
