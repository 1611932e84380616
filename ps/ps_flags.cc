#include "ps/ps_flags.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/flags.h"
#include "common/member_name.h"
#include "common/net/address.h"
#include "common/printable.h"
#include "common/status_macros.h"
#include "common/tf_config.h"

namespace millrace::ps {
namespace {

constexpr char kDefaultListen[] = "127.0.0.1:2222";
constexpr char kDefaultArena[] = "/dev/shm";
constexpr char kNoArena[] = "off";
constexpr uint64_t kMostBandwidth = uint64_t{1} << 40;

int Complain(const absl::Status& status) {
  return ComplainOfUsage(absl::StrCat("ps: ", status.message()), std::cerr);
}

// The flags that TF_CONFIG can stand for, as far as they were given.
struct Given {
  bool coordinator = false;
  bool listen = false;
  bool name = false;

  bool all() const { return coordinator && listen && name; }
};

// Fills in what the flags left open.
absl::Status UseTfConfig(const char* text, const Given& given, PsServerOptions* options) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(text);
  if (!config.ok()) return config.status();
  MILLRACE_RETURN_IF_ERROR(CheckTask(*config, TfConfig::Task::kPs));
  if (!given.coordinator) options->coordinator_address = config->coordinator;
  if (!given.listen) options->server.listen = config->ps[static_cast<size_t>(config->index)];
  if (!given.name) options->name = absl::StrCat("ps-", config->index);
  return absl::OkStatus();
}

absl::Status ApplyTfConfig(const char* text, const Given& given, PsServerOptions* options) {
  if (text == nullptr) return absl::OkStatus();
  if (given.all()) {
    const absl::Status unused = ParseTfConfig(text).status();
    if (!unused.ok()) {
      std::cerr << "ps: TF_CONFIG is not used, since the flags say all; it is no good: "
                << Printable(unused.message()) << std::endl;
    }
    return absl::OkStatus();
  }
  const absl::Status status = UseTfConfig(text, given, options);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), "; or give --coordinator, --listen and --name, and TF_CONFIG is not used"));
}

// Empties `arena` where it is off.
absl::Status ReadArena(std::string* arena) {
  if (*arena == kNoArena) {
    arena->clear();
    return absl::OkStatus();
  }
  if (absl::StartsWith(*arena, "/") && Printable(*arena) == *arena) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--arena: '", PrintableName(*arena),
      "'; must be the absolute path of a directory of a memory file system, or ", kNoArena));
}

// What workers will be told to dial.
absl::Status CheckAdvertised(const PsServerOptions& options) {
  if (!options.advertise_address.empty()) {
    MILLRACE_RETURN_IF_ERROR(CheckDialable("--advertise", options.advertise_address));
    if (!ParseAddress(options.advertise_address)->IsWildcard()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--advertise: '", options.advertise_address,
                     "', which workers cannot dial; give HOST:PORT as workers reach this server"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Address listen, ParseListenFlag(options.server.listen));
  if (!listen.IsWildcard()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--advertise: missing; --listen is ", options.server.listen,
                   ", which workers cannot dial; give HOST:PORT as workers reach this server"));
}

absl::Status CheckOptions(const PsServerOptions& options) {
  if (options.coordinator_address.empty()) {
    return absl::InvalidArgumentError(
        "--coordinator: missing; give HOST:PORT of the coordinator, or TF_CONFIG");
  }
  MILLRACE_RETURN_IF_ERROR(CheckDialable("--coordinator", options.coordinator_address));
  MILLRACE_RETURN_IF_ERROR(CheckMemberName("--name", options.name));
  return CheckAdvertised(options);
}

}  // namespace

absl::optional<int> ParsePsFlags(int argc, const char* const* argv, const char* tf_config,
                                 PsServerOptions* options) {
  options->server.listen = kDefaultListen;
  options->arena = kDefaultArena;
  CLI::App app("Millrace parameter server: holds shards of jobs' variables.", "ps");
  AddVersionFlag(app);
  const CLI::Option* const listen =
      app.add_option("--listen", options->server.listen,
                     "HOST:PORT to serve on; port 0 takes a free one. Also: TF_CONFIG's")
          ->capture_default_str();
  app.add_option("--data_dir", options->data_dir,
                 "Directory for the shards; its own, made if missing")
      ->required();
  app.add_option("--coordinator", options->coordinator_address,
                 "HOST:PORT of the coordinator. Default: the chief of TF_CONFIG");
  const CLI::Option* const name =
      app.add_option("--name", options->name,
                     "Name in messages, unique in the cluster. Also: the task of TF_CONFIG")
          ->capture_default_str();
  app.add_option("--advertise", options->advertise_address,
                 "HOST:PORT at which workers reach this server. Default: the one it listens on");
  app.add_option("--arena", options->arena,
                 "Directory of a memory file system, for variables that outlive a killed server; "
                 "or off")
      ->capture_default_str();
  AddBytesFlag(app, "--checkpoint_bandwidth", &options->checkpoint_bandwidth, kMostBandwidth,
               "Bytes a second that checkpoints are written with, all together; 0: no limit");
  app.add_flag("--allow_insecure_remote", options->server.allow_insecure_remote,
               "Serve other machines without transport security, in a network that is trusted");
  AddTlsFlags(app, &options->tls);
  if (const absl::Status empty = CheckNoEmptyFlag(argc, argv); !empty.ok()) return Complain(empty);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error, std::cout, std::cerr);
  }
  const Given given = {.coordinator = !options->coordinator_address.empty(),
                       .listen = listen->count() > 0,
                       .name = name->count() > 0};
  absl::Status status = ReadArena(&options->arena);
  if (status.ok()) status = ApplyTfConfig(tf_config, given, options);
  if (status.ok()) status = CheckOptions(*options);
  if (status.ok()) status = CheckTlsOptions(options->tls);
  if (!status.ok()) return Complain(status);
  return absl::nullopt;
}

}  // namespace millrace::ps
