#include "ps/service/stream.h"

#include <string>
#include <utility>
#include <vector>

#include "common/grpc_status.h"
#include "grpcpp/support/slice.h"

namespace millrace::ps {
namespace {

constexpr size_t kMaxQueued = 1024;

absl::Status Stopping() {
  return absl::UnavailableError("the ps server stops; open a new stream when it is back");
}

}  // namespace

Stream* Stream::Start(std::shared_ptr<Stream> stream, StreamRegistry* registry) {
  Stream* const raw = stream.get();
  raw->registry_ = registry;
  raw->self_ = stream;
  if (registry->Add(raw, stream)) {
    raw->ReadNext();
  } else {
    raw->End(Stopping());
  }
  return raw;
}

void Stream::ReadNext() {
  MutexLock lock(&mutex_);
  if (finished_ || end_.has_value()) return;
  StartRead(&incoming_);
}

void Stream::ReadNextWhenWritten() {
  MutexLock lock(&mutex_);
  if (finished_ || end_.has_value()) return;
  if (queue_.size() < kMaxQueued) {
    StartRead(&incoming_);
  } else {
    read_when_written_ = true;
  }
}

void Stream::Send(grpc::ByteBuffer message) {
  MutexLock lock(&mutex_);
  if (finished_ || end_.has_value()) return;
  queue_.push_back(std::move(message));
  Proceed();
}

void Stream::End(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    end_ = status;
    queue_.clear();
  }
  OnEnding();
  MutexLock lock(&mutex_);
  Proceed();
}

void Stream::EndWhenWritten() {
  MutexLock lock(&mutex_);
  end_when_written_ = true;
  Proceed();
}

void Stream::Proceed() {
  if (writing_ || finished_) return;
  if (end_.has_value()) {
    finished_ = true;
    Finish(ToGrpcStatus(*end_));
  } else if (!queue_.empty()) {
    outgoing_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    StartWrite(&outgoing_);
  } else if (end_when_written_) {
    finished_ = true;
    Finish(grpc::Status::OK);
  }
}

void Stream::OnReadDone(bool ok) {
  if (!ok) {
    OnLastMessage();
    return;
  }
  const grpc::ByteBuffer message = std::exchange(incoming_, grpc::ByteBuffer());
  OnMessage(message);
}

void Stream::OnWriteDone(bool ok) {
  bool idle;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    outgoing_.Clear();
    if (!ok && !end_.has_value()) {
      end_ = absl::CancelledError("the client is gone");
      queue_.clear();
    }
    Proceed();
    idle = !writing_ && !finished_;
    if (read_when_written_ && queue_.empty() && !finished_ && !end_.has_value()) {
      read_when_written_ = false;
      StartRead(&incoming_);
    }
  }
  if (idle) OnIdle();
}

void Stream::OnCancel() { End(absl::CancelledError("the client is gone")); }

void Stream::OnDone() {
  registry_->Remove(this);
  OnEnded();
  // Whoever else holds the stream finds it finished.
  const std::shared_ptr<Stream> self = std::move(self_);
}

bool StreamRegistry::Add(Stream* stream, const std::shared_ptr<Stream>& owner) {
  MutexLock lock(&mutex_);
  if (stopped_) return false;
  streams_[stream] = owner;
  return true;
}

void StreamRegistry::Remove(Stream* stream) {
  std::shared_ptr<Stream> owner;  // Destroyed without the lock.
  MutexLock lock(&mutex_);
  auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  owner = std::move(it->second);
  streams_.erase(it);
}

void StreamRegistry::Stop() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    for (const auto& [raw, stream] : streams_) streams.push_back(stream);
  }
  for (const std::shared_ptr<Stream>& stream : streams) stream->End(Stopping());
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace millrace::ps
