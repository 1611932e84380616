#include "coordinator/membership/membership_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/net/byte_buffer.h"
#include "common/status_macros.h"

namespace millrace::coordinator {
namespace {

// A member that leaves this many messages unread is taken for stuck.
constexpr size_t kMaxQueuedMessages = 4096;

// What a plan names (each variable) and what a ps server holds (each shard) may be long. The rest
// is short, and is handled by several threads that keep parts of it.
constexpr size_t kMaxShortMessageBytes = 64 << 10;

absl::Status CheckSize(const MemberMessage& message, size_t bytes) {
  if (bytes <= kMaxShortMessageBytes || message.has_plan_result() || message.has_register_ps()) {
    return absl::OkStatus();
  }
  const auto* kind = MemberMessage::descriptor()->FindFieldByNumber(message.kind_case());
  return absl::InvalidArgumentError(absl::StrCat(kind == nullptr ? "the message" : kind->name(),
                                                 ": ", bytes, " bytes; must be at most ",
                                                 kMaxShortMessageBytes));
}

}  // namespace

// Messages are handled one after the other, which gives the registry each member's in order. Here
// they are also parsed: a read of gRPC's own fails for bytes that are no message just as it does
// where a member has nothing more to say.
class MemberStream final : public ServerStream, public MemberLink {
 public:
  MemberStream(MembershipService* service, MemberRegistry* registry, absl::Time opened)
      : service_(service), registry_(registry), opened_(opened) {}

  absl::Time opened() const { return opened_; }

  void Send(const CoordinatorMessage& message) override {
    if (ServerStream::Send(ToByteBuffer(message)) >= kMaxQueuedMessages) {
      End(absl::ResourceExhaustedError("the member does not read its messages"));
    }
  }

  void Close(const absl::Status& status) override { End(status); }

 private:
  void OnMessage(const grpc::ByteBuffer& bytes) override {
    const absl::Status status = Handle(bytes);
    if (!status.ok()) {
      Leave(status.ToString());
      return End(status);
    }
    ReadNext();
  }

  void OnLastMessage() override {
    Leave("the stream broke");
    End(absl::OkStatus());
  }

  void OnEnded() override { Leave("the stream was closed"); }

  absl::Status Handle(const grpc::ByteBuffer& bytes) {
    MemberMessage message;
    if (!FromByteBuffer(bytes, &message)) {
      return absl::InvalidArgumentError("bytes that are no millrace.MemberMessage");
    }
    MILLRACE_RETURN_IF_ERROR(CheckSize(message, bytes.Length()));
    if (member_ != 0) {
      const absl::Status status = registry_->Receive(member_, message);
      if (status.ok() && message.has_leaving()) End(absl::OkStatus());
      return status;
    }
    MILLRACE_ASSIGN_OR_RETURN(member_, Register(message));
    service_->NoLongerUnregistered(Self());
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Register(const MemberMessage& message) {
    if (message.has_register_worker()) {
      return registry_->AddWorker(message.register_worker(), Self());
    }
    if (message.has_register_ps()) return registry_->AddPs(message.register_ps(), Self());
    return absl::InvalidArgumentError("the first message must be register_ps or register_worker");
  }

  void Leave(absl::string_view reason) {
    if (member_ == 0) return service_->NoLongerUnregistered(Self());
    registry_->Remove(member_, reason);
  }

  std::shared_ptr<MemberStream> Self() {
    return std::static_pointer_cast<MemberStream>(shared_from_this());
  }

  MembershipService* const service_;
  MemberRegistry* const registry_;
  const absl::Time opened_;
  uint64_t member_ = 0;  // 0: not registered. Only OnMessage, OnLastMessage and OnEnded use it.
};

MembershipService::MembershipService(MemberRegistry* registry, Clock* clock)
    : registry_(registry), clock_(clock), expiry_thread_([this] { ExpireInLoop(); }) {}

MembershipService::~MembershipService() {
  Shutdown();
  expiry_thread_.join();
}

void MembershipService::Shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.SignalAll();
  registry_->Shutdown();
  streams_.Stop();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* MembershipService::Join(
    grpc::CallbackServerContext* /*context*/) {
  auto stream = std::make_shared<MemberStream>(this, registry_, clock_->Now());
  {
    MutexLock lock(&mutex_);
    unregistered_.insert(stream);
  }
  return ServerStream::Start(std::move(stream), &streams_);
}

void MembershipService::NoLongerUnregistered(const std::shared_ptr<MemberStream>& stream) {
  MutexLock lock(&mutex_);
  unregistered_.erase(stream);
}

void MembershipService::CloseUnregistered(absl::Time opened_before) {
  std::vector<std::shared_ptr<MemberStream>> late;
  {
    MutexLock lock(&mutex_);
    for (const auto& stream : unregistered_) {
      if (stream->opened() <= opened_before) late.push_back(stream);
    }
    for (const auto& stream : late) unregistered_.erase(stream);
  }
  for (const auto& stream : late) {
    stream->Close(absl::DeadlineExceededError("the stream does not register"));
  }
}

void MembershipService::ExpireInLoop() {
  const absl::Duration period = registry_->heartbeat_period() / 2;
  for (;;) {
    absl::Time wake;
    {
      MutexLock lock(&mutex_);
      wake = clock_->Now() + period;
      while (!stopping_ && !clock_->WaitUntil(&stopped_, &mutex_, wake)) {
      }
      if (stopping_) return;
    }
    registry_->ExpireSilent(clock_->Now() - wake);
    CloseUnregistered(clock_->Now() - registry_->silence_limit());
  }
}

}  // namespace millrace::coordinator
