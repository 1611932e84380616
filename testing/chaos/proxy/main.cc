// A proxy between real processes that does to their messages what a bad network does. Passes every
// call of gRPC on, whatever its method. Prints its counts when it is stopped.
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/types/optional.h"
#include "common/clock.h"
#include "common/flags.h"
#include "common/net/channel.h"
#include "common/net/transport.h"
#include "common/process.h"
#include "glog/logging.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "testing/chaos/proxy/proxied_call.h"

namespace millrace::chaos {
namespace {

class ProxyService final : public grpc::CallbackGenericService {
 public:
  explicit ProxyService(ProxyContext* context) : context_(context) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return StartProxiedCall(context_, calls_++, call);
  }

 private:
  ProxyContext* const context_;
  std::atomic<uint64_t> calls_{0};
};

struct Flags {
  std::string listen = "127.0.0.1:0";
  std::string upstream;
  FaultOptions faults;
};

// Returns the exit status where the process is to end.
absl::optional<int> ParseFlags(int argc, char** argv, Flags* flags) {
  CLI::App app("Passes gRPC calls on, and does to their messages what a bad network does.");
  app.add_option("--listen", flags->listen, "HOST:PORT; port 0: any free one");
  app.add_option("--upstream", flags->upstream, "HOST:PORT that calls are passed on to")
      ->required();
  const std::map<std::string, FaultKind> kinds = {
      {"none", FaultKind::kNone},           {"drop", FaultKind::kDrop},
      {"lose", FaultKind::kLose},           {"delay", FaultKind::kDelay},
      {"duplicate", FaultKind::kDuplicate}, {"reorder", FaultKind::kReorder}};
  app.add_option("--fault", flags->faults.kind, "What is done to messages")
      ->transform(CLI::CheckedTransformer(kinds));
  const std::map<std::string, Direction> directions = {{"requests", Direction::kRequests},
                                                       {"replies", Direction::kReplies}};
  app.add_option("--direction", flags->faults.direction, "To which messages")
      ->transform(CLI::CheckedTransformer(directions));
  app.add_option("--probability", flags->faults.probability, "Of each message to be hit")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", flags->faults.seed, "Decides which messages are hit");
  app.add_option("--methods", flags->faults.methods, "Only calls to methods that begin so");
  AddDurationFlag(app, "--longest_delay", &flags->faults.longest_delay, {absl::Milliseconds(1)},
                  "How late a message may come");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error, std::cout, std::cerr);
  }
  return absl::nullopt;
}

std::unique_ptr<grpc::Server> Serve(const std::string& listen, ProxyService* service, int* port) {
  grpc::ServerBuilder builder;
  for (const TransportSetting& setting : kTransportSettings) {
    builder.AddChannelArgument(setting.name, setting.value);
  }
  builder.AddChannelArgument(KeepaliveTimeout(/*bulk=*/true).name,
                             KeepaliveTimeout(/*bulk=*/true).value);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveTimeMs / 2);
  builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), port);
  builder.RegisterCallbackGenericService(service);
  return builder.BuildAndStart();
}

int Main(int argc, char** argv) {
  ConfigureGrpcEnvironment();
  InitProcess(argv[0]);
  Flags flags;
  if (const auto exit_status = ParseFlags(argc, argv, &flags)) return *exit_status;
  StopSignal stop;
  ProxyContext context;
  context.faults = flags.faults;
  context.upstream = CreateChannel(flags.upstream);
  ProxyService service(&context);
  int port = 0;
  const std::unique_ptr<grpc::Server> server = Serve(flags.listen, &service, &port);
  if (server == nullptr) {
    std::fprintf(stderr, "proxy: cannot listen on %s\n", flags.listen.c_str());
    return 1;
  }
  LOG(INFO) << "the proxy serves on 127.0.0.1:" << port << " for " << flags.upstream;
  stop.Wait();
  server->Shutdown(SystemDeadline(absl::ZeroDuration()));
  server->Wait();
  std::printf("{\"requests\": %llu, \"replies\": %llu, \"faults\": %llu}\n",
              static_cast<unsigned long long>(context.counts.requests),
              static_cast<unsigned long long>(context.counts.replies),
              static_cast<unsigned long long>(context.counts.faults));
  return 0;
}

}  // namespace
}  // namespace millrace::chaos

int main(int argc, char** argv) { return millrace::chaos::Main(argc, argv); }
