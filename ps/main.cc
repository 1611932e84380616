// The ps binary.
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/net/channel.h"
#include "common/process.h"
#include "common/tf_config.h"
#include "glog/logging.h"
#include "ps/ps_server.h"

namespace millrace::ps {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

int Fail(const absl::Status& status, int exit_code) {
  std::cerr << "ps: " << status.message() << std::endl;
  return exit_code;
}

// Fills in what the flags left empty.
absl::Status UseTfConfig(const char* json, bool listen_given, bool name_given,
                         PsServerOptions* options) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(json);
  if (!config.ok()) return config.status();
  if (config->task != TfConfig::Task::kPs) {
    return absl::InvalidArgumentError(
        "TF_CONFIG.task.type: this is the ps binary; the type must be \"ps\"");
  }
  if (options->coordinator_address.empty()) options->coordinator_address = config->coordinator;
  if (!listen_given) options->server.listen = config->ps[static_cast<size_t>(config->index)];
  if (!name_given) options->name = absl::StrCat("ps-", config->index);
  return absl::OkStatus();
}

int Serve(PsServerOptions options) {
  StopSignal stop;
  ConfigureGrpcEnvironment();
  absl::Status rejected;
  Mutex mutex;
  options.on_rejected = [&](const absl::Status& status) {
    {
      MutexLock lock(&mutex);
      rejected = status;
    }
    stop.RequestStop();
  };
  absl::StatusOr<std::unique_ptr<PsServer>> server = PsServer::Start(options);
  if (!server.ok()) return Fail(server.status(), kFailed);
  LOG(INFO) << options.name << " serves on " << (*server)->address() << " with data in "
            << options.data_dir << ", coordinator " << options.coordinator_address;
  stop.Wait();
  LOG(INFO) << options.name << " stops";
  if (const absl::Status status = (*server)->Stop(); !status.ok()) return Fail(status, kFailed);
  MutexLock lock(&mutex);
  return rejected.ok() ? EXIT_SUCCESS : Fail(rejected, kFailed);
}

int Main(int argc, char** argv) {
  InitProcess(argv[0]);
  PsServerOptions options;
  options.server.listen = "127.0.0.1:2222";
  CLI::App app("Millrace parameter server: holds shards of jobs' variables.", "ps");
  CLI::Option* const listen = app.add_option("--listen", options.server.listen,
                                             "HOST:PORT to serve on; port 0 takes a free one")
                                  ->capture_default_str();
  app.add_option("--data_dir", options.data_dir,
                 "Directory for the shards; its own, made if missing")
      ->required();
  app.add_option("--coordinator", options.coordinator_address,
                 "HOST:PORT of the coordinator (default: TF_CONFIG's chief)");
  CLI::Option* const name =
      app.add_option("--name", options.name, "Name in messages, unique in the cluster")
          ->capture_default_str();
  app.add_option("--advertise", options.advertise_address,
                 "HOST:PORT at which workers reach this server (default: the one it listens on)");
  app.add_flag("--allow_insecure_remote", options.server.allow_insecure_remote,
               "Serve other machines without transport security, in a network that is trusted");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kWrongUsage;
  }
  if (const char* tf_config = std::getenv("TF_CONFIG"); tf_config != nullptr) {
    const absl::Status status =
        UseTfConfig(tf_config, listen->count() > 0, name->count() > 0, &options);
    if (!status.ok()) return Fail(status, kWrongUsage);
  }
  if (options.coordinator_address.empty()) {
    return Fail(absl::InvalidArgumentError(
                    "--coordinator: missing; give HOST:PORT of the coordinator, or TF_CONFIG"),
                kWrongUsage);
  }
  return Serve(std::move(options));
}

}  // namespace
}  // namespace millrace::ps

int main(int argc, char** argv) { return millrace::ps::Main(argc, argv); }
