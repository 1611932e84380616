// One reactor for each stream. Reads are handled one after the other, which gives the registry each
// member's messages in order. Writes come from any thread: they queue, and the stream's lock covers
// the queue and gRPC's Start calls, none of which runs a reaction on the calling thread. Finish is
// called exactly once, and nothing is started after it; OnDone then comes when the operations under
// way have ended, and gives up the stream's reference to itself.
//
// Messages are parsed here: a read of gRPC's own fails for bytes that are no message just as it
// does where a member has nothing more to say.
#include "coordinator/membership/membership_service.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "glog/logging.h"

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

grpc::ByteBuffer Serialized(const CoordinatorMessage& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  const grpc::Status status =
      grpc::SerializationTraits<CoordinatorMessage>::Serialize(message, &bytes, &own);
  CHECK(status.ok()) << status.error_message();
  return bytes;
}

}  // namespace

class MemberStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                           public MemberLink,
                           public std::enable_shared_from_this<MemberStream> {
 public:
  MemberStream(MembershipService* service, MemberRegistry* registry, absl::Time opened)
      : service_(service), registry_(registry), opened_(opened) {}

  void Open() {
    self_ = shared_from_this();
    StartRead(&incoming_);
  }

  absl::Time opened() const { return opened_; }

  void Send(const CoordinatorMessage& message) override ABSL_LOCKS_EXCLUDED(mutex_) {
    grpc::ByteBuffer bytes = Serialized(message);
    MutexLock lock(&mutex_);
    if (finished_) return;
    if (queue_.size() >= kMaxQueuedMessages) {
      return CloseLocked(absl::ResourceExhaustedError("the member does not read its messages"));
    }
    queue_.push_back(std::move(bytes));
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void Close(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    CloseLocked(status);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Leave("the stream broke");
      return Close(absl::OkStatus());
    }
    const absl::Status status = Handle();
    if (!status.ok()) {
      Leave(status.ToString());
      return Close(status);
    }
    MutexLock lock(&mutex_);
    incoming_.Clear();
    if (!finished_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    queue_.pop_front();
    if (ok && !finished_ && !queue_.empty()) StartWrite(&queue_.front());
  }

  void OnDone() override {
    Leave("the stream was closed");
    self_.reset();
  }

 private:
  void CloseLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

  absl::Status Handle() {
    const size_t bytes = incoming_.Length();
    MemberMessage message;
    if (!grpc::SerializationTraits<MemberMessage>::Deserialize(&incoming_, &message).ok()) {
      return absl::InvalidArgumentError("bytes that are no millrace.MemberMessage");
    }
    MILLRACE_RETURN_IF_ERROR(CheckSize(message, bytes));
    if (member_ != 0) {
      const absl::Status status = registry_->Receive(member_, message);
      if (status.ok() && message.has_leaving()) Close(absl::OkStatus());
      return status;
    }
    MILLRACE_ASSIGN_OR_RETURN(member_, Register(message));
    service_->NoLongerUnregistered(self_);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Register(const MemberMessage& message) {
    if (message.has_register_worker()) {
      return registry_->AddWorker(message.register_worker(), self_);
    }
    if (message.has_register_ps()) return registry_->AddPs(message.register_ps(), self_);
    return absl::InvalidArgumentError("the first message must be register_ps or register_worker");
  }

  void Leave(absl::string_view reason) {
    if (member_ == 0) return service_->NoLongerUnregistered(self_);
    registry_->Remove(member_, reason);
  }

  MembershipService* const service_;
  MemberRegistry* const registry_;
  const absl::Time opened_;
  uint64_t member_ = 0;  // 0: not registered. Only used by reactions to reads, and OnDone.
  grpc::ByteBuffer incoming_;
  std::shared_ptr<MemberStream> self_;

  Mutex mutex_;
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mutex_);  // The first is being written.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
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
  CloseUnregistered(absl::InfiniteFuture());
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* MembershipService::Join(
    grpc::CallbackServerContext* /*context*/) {
  auto stream = std::make_shared<MemberStream>(this, registry_, clock_->Now());
  stream->Open();
  bool stopping = false;
  {
    MutexLock lock(&mutex_);
    stopping = stopping_;
    unregistered_.insert(stream);
  }
  if (stopping) stream->Close(absl::UnavailableError("the coordinator stops"));
  return stream.get();
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
  const absl::Status status = opened_before == absl::InfiniteFuture()
                                  ? absl::UnavailableError("the coordinator stops")
                                  : absl::DeadlineExceededError("the stream does not register");
  for (const auto& stream : late) stream->Close(status);
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
