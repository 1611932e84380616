#include "testing/benchmarks/bare_grpc.h"

#include "absl/strings/str_cat.h"
#include "common/net/channel.h"
#include "common/net/credentials.h"
#include "common/status_macros.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/stub_options.h"

namespace millrace::testing {
namespace {

constexpr char kMethod[] = "/millrace.testing.BareGrpc/Exchange";
constexpr size_t kValues = 4096;
constexpr size_t kRequest = 64;

grpc::ByteBuffer Message(size_t bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

class Answering final : public grpc::ServerGenericBidiReactor {
 public:
  Answering() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    outgoing_ = Message(incoming_.Length() > kRequest ? kRequest : kValues);
    StartWrite(&outgoing_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&incoming_);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
};

}  // namespace

grpc::ServerGenericBidiReactor* BareGrpcServer::Service::CreateReactor(
    grpc::GenericCallbackServerContext* /*context*/) {
  return new Answering;
}

absl::StatusOr<std::unique_ptr<BareGrpcServer>> BareGrpcServer::Start() {
  std::unique_ptr<BareGrpcServer> server(new BareGrpcServer);
  MILLRACE_ASSIGN_OR_RETURN(const auto credentials, SecurityOfServer({.host = "127.0.0.1"}));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &server->port_);
  builder.RegisterCallbackGenericService(&server->service_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("bare gRPC: cannot listen");
  return server;
}

BareGrpcServer::~BareGrpcServer() {
  if (server_ != nullptr) server_->Shutdown();
}

std::string BareGrpcServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

BareGrpcClient::BareGrpcClient(const std::string& address)
    : channel_(CreateChannel(address, /*bulk=*/true)) {
  grpc::GenericStub stub(channel_);
  stub.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
  AddHold();
  StartCall();
}

BareGrpcClient::~BareGrpcClient() {
  context_.TryCancel();
  RemoveHold();
  MutexLock lock(&mutex_);
  while (!ended_) changed_.Wait(&mutex_);
}

absl::Status BareGrpcClient::PullAndPush() {
  const absl::Status pulled = Exchange(kRequest);
  return pulled.ok() ? Exchange(kValues) : pulled;
}

absl::Status BareGrpcClient::Exchange(size_t bytes) {
  {
    MutexLock lock(&mutex_);
    under_way_ = 2;
  }
  outgoing_ = Message(bytes);
  StartRead(&incoming_);
  StartWrite(&outgoing_);
  MutexLock lock(&mutex_);
  while (under_way_ > 0) changed_.Wait(&mutex_);
  return broken_ ? absl::InternalError("bare gRPC: the stream is broken") : absl::OkStatus();
}

void BareGrpcClient::Done(bool ok) {
  MutexLock lock(&mutex_);
  broken_ = broken_ || !ok;
  if (--under_way_ == 0) changed_.SignalAll();
}

void BareGrpcClient::OnDone(const grpc::Status& /*status*/) {
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.SignalAll();
}

}  // namespace millrace::testing
