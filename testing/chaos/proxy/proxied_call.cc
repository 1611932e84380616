// A call has two sides: downstream is the client's, upstream the server's. All that gRPC says of
// both is posted to one loop, which alone touches the state below and starts operations: there are
// no locks, and no two things happen at once.
//
// How a call ends: always with upstream's OnDone, after which the last replies are passed on and
// the call is finished downstream. A client that goes away, and a message that takes its call with
// it, cancel the upstream side and leave the rest to that. gRPC keeps OnDone back (the hold) until
// upstream's reads have ended and the loop knows it: then nothing is started upstream any more.
// Nothing is started downstream after Finish.
#include "testing/chaos/proxy/proxied_call.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/types/optional.h"
#include "common/clock.h"

namespace millrace::chaos {
namespace {

// Messages of one direction that have come and are not passed on yet.
struct Pipe {
  std::multimap<absl::Time, grpc::ByteBuffer> waiting;
  bool source_ended = false;  // No more will come.
  bool writing = false;

  bool empty() const { return waiting.empty() && !writing; }
};

// A call to a method that takes one message: it is repeated as a whole.
bool IsUnary(const std::string& method) {
  return absl::StartsWith(method, "/millrace.ParameterServerAdmin/");
}

// Calls a unary method once more, as a network would that repeats messages. Nobody waits for it.
void RepeatUnaryCall(const ProxyContext& context, const std::string& method,
                     const grpc::ByteBuffer& request) {
  struct Repeated {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };
  auto repeated = std::make_shared<Repeated>();
  repeated->request = request;
  repeated->context.set_deadline(SystemDeadline(absl::Seconds(10)));
  grpc::GenericStub(context.upstream)
      .UnaryCall(&repeated->context, method, grpc::StubOptions(), &repeated->request,
                 &repeated->reply, [repeated](const grpc::Status&) {});
}

class ProxiedCall final : public grpc::ServerGenericBidiReactor {
 public:
  ProxiedCall(ProxyContext* context, uint64_t number, grpc::GenericCallbackServerContext* call)
      : context_(context),
        method_(call->method()),
        request_faults_(context->faults, method_, Direction::kRequests, 2 * number,
                        &context->counts),
        reply_faults_(context->faults, method_, Direction::kReplies, 2 * number + 1,
                      &context->counts),
        upstream_(this) {
    upstream_context_.set_deadline(call->deadline());
  }

  void Start(std::shared_ptr<ProxiedCall> self) {
    self_ = std::move(self);
    grpc::GenericStub(context_->upstream)
        .PrepareBidiStreamingCall(&upstream_context_, method_, grpc::StubOptions(), &upstream_);
    upstream_.AddHold();
    upstream_.StartCall();
    upstream_.StartRead(&reply_);
    StartRead(&request_);
  }

 private:
  class Upstream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Upstream(ProxiedCall* call) : call_(call) {}
    void OnReadDone(bool ok) override {
      call_->Post([call = call_, ok] { call->OnReply(ok); });
    }
    void OnWriteDone(bool ok) override {
      call_->Post([call = call_, ok] { call->OnRequestWritten(ok); });
    }
    void OnDone(const grpc::Status& status) override {
      call_->Post([call = call_, status] { call->OnUpstreamDone(status); });
    }

   private:
    ProxiedCall* const call_;
  };

  // On gRPC's threads.

  template <typename Thing>
  void Post(Thing thing) {
    context_->loop.Post([self = self_, thing] { thing(); });
  }
  void OnReadDone(bool ok) override {
    Post([this, ok] { OnRequest(ok); });
  }
  void OnWriteDone(bool ok) override {
    Post([this, ok] { OnReplyWritten(ok); });
  }
  void OnCancel() override {
    Post([this] { upstream_context_.TryCancel(); });
  }
  // The last callback of both sides.
  void OnDone() override {
    context_->loop.Post([self = std::move(self_)] {});
  }

  // On the loop.

  void OnRequest(bool ok) {
    if (finished_) return;
    if (ok) {
      Accept(&requests_, &request_faults_, &request_);
      StartRead(&request_);
    } else {
      requests_.source_ended = true;
    }
    WriteRequests();
  }

  void OnReply(bool ok) {
    if (ok) {
      Accept(&replies_, &reply_faults_, &reply_);
      upstream_.StartRead(&reply_);
    } else {
      upstream_closed_ = true;
      upstream_.RemoveHold();
    }
    WriteReplies();
  }

  void OnRequestWritten(bool ok) {
    requests_.writing = false;
    if (!ok) upstream_closed_ = true;
    WriteRequests();
  }

  void OnReplyWritten(bool ok) {
    replies_.writing = false;
    if (!ok) upstream_context_.TryCancel();
    WriteReplies();
  }

  void OnUpstreamDone(const grpc::Status& status) {
    if (!end_) end_ = status;
    replies_.source_ended = true;
    WriteReplies();
  }

  // A message has come.
  void Accept(Pipe* pipe, MessageFaults* faults, grpc::ByteBuffer* incoming) {
    grpc::ByteBuffer message;
    message.Swap(incoming);
    if (end_) return;
    const absl::Time now = Clock::Real()->Now();
    MessageFaults::Fate fate = faults->Next(now);
    if (fate.break_call) return Break();
    if (IsUnary(method_) && fate.deliveries.size() > 1) {
      if (pipe == &requests_) RepeatUnaryCall(*context_, method_, message);
      fate.deliveries.resize(1);
    }
    for (const absl::Time due : fate.deliveries) {
      pipe->waiting.emplace(due, message);
      if (due > now) context_->loop.PostAt(due, [self = self_] { self->WriteBoth(); });
    }
  }

  // The network has broken.
  void Break() {
    end_ = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the proxy has dropped a message");
    requests_.waiting.clear();
    replies_.waiting.clear();
    upstream_closed_ = true;
    upstream_context_.TryCancel();
  }

  // Takes the first message that is due for `*writing`. Returns whether there was one.
  static bool TakeDue(Pipe* pipe, grpc::ByteBuffer* writing) {
    if (pipe->writing || pipe->waiting.empty()) return false;
    const auto first = pipe->waiting.begin();
    if (first->first > Clock::Real()->Now()) return false;
    writing->Swap(&first->second);
    pipe->waiting.erase(first);
    pipe->writing = true;
    return true;
  }

  void WriteBoth() {
    WriteRequests();
    WriteReplies();
  }

  void WriteRequests() {
    if (upstream_closed_) return;
    if (TakeDue(&requests_, &writing_request_)) return upstream_.StartWrite(&writing_request_);
    if (!requests_.source_ended || !requests_.empty()) return;
    upstream_closed_ = true;
    upstream_.StartWritesDone();
  }

  void WriteReplies() {
    if (finished_) return;
    if (TakeDue(&replies_, &writing_reply_)) return StartWrite(&writing_reply_);
    if (!replies_.source_ended || !replies_.empty()) return;
    finished_ = true;
    Finish(*end_);
  }

  ProxyContext* const context_;
  const std::string method_;
  MessageFaults request_faults_;
  MessageFaults reply_faults_;
  grpc::ClientContext upstream_context_;
  Upstream upstream_;
  std::shared_ptr<ProxiedCall> self_;  // Until OnDone.

  // They belong to the operation under way.
  grpc::ByteBuffer request_;
  grpc::ByteBuffer writing_request_;
  grpc::ByteBuffer reply_;
  grpc::ByteBuffer writing_reply_;

  Pipe requests_;
  Pipe replies_;
  bool upstream_closed_ = false;  // No message is started upstream any more.
  bool finished_ = false;
  absl::optional<grpc::Status> end_;
};

}  // namespace

grpc::ServerGenericBidiReactor* StartProxiedCall(ProxyContext* context, uint64_t number,
                                                 grpc::GenericCallbackServerContext* call) {
  auto proxied = std::make_shared<ProxiedCall>(context, number, call);
  proxied->Start(proxied);
  return proxied.get();
}

}  // namespace millrace::chaos
