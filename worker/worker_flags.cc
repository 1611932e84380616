#include "worker/worker_flags.h"

#include <unistd.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/flags.h"
#include "common/member_name.h"
#include "common/memory_limit.h"
#include "common/net/address.h"
#include "common/status_macros.h"
#include "common/tf_config.h"

namespace millrace::worker {
namespace {

std::string DefaultName() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
    return absl::StrCat("worker-", getpid());
  return absl::StrCat("worker-", host, "-", getpid());
}

absl::Status ApplyTfConfig(const char* text, WorkerOptions* options) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(text);
  if (!config.ok()) return config.status();
  if (config->task != TfConfig::Task::kNone) {
    MILLRACE_RETURN_IF_ERROR(CheckTask(*config, TfConfig::Task::kWorker));
  }
  options->coordinator_address = config->coordinator;
  if (options->name.empty() && config->task == TfConfig::Task::kWorker) {
    options->name = absl::StrCat("worker-", config->index);
  }
  return absl::OkStatus();
}

// Where the flags do not name the coordinator.
absl::Status FindCoordinator(const char* tf_config, WorkerOptions* options) {
  if (tf_config == nullptr) {
    return absl::InvalidArgumentError("--coordinator is required, or TF_CONFIG");
  }
  const absl::Status applied = ApplyTfConfig(tf_config, options);
  if (applied.ok()) return applied;
  return absl::InvalidArgumentError(
      absl::StrCat(applied.message(), "; or give --coordinator, and TF_CONFIG is not looked at"));
}

// What the flags left open, and whether it makes sense.
absl::Status Complete(const char* tf_config, WorkerOptions* options) {
  if (options->coordinator_address.empty()) {
    MILLRACE_RETURN_IF_ERROR(FindCoordinator(tf_config, options));
  }
  MILLRACE_RETURN_IF_ERROR(CheckDialable("--coordinator", options->coordinator_address));
  if (options->name.empty()) options->name = DefaultName();
  MILLRACE_RETURN_IF_ERROR(CheckTlsOptions(options->tls));
  return CheckMemberName("--name", options->name);
}

void AddFlags(CLI::App& app, WorkerOptions* options) {
  app.add_option("--coordinator", options->coordinator_address,
                 "The coordinator's HOST:PORT. Default: the chief of TF_CONFIG");
  AddTlsFlags(app, &options->tls);
  app.add_option("--name", options->name,
                 "Unique among the cluster's workers. Default: worker-HOSTNAME-PID, or the task of "
                 "TF_CONFIG");
  app.add_option("--device", options->device,
                 "What models run on: cpu, cuda (the first GPU), cuda:N, cuda:N,M,... (several, "
                 "which share "
                 "each batch), or auto: a GPU where there is one")
      ->capture_default_str();
  app.add_option("--deterministic", options->deterministic,
                 "On a GPU equal values give equal bits; false: its sums are made in any order "
                 "where that is faster. Default: true")
      ->type_name("BOOL");
  AddDurationFlag(app, "--device_timeout", &options->device_timeout,
                  {kLeastDeviceTimeout, kMostDeviceTimeout},
                  "How long a GPU may take for a step. After that it is lost, and the worker ends. "
                  "Making a model and giving it back may take 120s in any case");
  app.add_option("--threads", options->threads, "Threads that a model computes with")
      ->check(CLI::Range(1, kMaxThreads))
      ->capture_default_str();
  app.add_option("--lease_slots", options->lease_slots,
                 "Leases taken at a time: one to compute, more to read ahead for")
      ->check(CLI::Range(1, kMaxLeaseSlots))
      ->capture_default_str();
  AddBytesFlag(app, "--data_memory", &options->data_memory, MemoryLimit(),
               "Sets of examples whose files are larger stay in them, where their format can, in "
               "place of memory. Default: a quarter of the memory that the worker may use");
  AddDurationFlag(
      app, "--step_timeout", &options->step_timeout, {absl::Milliseconds(100), absl::Hours(24)},
      "How long one pull or push may wait for ps servers before its step is left to others");
  AddDurationFlag(
      app, "--call_timeout", &options->call_timeout, {absl::Milliseconds(100), absl::Hours(1)},
      "A request to a ps server is made again when nothing of it moves for this long (and for a "
      "second for each MiB of it; up to eight times as long where the last ones were slow)");
}

int Complain(const absl::Status& status) {
  return ComplainOfUsage(absl::StrCat("worker: ", status.message()), std::cerr);
}

}  // namespace

absl::optional<int> ParseWorkerFlags(int argc, const char* const* argv, const char* tf_config,
                                     WorkerOptions* options) {
  options->name.clear();
  CLI::App app("Computes the steps of Millrace jobs.", "worker");
  AddVersionFlag(app);
  AddFlags(app, options);
  if (const absl::Status empty = CheckNoEmptyFlag(argc, argv); !empty.ok()) return Complain(empty);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error, std::cout, std::cerr);
  }
  const absl::Status complete = Complete(tf_config, options);
  if (!complete.ok()) return Complain(complete);
  return absl::nullopt;
}

}  // namespace millrace::worker
