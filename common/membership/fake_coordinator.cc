#include "common/membership/fake_coordinator.h"

#include <utility>

#include "absl/types/optional.h"
#include "common/proto_duration.h"
#include "glog/logging.h"

namespace millrace::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

class FakeCoordinator::Reactor final
    : public grpc::ServerBidiReactor<MemberMessage, CoordinatorMessage> {
 public:
  explicit Reactor(FakeCoordinator* owner) : owner_(owner) {}

  // The following are called with the owner's lock.
  void Begin() { StartRead(&incoming_); }

  void Send(const CoordinatorMessage& message) {
    unsent_.push_back(message);
    Advance();
  }

  void End(const grpc::Status& status) {
    if (!end_.has_value()) end_ = status;
    Advance();
  }

 private:
  void OnReadDone(bool ok) override {
    MutexLock lock(&owner_->mutex_);
    if (!ok) return End(grpc::Status::OK);
    if (incoming_.has_register_worker() || incoming_.has_register_ps()) {
      owner_->registrations_.push_back(incoming_);
    } else {
      owner_->messages_.push_back(incoming_);
    }
    owner_->changed_.SignalAll();
    incoming_.Clear();
    if (!finished_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&owner_->mutex_);
    writing_ = false;
    unsent_.pop_front();
    if (!ok) unsent_.clear();
    Advance();
  }

  void OnCancel() override {
    MutexLock lock(&owner_->mutex_);
    End(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    {
      MutexLock lock(&owner_->mutex_);
      if (owner_->reactor_ == this) owner_->reactor_ = nullptr;
      owner_->changed_.SignalAll();
    }
    delete this;
  }

  void Advance() {
    if (writing_ || finished_) return;
    if (!unsent_.empty()) {
      writing_ = true;
      StartWrite(&unsent_.front());
    } else if (end_.has_value()) {
      finished_ = true;
      Finish(*end_);
    }
  }

  FakeCoordinator* const owner_;
  MemberMessage incoming_;
  std::deque<CoordinatorMessage> unsent_;
  bool writing_ = false;
  bool finished_ = false;
  absl::optional<grpc::Status> end_;
};

FakeCoordinator::FakeCoordinator() { Restart(); }

FakeCoordinator::~FakeCoordinator() { Shutdown(); }

void FakeCoordinator::Restart() {
  ServerOptions options;
  if (!address_.empty()) options.listen = address_;
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(options, {this});
  CHECK(server.ok()) << server.status();
  server_ = *std::move(server);
  address_ = server_->address();
}

void FakeCoordinator::Shutdown() {
  if (server_ != nullptr) server_->Shutdown(absl::ZeroDuration());
  server_.reset();
}

grpc::ServerBidiReactor<MemberMessage, CoordinatorMessage>* FakeCoordinator::Join(
    grpc::CallbackServerContext*) {
  auto* reactor = new Reactor(this);  // Deletes itself.
  MutexLock lock(&mutex_);
  reactor_ = reactor;
  reactor->Begin();
  return reactor;
}

void FakeCoordinator::WaitForChange() {
  CHECK(!changed_.WaitWithTimeout(&mutex_, kPatience)) << "the member did not do what was expected";
}

MemberMessage FakeCoordinator::AwaitMember() {
  MutexLock lock(&mutex_);
  while (registrations_.empty()) WaitForChange();
  MemberMessage registration = std::move(registrations_.front());
  registrations_.pop_front();
  return registration;
}

RegisterWorker FakeCoordinator::AwaitRegistration() { return AwaitMember().register_worker(); }

void FakeCoordinator::SendWelcome(absl::Duration heartbeat_period) {
  CoordinatorMessage message;
  *message.mutable_welcome()->mutable_heartbeat_period() = ToProto(heartbeat_period);
  Send(message);
}

void FakeCoordinator::Send(const CoordinatorMessage& message) {
  MutexLock lock(&mutex_);
  CHECK(reactor_ != nullptr) << "no member is connected";
  reactor_->Send(message);
}

MemberMessage FakeCoordinator::Next() {
  MutexLock lock(&mutex_);
  while (messages_.empty()) WaitForChange();
  MemberMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

void FakeCoordinator::End(const grpc::Status& status) {
  MutexLock lock(&mutex_);
  Reactor* const ended = reactor_;
  CHECK(ended != nullptr) << "no member is connected";
  ended->End(status);
  while (reactor_ == ended) WaitForChange();
}

void FakeCoordinator::AwaitEnd() {
  MutexLock lock(&mutex_);
  while (reactor_ != nullptr) WaitForChange();
}

}  // namespace millrace::testing
