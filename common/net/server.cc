#include "common/net/server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/net/address.h"
#include "common/net/channel.h"
#include "common/net/credentials.h"
#include "common/net/deaf_listener.h"
#include "common/net/transport.h"
#include "common/start_thread.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"

namespace millrace {
namespace {

// Nothing tells that the last reference to a channel goes.
constexpr absl::Duration kInProcessPoll = absl::Milliseconds(10);
// How often people are told whom a server waits for at its end.
constexpr absl::Duration kTellPeriod = absl::Minutes(1);

absl::Status CheckReach(const ServerOptions& options, const Address& address) {
  const bool may_listen =
      address.IsLoopback() || IsSecured(address) || options.allow_insecure_remote;
  if (may_listen) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot listen on ", options.listen, ": '", address.host, "' can be reached from other ",
      "machines, and connections are not secured; give --tls_ca, --tls_certificate and --tls_key, "
      "listen on 127.0.0.1, or pass --allow_insecure_remote where the network is trusted"));
}

// The error of binding a socket to one resolved address; 0: it is free.
int BindError(const addrinfo& info) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = bind(fd, info.ai_addr, info.ai_addrlen) == 0 ? 0 : errno;
  close(fd);
  return error;
}

// gRPC says no more than that it could not listen, and is content with one of a name's addresses;
// so each is tried by hand first.
absl::Status CheckPort(const std::string& listen, const Address& address) {
  if (address.kind != Address::Kind::kTcp || address.port == 0) return absl::OkStatus();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", listen, ": ", gai_strerror(error)));
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    switch (BindError(*info)) {
      case EADDRINUSE:
        return absl::UnavailableError(absl::StrCat(
            "cannot listen on ", listen, ": port ", address.port,
            " is in use; stop the process that holds it (ss -ltnp 'sport = :", address.port,
            "' shows it), or choose another port (0 takes a free one)"));
      case EACCES:
        return absl::UnavailableError(absl::StrCat("cannot listen on ", listen, ": port ",
                                                   address.port,
                                                   " needs privileges; choose one from 1024 on"));
      default:
        break;  // Such as IPv6 where there is none; gRPC decides whether the others are enough.
    }
  }
  return absl::OkStatus();
}

void LeaveToProcessEnd(std::unique_ptr<grpc::Server> server) {
  static auto* const mutex = new Mutex;
  static auto* const left = new std::vector<std::unique_ptr<grpc::Server>>;
  MutexLock lock(mutex);
  left->push_back(std::move(server));
}

// Logs whom somebody waits for, as long as it lives. Where the system has no thread left it does
// not.
class WaitLog {
 public:
  WaitLog(Clock* clock, std::function<std::string()> whom)
      : clock_(clock), whom_(std::move(whom)), thread_(StartThread([this] { Run(); })) {}
  ~WaitLog() {
    {
      MutexLock lock(&mutex_);
      over_ = true;
    }
    changed_.SignalAll();
    if (thread_.ok()) thread_->join();
  }

 private:
  void Run() {
    while (!IsOverBy(clock_->Now() + kTellPeriod)) LOG(WARNING) << whom_();
  }
  bool IsOverBy(absl::Time deadline) {
    MutexLock lock(&mutex_);
    while (!over_ && !clock_->WaitUntil(&changed_, &mutex_, deadline)) {
    }
    return over_;
  }

  Clock* const clock_;
  const std::function<std::string()> whom_;
  Mutex mutex_;
  CondVar changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::thread> thread_;  // The last member: it uses the others.
};

void EnableStandardServices() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void Configure(grpc::ServerBuilder* builder) {
  for (const TransportSetting& setting : kTransportSettings) {
    builder->AddChannelArgument(setting.name, setting.value);
  }
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
  // gRPC's default lets two servers listen on one port, each getting some of the connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients ping idle connections every kKeepaliveTimeMs: a server must not take that for abuse.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kKeepaliveTimeMs / 2);
  // Synchronous handlers (the coordinator's Jobs, reflection) run on as many threads as there are
  // calls; one more waits for the next call.
  builder->SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const ServerOptions& options, const std::vector<grpc::Service*>& services) {
  const absl::StatusOr<Address> parsed = ParseAddress(options.listen);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", options.listen, ": ", parsed.status().message()));
  }
  const Address& address = *parsed;
  MILLRACE_RETURN_IF_ERROR(CheckReach(options, address));
  MILLRACE_RETURN_IF_ERROR(CheckPort(options.listen, address));
  MILLRACE_ASSIGN_OR_RETURN(const auto credentials, SecurityOfServer(address));
  EnableStandardServices();
  EndProcessWhenDeaf();
  grpc::ServerBuilder builder;
  Configure(&builder);
  const TransportSetting keepalive = KeepaliveTimeout(options.bulk);
  builder.AddChannelArgument(keepalive.name, keepalive.value);
  if (options.message_memory > 0) {
    grpc::ResourceQuota quota("messages");
    quota.Resize(options.message_memory);
    builder.SetResourceQuota(quota);
  }
  int port = 0;
  builder.AddListeningPort(options.listen, credentials, &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options.listen,
        ": the address is in use, or is none of this machine's (gRPC's log says more)"));
  }
  const bool tcp = address.kind == Address::Kind::kTcp;
  return std::unique_ptr<RpcServer>(new RpcServer(
      std::move(server), tcp ? JoinHostPort(address.host, port) : options.listen, options.clock));
}

RpcServer::RpcServer(std::unique_ptr<grpc::Server> server, std::string address, Clock* clock)
    : server_(std::move(server)), address_(std::move(address)), clock_(clock) {}

RpcServer::~RpcServer() {
  if (HasInProcessCallers()) {
    LOG(ERROR) << "the server at " << address_
               << " has callers in this process: it stays until the process ends";
    LeaveToProcessEnd(std::move(server_));
  } else {
    Shutdown(absl::ZeroDuration());
  }
}

std::shared_ptr<grpc::Channel> RpcServer::InProcessChannel() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  std::shared_ptr<grpc::Channel> channel = server_->InProcessChannel(args);
  MutexLock lock(&mutex_);
  std::erase_if(in_process_, [](const auto& held) { return held.expired(); });
  in_process_.push_back(channel);
  return channel;
}

bool RpcServer::HasInProcessCallers() const {
  MutexLock lock(&mutex_);
  return std::any_of(in_process_.begin(), in_process_.end(),
                     [](const auto& held) { return !held.expired(); });
}

void RpcServer::Shutdown(absl::Duration grace) {
  const WaitLog log(clock_, [this] {
    return absl::StrCat("the server at ", address_, ", which stops, waits for ",
                        HasInProcessCallers() ? "callers in this process to let go of its channel"
                                              : "calls that it still answers to end");
  });
  while (HasInProcessCallers()) absl::SleepFor(kInProcessPoll);
  server_->Shutdown(SystemDeadline(grace));
  server_->Wait();
}

}  // namespace millrace
