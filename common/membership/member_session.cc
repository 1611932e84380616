#include "common/membership/member_session.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/net/channel.h"
#include "common/proto_duration.h"
#include "common/retry.h"
#include "glog/logging.h"

namespace millrace {
namespace {

constexpr absl::Duration kLogPeriod = absl::Seconds(10);
// How long a coordinator may be away before that is logged, once in so long.
constexpr absl::Duration kLogGrace = absl::Seconds(5);
constexpr absl::Duration kGracePeriod = absl::Minutes(1);
constexpr absl::Duration kDefaultHeartbeatPeriod = absl::Seconds(1);
constexpr absl::Duration kShortestHeartbeatPeriod = absl::Milliseconds(10);

// What another attempt would not change; see Membership.Join.
bool IsForGood(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

// So that the members of a cluster do not dial a new coordinator in step.
absl::Duration Jittered(absl::Duration backoff) {
  absl::BitGen random;
  return backoff * absl::Uniform(random, 0.8, 1.2);
}

}  // namespace

MemberSession::MemberSession(MemberSessionOptions options, MemberListener* listener)
    : options_(std::move(options)),
      listener_(listener),
      channel_(CreateChannel(options_.coordinator_address)),
      stub_(Membership::NewStub(channel_)) {}

MemberSession::~MemberSession() {
  Leave(absl::ZeroDuration());
  if (thread_.joinable()) thread_.join();
}

void MemberSession::Start() {
  CHECK(!thread_.joinable()) << "started twice";
  thread_ = std::thread([this] { Run(); });
}

void MemberSession::Send(MemberMessage message) {
  {
    MutexLock lock(&mutex_);
    if (end_.has_value()) return;
    outbox_.push_back(std::move(message));
  }
  NoteChange();
}

void MemberSession::Leave(absl::Duration grace) {
  {
    MutexLock lock(&mutex_);
    if (!leave_by_.has_value()) leave_by_ = options_.clock->Now() + grace;
  }
  NoteChange();
  if (thread_.joinable()) Wait().IgnoreError();
}

absl::Status MemberSession::Wait() {
  MutexLock lock(&mutex_);
  while (!end_.has_value()) ended_.Wait(&mutex_);
  return *end_;
}

void MemberSession::Run() {
  absl::Status end;
  Backoff backoff(options_.first_backoff, options_.last_backoff);
  // A coordinator that is started with its members may be later than they.
  next_log_ = options_.clock->Now() + kLogGrace;
  while (!LeaveBy().has_value()) {
    const absl::Status status = ServeStream();
    if (LeaveBy().has_value()) break;
    if (IsForGood(status)) {
      end = absl::Status(status.code(),
                         absl::StrCat("the coordinator at ", options_.coordinator_address,
                                      " refuses ", options_.name, ": ", status.message()));
      listener_->Refused(end);
      break;
    }
    LogLoss(status);
    if (welcomed_) {
      backoff.Reset();
      if (options_.clock->Now() - dialled_ > options_.last_backoff) continue;
    }
    Pause(Jittered(backoff.Next()));
  }
  MutexLock lock(&mutex_);
  end_ = end;
  ended_.SignalAll();
}

absl::Status MemberSession::ServeStream() {
  welcomed_ = closing_ = overdue_ = false;
  dialled_ = options_.clock->Now();
  due_ = dialled_ + options_.welcome_timeout;
  // The pauses are this session's: the channel's own would come on top of them.
  grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
  MembershipStream stream(stub_.get(), [this] { NoteChange(); });
  stream.Send(options_.registration());
  const absl::Status end = ServeUntilEnd(&stream);
  KeepUndelivered(stream.TakeUnsent());
  if (welcomed_) listener_->Lost();
  if (!overdue_) return end;
  return absl::DeadlineExceededError(absl::StrCat("no answer to the registration within ",
                                                  absl::FormatDuration(options_.welcome_timeout)));
}

absl::Status MemberSession::ServeUntilEnd(MembershipStream* stream) {
  while (true) {
    while (auto message = stream->Next()) Take(*std::move(message));
    if (const auto end = stream->end()) return *end;
    // In this order: what was queued before Leave is sent before the goodbye.
    const absl::optional<absl::Time> leave_by = LeaveBy();
    if (welcomed_ && !closing_) SendQueued(stream);
    if (leave_by.has_value() && !closing_) SayGoodbye(stream, *leave_by);
    if (options_.clock->Now() >= due_) DoWhatIsDue(stream);
    WaitForChange(due_);
  }
}

void MemberSession::Take(CoordinatorMessage message) {
  if (!message.has_welcome()) {
    if (welcomed_) listener_->Received(std::move(message));
    return;
  }
  if (welcomed_) return;
  heartbeat_period_ = FromProto(message.welcome().heartbeat_period());
  if (heartbeat_period_ <= absl::ZeroDuration()) heartbeat_period_ = kDefaultHeartbeatPeriod;
  heartbeat_period_ = std::max(heartbeat_period_, kShortestHeartbeatPeriod);
  due_ = options_.clock->Now() + heartbeat_period_;
  LOG(INFO) << options_.name << " has joined the cluster of " << options_.coordinator_address;
  listener_->Welcomed();
  DropWhatIsVoid();
  welcomed_ = true;
}

// The listener is asked without the lock.
void MemberSession::DropWhatIsVoid() {
  std::deque<MemberMessage> queued;
  {
    MutexLock lock(&mutex_);
    queued.swap(outbox_);
  }
  queued.erase(std::remove_if(queued.begin(), queued.end(),
                              [this](const MemberMessage& message) {
                                return !listener_->OutlivesItsStream(message);
                              }),
               queued.end());
  KeepUndelivered(std::move(queued));
}

void MemberSession::DoWhatIsDue(MembershipStream* stream) {
  if (welcomed_ && !closing_) {
    due_ = options_.clock->Now() + heartbeat_period_;
    MemberMessage heartbeat;
    listener_->FillHeartbeat(*heartbeat.mutable_heartbeat());
    stream->Send(std::move(heartbeat));
    return;
  }
  overdue_ = !closing_;
  stream->Cancel();
  due_ = absl::InfiniteFuture();
}

void MemberSession::SayGoodbye(MembershipStream* stream, absl::Time leave_by) {
  closing_ = true;
  due_ = leave_by;
  if (!welcomed_) {
    stream->Cancel();
    return;
  }
  MemberMessage leaving;
  leaving.mutable_leaving();
  stream->Send(std::move(leaving));
  stream->CloseWhenSent();
}

void MemberSession::SendQueued(MembershipStream* stream) {
  std::deque<MemberMessage> queued;
  {
    MutexLock lock(&mutex_);
    queued.swap(outbox_);
  }
  for (MemberMessage& message : queued) stream->Send(std::move(message));
}

void MemberSession::KeepUndelivered(std::deque<MemberMessage> unsent) {
  MutexLock lock(&mutex_);
  outbox_.insert(outbox_.begin(), std::make_move_iterator(unsent.begin()),
                 std::make_move_iterator(unsent.end()));
}

void MemberSession::WaitForChange(absl::Time until) {
  MutexLock lock(&mutex_);
  while (!changed_) {
    if (options_.clock->WaitUntil(&changed_cond_, &mutex_, until)) break;
  }
  changed_ = false;
}

void MemberSession::NoteChange() {
  MutexLock lock(&mutex_);
  changed_ = true;
  changed_cond_.Signal();
}

void MemberSession::Pause(absl::Duration backoff) {
  const absl::Time until = options_.clock->Now() + backoff;
  while (!LeaveBy().has_value() && options_.clock->Now() < until) WaitForChange(until);
}

absl::optional<absl::Time> MemberSession::LeaveBy() const {
  MutexLock lock(&mutex_);
  return leave_by_;
}

void MemberSession::LogLoss(const absl::Status& status) {
  const absl::Time now = options_.clock->Now();
  // A coordinator that has just gone may be one that is started again, or stops with its members.
  if (welcomed_ && now >= next_grace_) {
    next_grace_ = now + kGracePeriod;
    next_log_ = std::max(next_log_, now + kLogGrace);
  }
  if (now < next_log_) return;
  next_log_ = now + kLogPeriod;
  LOG(WARNING) << options_.name << " waits for the coordinator at " << options_.coordinator_address
               << ": " << status.ToString();
}

}  // namespace millrace
