#include "coordinator/coordinator_flags.h"

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/flags.h"
#include "common/status_macros.h"
#include "common/tf_config.h"

namespace millrace::coordinator {
namespace {

constexpr char kDefaultListen[] = "127.0.0.1:2220";

void AddDurations(CLI::App& app, CoordinatorOptions* options) {
  AddDurationFlag(app, "--heartbeat_period", &options->heartbeat_period,
                  {absl::Milliseconds(50), absl::Hours(1)},
                  "Members speak this often; silent for three periods, they are taken for dead");
  AddDurationFlag(
      app, "--lease_duration", &options->lease_duration, {absl::Milliseconds(50), absl::Hours(24)},
      "A step that nothing is heard of for this long goes to another worker, until a step of "
      "the job was timed; then leases follow the pace of the steps");
  AddDurationFlag(app, "--member_timeout", &options->member_timeout, {absl::Milliseconds(50)},
                  "A running job fails when it has waited this long for a ps server or a worker");
  AddDurationFlag(app, "--restore_grace", &options->restore_grace, {absl::Milliseconds(50)},
                  "A ps server that is gone, or cannot be reached, for this long is given up where "
                  "a job cannot go on without it: its shards are made again "
                  "from the job's furthest checkpoint, if it has one, on other servers");
  AddDurationFlag(
      app, "--stop_timeout", &options->stop_timeout, {absl::ZeroDuration(), absl::Hours(24)},
      "How long jobs may write their checkpoints before the coordinator stops; a second "
      "signal stops it at once");
  AddDurationFlag(app, "--plan_timeout", &options->plan_timeout,
                  {absl::Milliseconds(50), absl::Hours(24)},
                  "How long a worker may take to compile a model and open its data");
}

void AddLimits(CLI::App& app, CoordinatorOptions* options) {
  app.add_option("--max_running_jobs", options->max_running_jobs,
                 "Jobs that run at a time; others wait for their turns")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max_pending_jobs", options->max_pending_jobs,
                 "Jobs that may wait for their turns; no more are taken")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--retained_jobs", options->retained_jobs,
                 "Variables of an ended job are dropped when this many newer ones have ended")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option(
         "--retained_records", options->retained_records,
         "An ended job is forgotten when this many newer ones have ended, and its variables "
         "are dropped")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

// What flags have set stays.
absl::Status ApplyTfConfig(const char* text, bool listen_is_set, bool min_ps_is_set,
                           CoordinatorOptions* options) {
  if (text == nullptr) return absl::OkStatus();
  const absl::StatusOr<TfConfig> config = ParseTfConfig(text);
  if (!config.ok()) return config.status();
  MILLRACE_RETURN_IF_ERROR(CheckTask(*config, TfConfig::Task::kCoordinator));
  if (!listen_is_set) options->server.listen = config->coordinator;
  if (!min_ps_is_set && !config->ps.empty()) options->min_ps = static_cast<int>(config->ps.size());
  return absl::OkStatus();
}

int Complain(const absl::Status& status) {
  return ComplainOfUsage(absl::StrCat("coordinator: ", status.message()), std::cerr);
}

}  // namespace

absl::optional<int> ParseCoordinatorFlags(int argc, const char* const* argv, const char* tf_config,
                                          CoordinatorOptions* options) {
  options->server.listen = kDefaultListen;
  CLI::App app("Takes Millrace jobs, hands out their steps, and looks after the cluster.",
               "coordinator");
  AddVersionFlag(app);
  const CLI::Option* listen =
      app.add_option("--listen", options->server.listen,
                     "HOST:PORT to serve on; port 0: any free one. Also: the chief of TF_CONFIG")
          ->capture_default_str();
  app.add_option("--data_dir", options->data_dir,
                 "Directory of the journal; made if it is not there")
      ->required();
  app.add_flag("--cut_damaged_journal", options->cut_damaged_journal,
               "Go on with what precedes damage in a log of the journal; otherwise it is refused");
  const CLI::Option* min_ps =
      app.add_option("--min_ps", options->min_ps,
                     "Place no job before this many ps servers are there. Also: TF_CONFIG's")
          ->check(CLI::Range(1, 1 << 20))
          ->capture_default_str();
  app.add_flag("--allow_insecure_remote", options->server.allow_insecure_remote,
               "Serve other machines without transport security, in a network that is trusted");
  AddTlsFlags(app, &options->tls);
  AddDurations(app, options);
  AddLimits(app, options);
  if (const absl::Status empty = CheckNoEmptyFlag(argc, argv); !empty.ok()) return Complain(empty);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error, std::cout, std::cerr);
  }
  absl::Status status = ApplyTfConfig(tf_config, listen->count() > 0, min_ps->count() > 0, options);
  if (status.ok()) status = ParseListenFlag(options->server.listen).status();
  if (status.ok()) status = CheckTlsOptions(options->tls);
  if (!status.ok()) return Complain(status);
  return absl::nullopt;
}

}  // namespace millrace::coordinator
