#include "coordinator/testing/member_connection.h"

#include <utility>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "glog/logging.h"

namespace millrace::coordinator {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

MemberConnection::MemberConnection(const std::string& address,
                                   std::function<void(const CoordinatorMessage&)> on_message)
    : stub_(Membership::NewStub(CreateChannel(address))), stream_(stub_->Join(&context_)) {
  reader_ = std::thread([this, on_message = std::move(on_message)] {
    CoordinatorMessage message;
    while (stream_->Read(&message)) {
      on_message(message);
      MutexLock lock(&end_mutex_);
      has_answer_ = true;
      changed_.SignalAll();
    }
    const grpc::Status status = stream_->Finish();
    MutexLock lock(&end_mutex_);
    has_ended_ = true;
    end_ = FromGrpcStatus(status);
    changed_.SignalAll();
  });
}

MemberConnection::~MemberConnection() { Break(); }

void MemberConnection::Break() {
  context_.TryCancel();
  if (reader_.joinable()) reader_.join();
}

void MemberConnection::Send(const MemberMessage& message) {
  MutexLock lock(&mutex_);
  stream_->Write(message);
}

void MemberConnection::HalfClose() {
  MutexLock lock(&mutex_);
  stream_->WritesDone();
}

bool MemberConnection::AwaitAnswer() {
  const absl::Time deadline = Clock::Real()->Now() + kPatience;
  MutexLock lock(&end_mutex_);
  while (!has_answer_ && !has_ended_) {
    CHECK(!Clock::Real()->WaitUntil(&changed_, &end_mutex_, deadline)) << "no answer";
  }
  return has_answer_;
}

absl::Status MemberConnection::AwaitEnd() {
  const absl::Time deadline = Clock::Real()->Now() + kPatience;
  MutexLock lock(&end_mutex_);
  while (!has_ended_) {
    CHECK(!Clock::Real()->WaitUntil(&changed_, &end_mutex_, deadline)) << "the stream stays open";
  }
  return end_;
}

}  // namespace millrace::coordinator
