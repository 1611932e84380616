#include "ps/service/push_stream.h"

#include <utility>

#include "common/net/byte_buffer.h"
#include "common/wire/tensor_codec.h"

namespace millrace::ps {

void PushStream::OnMessage(const grpc::ByteBuffer& message) {
  absl::StatusOr<DecodedPush> push = DecodePush(message);
  if (!push.ok()) {
    End(push.status());
    return;
  }
  Deliver(*std::move(push));
  ReadNextWhenWritten();
}

void PushStream::Deliver(DecodedPush push) {
  const PushRequest& header = push.header;
  absl::StatusOr<std::shared_ptr<Shard>> shard = shards_->Find(header.job_id(), header.shard());
  if (!shard.ok()) {
    Send(ToByteBuffer(MakeRefusal(header.push_id(), shard.status(), /*version=*/0)));
    return;
  }
  touched_[shard->get()] = *shard;
  {
    MutexLock lock(&mutex_);
    ++unanswered_;
  }
  auto self = std::static_pointer_cast<PushStream>(shared_from_this());
  const bool answered = (*shard)->Push(
      id_, std::move(push),
      [self = std::move(self)](const PushResponse& response) { self->Answer(response); });
  if (!answered) Answered();
}

void PushStream::Answer(const PushResponse& response) {
  Send(ToByteBuffer(response));
  Answered();
}

void PushStream::Answered() {
  bool end;
  {
    MutexLock lock(&mutex_);
    --unanswered_;
    end = last_message_ && unanswered_ == 0;
  }
  if (end) EndWhenWritten();
}

void PushStream::OnLastMessage() {
  LeaveShards();
  bool end;
  {
    MutexLock lock(&mutex_);
    last_message_ = true;
    end = unanswered_ == 0;
  }
  if (end) EndWhenWritten();
}

void PushStream::OnEnded() { LeaveShards(); }

void PushStream::LeaveShards() {
  for (const auto& [raw, weak] : touched_) {
    if (const std::shared_ptr<Shard> shard = weak.lock()) shard->StreamEnded(id_);
  }
  touched_.clear();
}

}  // namespace millrace::ps
