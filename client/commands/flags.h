// What the command line says.
#ifndef MILLRACE_CLIENT_COMMANDS_FLAGS_H_
#define MILLRACE_CLIENT_COMMANDS_FLAGS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/net/tls.h"
#include "worker/devices.h"

namespace millrace::client {

// Each command has some of them; the others keep their defaults. A value type.
struct Flags {
  std::string command;   // "train", "submit", ...
  std::string job_file;  // JOB.textproto
  std::string job_id;
  std::string ps_server;         // Its name, or its data directory's id.
  bool undo = false;             // Of evacuate.
  std::string data;              // Replaces data.directory; empty: as the job file says.
  std::vector<std::string> set;  // "PATH=VALUE", applied in order.
  std::string cluster;           // The coordinator's HOST:PORT; empty: an embedded cluster.
  TlsOptions tls;                // Of the connection to it.
  int ps = 1;                    // Of an embedded cluster.
  int workers = 2;
  std::string device = "auto";  // Of its workers.
  bool deterministic = true;    // Likewise.
  absl::Duration device_timeout = worker::kDefaultDeviceTimeout;
  std::string state_dir;    // Of an embedded cluster; empty: a temporary one.
  std::string export_file;  // Empty: none.
  // How long to wait for a cancellation, a checkpoint or an evacuation.
  absl::Duration timeout = absl::Minutes(1);
  std::string path;          // Of checkpoints: DIR, DIR/latest or DIR/000017. Of convert: a file.
  std::string weights_file;  // Of convert: a file that has the values of the variables.
  std::string weights;       // Of convert: where they go. Empty: nowhere.
  bool slots = false;        // The optimizer's slots too.
  int keep = 0;              // So many of the newest; 0: not given.
  bool force = false;
  std::string checkpoints;             // Replaces checkpoints.directory.
  std::string restore;                 // As `path`: where the job goes on from.
  std::string init_from;               // As `path`, or a safetensors file.
  std::vector<std::string> init_rule;  // "PATTERN=NAME".
  bool init_allow_missing = false;
  bool init_allow_unused = false;
  bool best = false;           // Export the state of the best evaluation.
  bool while_running = false;  // Export variables that still change.
  bool wait = false;           // For the checkpoint that was asked for.
  bool json = false;
  bool verbose = false;
};

}  // namespace millrace::client

#endif  // MILLRACE_CLIENT_COMMANDS_FLAGS_H_
