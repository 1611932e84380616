// Two threads for a session: one reads until the stream ends, one writes the registration and the
// heartbeats. Whatever the writer waits for ends when the reader sees the stream end, or with a
// deadline; and the reader ends when the call is cancelled.
#include "ps/membership.h"

#include <algorithm>
#include <utility>

#include "absl/types/optional.h"
#include "common/grpc_status.h"
#include "common/net/channel.h"
#include "common/proto_duration.h"
#include "glog/logging.h"
#include "grpcpp/support/sync_stream.h"

namespace millrace::ps {
namespace {

constexpr absl::Duration kWelcomeTimeout = absl::Seconds(10);
constexpr absl::Duration kFarewellTimeout = absl::Seconds(3);
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kLastBackoff = absl::Seconds(2);
constexpr absl::Duration kLogPeriod = absl::Seconds(10);
constexpr absl::Duration kShortestHeartbeat = absl::Milliseconds(10);

}  // namespace

// One stream. Only the session's reader thread and the membership's thread use it.
class Membership::Session {
 public:
  explicit Session(Membership* owner)
      : owner_(owner), stream_(Join()), reader_([this] { ReadAll(); }) {}

  ~Session() {
    context_.TryCancel();
    reader_.join();
    owner_->SetContext(nullptr);
  }

  // False: the stream has ended.
  bool Write(const MemberMessage& message) { return stream_->Write(message); }

  void CloseWrites() { stream_->WritesDone(); }

  // Blocks until the reader has ended the stream, or it is cancelled after `timeout`.
  absl::Status WaitForEnd(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(owner_->mutex_) {
    WaitUntil(owner_->options_.clock->Now() + timeout, /*stop_at_welcome=*/false,
              /*stop_at_leaving=*/false);
    context_.TryCancel();
    MutexLock lock(&owner_->mutex_);
    while (!end_.has_value()) owner_->changed_.Wait(&owner_->mutex_);
    return *end_;
  }

  // Blocks until the stream has ended or `deadline`, and where asked for, until the coordinator has
  // answered or the server leaves.
  void WaitUntil(absl::Time deadline, bool stop_at_welcome, bool stop_at_leaving)
      ABSL_LOCKS_EXCLUDED(owner_->mutex_) {
    MutexLock lock(&owner_->mutex_);
    while (!end_.has_value() && !(stop_at_welcome && heartbeat_period_.has_value()) &&
           !(stop_at_leaving && owner_->leaving_)) {
      if (owner_->options_.clock->Now() >= deadline) return;
      owner_->options_.clock->WaitUntil(&owner_->changed_, &owner_->mutex_, deadline);
    }
  }

  bool ended() ABSL_LOCKS_EXCLUDED(owner_->mutex_) {
    MutexLock lock(&owner_->mutex_);
    return end_.has_value();
  }

  // nullopt: no Welcome yet.
  absl::optional<absl::Duration> heartbeat_period() ABSL_LOCKS_EXCLUDED(owner_->mutex_) {
    MutexLock lock(&owner_->mutex_);
    return heartbeat_period_;
  }

 private:
  std::unique_ptr<grpc::ClientReaderWriter<MemberMessage, CoordinatorMessage>> Join() {
    owner_->SetContext(&context_);  // Before this call, which blocks while it connects.
    return owner_->stub_->Join(&context_);
  }

  void ReadAll() ABSL_LOCKS_EXCLUDED(owner_->mutex_) {
    CoordinatorMessage message;
    while (stream_->Read(&message)) {
      if (!message.has_welcome()) continue;  // The others are for workers.
      const absl::Duration period = FromProto(message.welcome().heartbeat_period());
      MutexLock lock(&owner_->mutex_);
      heartbeat_period_ = std::max(period, kShortestHeartbeat);
      owner_->changed_.SignalAll();
    }
    const absl::Status status = FromGrpcStatus(stream_->Finish());
    MutexLock lock(&owner_->mutex_);
    end_ = status;
    owner_->changed_.SignalAll();
  }

  Membership* const owner_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<MemberMessage, CoordinatorMessage>> stream_;
  absl::optional<absl::Duration> heartbeat_period_ ABSL_GUARDED_BY(owner_->mutex_);
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(owner_->mutex_);
  std::thread reader_;  // The last member: it uses the others.
};

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)),
      stub_(millrace::Membership::NewStub(CreateChannel(options_.coordinator_address))),
      thread_([this] { Run(); }) {}

Membership::~Membership() { Leave(); }

void Membership::Leave() {
  const absl::Time deadline = options_.clock->Now() + kFarewellTimeout;
  {
    MutexLock lock(&mutex_);
    leaving_ = true;
    changed_.SignalAll();
    while (!ended_ && options_.clock->Now() < deadline) {
      options_.clock->WaitUntil(&changed_, &mutex_, deadline);
    }
    if (context_ != nullptr) context_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void Membership::SetContext(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  context_ = context;
}

void Membership::Run() {
  Loop();
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

void Membership::Loop() {
  absl::Duration backoff = kFirstBackoff;
  while (true) {
    absl::Status status;
    {
      Session session(this);
      status = Serve(&session);
      if (session.heartbeat_period().has_value()) backoff = kFirstBackoff;
    }
    {
      MutexLock lock(&mutex_);
      if (leaving_) return;
    }
    if (absl::IsInvalidArgument(status)) {
      LOG(ERROR) << "the coordinator at " << options_.coordinator_address
                 << " refuses this server: " << status.message();
      if (options_.on_rejected) options_.on_rejected(status);
      return;
    }
    LogWaiting(status);
    if (!Sleep(backoff)) return;
    backoff = std::min(2 * backoff, kLastBackoff);
  }
}

absl::Status Membership::Serve(Session* session) {
  Clock* const clock = options_.clock;
  if (!session->Write(Registration())) return session->WaitForEnd(absl::ZeroDuration());
  session->WaitUntil(clock->Now() + kWelcomeTimeout, /*stop_at_welcome=*/true,
                     /*stop_at_leaving=*/true);
  if (session->heartbeat_period().has_value()) {
    LOG(INFO) << "joined the coordinator at " << options_.coordinator_address;
  }
  while (!session->ended() && session->heartbeat_period().has_value()) {
    session->WaitUntil(clock->Now() + *session->heartbeat_period(), /*stop_at_welcome=*/false,
                       /*stop_at_leaving=*/true);
    bool leaving;
    {
      MutexLock lock(&mutex_);
      leaving = leaving_;
    }
    MemberMessage message;
    if (leaving) {
      message.mutable_leaving();
      if (session->Write(message)) session->CloseWrites();
      return session->WaitForEnd(kFarewellTimeout);
    }
    message.mutable_heartbeat();
    if (!session->Write(message)) break;
  }
  return session->WaitForEnd(absl::ZeroDuration());
}

bool Membership::Sleep(absl::Duration duration) {
  const absl::Time deadline = options_.clock->Now() + duration;
  MutexLock lock(&mutex_);
  while (!leaving_ && options_.clock->Now() < deadline) {
    options_.clock->WaitUntil(&changed_, &mutex_, deadline);
  }
  return !leaving_;
}

MemberMessage Membership::Registration() const {
  MemberMessage message;
  RegisterPs& ps = *message.mutable_register_ps();
  ps.set_name(options_.name);
  ps.set_directory_id(options_.directory_id);
  ps.set_incarnation(options_.incarnation);
  ps.set_address(options_.address);
  for (ShardStatus& status : options_.shards()) *ps.add_shards() = std::move(status);
  return message;
}

void Membership::LogWaiting(const absl::Status& status) {
  const absl::Time now = options_.clock->Now();
  if (now - last_logged_ < kLogPeriod) return;
  last_logged_ = now;
  LOG(WARNING) << options_.name << " waits for the coordinator at " << options_.coordinator_address
               << " (" << (status.ok() ? "it ended the stream" : status.ToString()) << ")";
}

}  // namespace millrace::ps
